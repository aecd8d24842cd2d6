"""`make latency`: how old a message is when it is archived, at default thresholds and with Dagster's real daemon.

The rule kept here: nothing is driven by hand. A publisher publishes, `dagster-daemon run` does the rest as it does in
production (dagster.yaml and workspace.yaml of this project), and what happened is read from the catalog and from
Dagster's event log afterwards. The age of a message is the time of its commit less its store time at the server.

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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from dagster import DagsterInstance, RunsFilter
from rich.console import Console
from rich.table import Table

from nats3_dagster.archive.create import create
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.instance import dagster_home
from nats3_dagster.dev.process import Process, answers, free_port
from nats3_dagster.dev.stack import Stack
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, SeqRange
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.wire import Wire

ROOT = Path(__file__).parents[2]
# From the oldest message that a run took to the commit that took it, step by step: what ends each step.
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
            settings = Settings.load()
            create_bucket(settings.store, "archive")
            with Wire(stack.nats.url) as wire:
                wire.create_stream("EV", "ev.>")
                spec = ArchiveSpec(name="events", stream="EV", bucket="archive")
                with Workspace(settings) as workspace:
                    create(workspace, spec)
                with ExitStack() as running:
                    if arguments.connect:
                        os.environ["NATS3_SPARK_REMOTE"] = running.enter_context(_connect_server(Path(folder)))
                    # A code location knows the archives of its last load.
                    running.enter_context(_daemon(Path(folder)))
                    _publish(wire, arguments.minutes * 60, arguments.rate)
                    _wait(lambda: not _lacking(settings), arguments.patience)
            ages, runs = _ages(settings), _runs(settings)
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
    """The address of a Spark Connect server, once it answers."""
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


def _lacking(settings: Settings) -> int:
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        state = stream_state(link, "EV")
        lacking = catalog.coverage.missing(
            catalog.archives.get("events"), state.incarnation, SeqRange(1, state.last_seq)
        )
    return sum(seqs.size for seqs in lacking)


def _wait(done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"messages are not captured after {seconds} s"
        time.sleep(1)
    time.sleep(5)  # the run that committed them writes its last events


def _ages(settings: Settings) -> list[float]:
    """Of every message, in seconds."""
    stored = _times(settings)
    with psycopg.connect(settings.postgres) as connection:
        rows = connection.execute(
            "select lower(seqs), upper(seqs), extract(epoch from committed_at)::float8 from nats3.chunk"
        ).fetchall()
    return sorted(committed - stored[seq] for first, end, committed in rows for seq in range(first, end))


def _times(settings: Settings) -> dict[int, float]:
    with Link(settings.nats) as link:
        state = stream_state(link, "EV")
    spec = ReadSpec(state.incarnation, SeqRange(1, state.last_seq))
    return {
        seq: ns / SECOND_NS
        for batch in read_batches(settings.nats, spec)
        for seq, ns in zip(batch.column("seq").to_pylist(), batch.column("time_ns").to_pylist(), strict=True)
    }


def _runs(settings: Settings) -> list[dict[str, float]]:
    """Seconds of each step of each run that committed something, and of all of it."""
    stored, found = _times(settings), []
    with psycopg.connect(settings.postgres) as connection, DagsterInstance.get() as instance:
        committed = {
            run: (first, at) for run, first, at in connection.execute(
                "select dagster_run_id, min(lower(seqs)), extract(epoch from max(committed_at))::float8 "
                "from nats3.chunk group by 1 order by 2"
            ).fetchall()
        }  # fmt: skip
        for run, (first, at) in committed.items():
            (record,) = instance.get_run_records(RunsFilter(run_ids=[run]))
            ended = _events(instance, run) | {
                "run created by the sensor": record.create_timestamp.timestamp(), "chunks committed": at,
            }  # fmt: skip
            times = [stored[first], *(ended[mark] for mark in STEPS.values())]
            found.append({name: b - a for name, a, b in zip(STEPS, times, times[1:], strict=False)})
    return found


def _events(instance: DagsterInstance, run: str) -> dict[str, float]:
    """When each kind of event of a run came first, and each of our own lines, by its beginning."""
    when: dict[str, float] = {}
    for entry in instance.all_logs(run):
        event: Any = entry.dagster_event
        name = event.event_type_value if event else "Spark is ready" if "Spark is ready" in entry.user_message else ""
        when.setdefault(name, entry.timestamp)
    return when


def _summary(ages: list[float]) -> dict[str, float]:
    cut = statistics.quantiles(ages, n=100, method="inclusive")
    return {"messages": len(ages), "p50": cut[49], "p95": cut[94], "max": ages[-1]}


def _print(ages: list[float], runs: list[dict[str, float]]) -> None:
    found = _summary(ages)
    console = Console()
    console.print(
        f"age of {found['messages']:,} messages when archived: p50 {found['p50']:.1f} s, p95 {found['p95']:.1f} s, "
        f"max {found['max']:.1f} s; {len(runs)} runs"
    )
    table = Table(title="seconds, from the oldest message of a run to its end")
    for column in ("step", "median", "max"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for step in STEPS:
        values = [run[step] for run in runs]
        table.add_row(step, f"{statistics.median(values):.1f}", f"{max(values):.1f}")
    console.print(table)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make latency")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=float, default=4, help="messages a second")
    parser.add_argument("--patience", type=float, default=240, help="seconds to wait for the last messages")
    parser.add_argument("--connect", action="store_true", help="on a Spark Connect server, not with a session a run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
