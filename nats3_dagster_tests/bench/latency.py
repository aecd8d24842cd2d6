"""`make latency`: how old a message is when it is archived, at default thresholds and with Dagster's real daemon.

Invariant: nothing starts a capture but `dagster-daemon run`, as in production (dagster.yaml and workspace.yaml of this
project). The measurements come from the catalog and from Dagster's event log afterwards. The age of a message is the
time of its commit minus its store time at the server.

    python -m nats3_dagster_tests.bench.latency [--minutes 5] [--rate 4] [--connect]
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dagster import DagsterInstance, RunsFilter
from rich.console import Console

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.status import chunks
from nats3_dagster.defs.instance.instance import dagster_home
from nats3_dagster.dev.process import Process, answers, free_port, wait_for
from nats3_dagster.dev.stack import Stack
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, Chunk, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
ARCHIVE, STREAM = "events", "EV"
# The steps from the oldest message of a run to its end, each with the event that ends it.
STEPS = {
    "threshold and tick": "run created by the sensor",
    "queue": "PIPELINE_STARTING",
    "process and imports": "STEP_START",
    "session": "Spark is ready",
    "plan, read, commit": "chunks committed",
    "end of the run": "PIPELINE_SUCCESS",
}


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="nats3-latency-") as folder:
        os.environ["NATS3_HOME"] = folder
        with Stack(Path(folder), stay=False) as stack:
            os.environ.update(stack.endpoints.environment)
            os.environ |= {"DAGSTER_HOME": str(dagster_home()), "DAGSTER_DISABLE_TELEMETRY": "yes"}
            with Wire(stack.nats.url) as wire, Workspace(Settings.load()) as workspace:
                wire.create_stream(STREAM, "ev.>")
                create(workspace, ArchiveSpec(name=ARCHIVE, stream=STREAM, bucket="archive"), create_bucket=True)
                with ExitStack() as running:
                    if arguments.connect:
                        os.environ["NATS3_SPARK_REMOTE"] = running.enter_context(_connect_server(Path(folder)))
                    # After the archive: a code location knows the archives of its last load.
                    running.enter_context(_daemon(Path(folder)))
                    _publish(wire, arguments.minutes * 60, arguments.rate)
                    is_captured = wait_for(lambda: _is_captured(workspace), arguments.patience, every_s=1)
                    assert is_captured, f"messages are not captured after {arguments.patience} s"
                captured, stored_at = chunks(workspace, ARCHIVE), _store_times(workspace)
            ages, runs = _ages(captured, stored_at), _runs(captured, stored_at)
    _print(ages, runs)
    out = Path(".nats3", "latency.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"ages": _summary(ages), "runs": runs}, indent=2) + "\n")


@contextmanager
def _daemon(folder: Path) -> Iterator[Process]:
    """`dagster-daemon run` with the code location that workspace.yaml names, a process of its own."""
    program = str(Path(sys.executable).with_name("dagster-daemon"))
    argv = [program, "run", "-w", str(ROOT / "workspace.yaml")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    log = folder / "daemon.log"
    process = Process.start(argv, ("-w", argv[-1]), log, env=environment, end_signal=signal.SIGINT)
    try:
        yield process
    except AssertionError:
        print("".join(log.read_text().splitlines(keepends=True)[-40:]), file=sys.stderr)
        raise
    finally:
        process.stop()


@contextmanager
def _connect_server(folder: Path) -> Iterator[str]:
    """The address of a Spark Connect server that answers."""
    port = free_port()
    argv = [str(ROOT / "spark" / "connect-server.sh"), "--conf", f"spark.connect.grpc.binding.port={port}"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    process = Process.start(argv, (argv[-1],), folder / "connect.log", env=environment)
    try:
        process.wait_until(lambda: answers(port), "Spark Connect", timeout_s=90)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.stop()


def _publish(wire: Wire, seconds: float, rate: float) -> None:
    """`rate` messages a second, evenly."""
    began = time.monotonic()
    for n in itertools.count():
        if (due := n / rate) >= seconds:
            return
        time.sleep(max(0.0, began + due - time.monotonic()))
        wire.publish([(f"ev.{n % 7}", b"", b'{"n": %d}' % n)])


def _is_captured(workspace: Workspace) -> bool:
    """Whether every message is captured, and the runs that captured them have written their last events."""
    if not backlog(
        workspace, workspace.catalog.archives.get(ARCHIVE), stream_state(workspace.link, STREAM), time.time_ns()
    ).is_empty:
        return False
    run_ids = list(_by_run(chunks(workspace, ARCHIVE)))
    with DagsterInstance.get() as instance:
        runs = instance.get_runs(RunsFilter(run_ids=run_ids)) if run_ids else []
        return all(run.is_finished for run in runs)


def _ages(captured: Sequence[Chunk], stored_at: Mapping[int, float]) -> list[float]:
    """The age of every message when it was archived, in seconds, ascending."""
    return sorted(
        chunk.committed_at.timestamp() - stored_at[seq]
        for chunk in captured
        for seq in range(chunk.meta.covers.first, chunk.meta.covers.last + 1)
    )


def _store_times(workspace: Workspace) -> dict[int, float]:
    """The store time of every message, in seconds since 1970, by sequence."""
    state = stream_state(workspace.link, STREAM)
    spec = ReadSpec(state.incarnation, SeqRange(1, state.last_seq))
    return {
        seq: ns / SECOND_NS
        for batch in read_batches(workspace.settings.nats, spec)
        for seq, ns in zip(batch.column("seq").to_pylist(), batch.column("time_ns").to_pylist(), strict=True)
    }


def _by_run(captured: Sequence[Chunk]) -> dict[str, list[Chunk]]:
    """The chunks by the Dagster run that committed them, in the order of the stream."""
    chunks_by_run: dict[str, list[Chunk]] = {}
    for chunk in captured:
        assert chunk.dagster_run_id, chunk
        chunks_by_run.setdefault(chunk.dagster_run_id, []).append(chunk)
    return chunks_by_run


def _runs(captured: Sequence[Chunk], stored_at: Mapping[int, float]) -> list[dict[str, float]]:
    """The seconds of each step, for each run that committed chunks."""
    runs: list[dict[str, float]] = []
    with DagsterInstance.get() as instance:
        for run_id, committed in _by_run(captured).items():
            (record,) = instance.get_run_records(RunsFilter(run_ids=[run_id]))
            ended_at = _event_times(instance, run_id) | {
                "run created by the sensor": record.create_timestamp.timestamp(),
                "chunks committed": max(chunk.committed_at.timestamp() for chunk in committed),
            }
            oldest = min(chunk.meta.covers.first for chunk in committed)
            times = [stored_at[oldest], *(ended_at[event] for event in STEPS.values())]
            runs.append({name: b - a for name, a, b in zip(STEPS, times, times[1:], strict=False)})
    return runs


def _event_times(instance: DagsterInstance, run_id: str) -> dict[str, float]:
    """When each type of event of a run came first, and our own line that Spark is ready; seconds since 1970."""
    when: dict[str, float] = {}
    for entry in instance.all_logs(run_id):
        event: Any = entry.dagster_event
        name = event.event_type_value if event else "Spark is ready" if "Spark is ready" in entry.user_message else ""
        when.setdefault(name, entry.timestamp)
    return when


def _summary(ages: list[float]) -> dict[str, float]:
    """Their number, and percentiles in seconds."""
    cut = statistics.quantiles(ages, n=100, method="inclusive")
    return {"messages": len(ages), "p50": cut[49], "p95": cut[94], "max": ages[-1]}


def _print(ages: list[float], runs: list[dict[str, float]]) -> None:
    summary = _summary(ages)
    console = Console()
    console.print(
        f"age of {summary['messages']:,} messages when archived: p50 {summary['p50']:.1f} s, "
        f"p95 {summary['p95']:.1f} s, max {summary['max']:.1f} s; {len(runs)} runs"
    )
    table = new_table("seconds, from the oldest message of a run to its end", "step", "median", "max")
    for step in STEPS:
        values = [run[step] for run in runs]
        table.add_row(step, f"{statistics.median(values):.1f}", f"{max(values):.1f}")
    print_table(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make latency")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=float, default=4, help="messages a second")
    parser.add_argument("--patience", type=float, default=240, help="seconds to wait for the last messages")
    parser.add_argument("--connect", action="store_true", help="on a Spark Connect server, not with a session a run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
