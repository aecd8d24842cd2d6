"""`make latency`: how old a message is when it is archived, and what that costs, with Dagster's real daemon.

Invariant: nothing starts a capture but `dagster-daemon run`, as in production (dagster.yaml and workspace.yaml of this
project). Ages come from the catalog afterwards, and times of steps from Dagster's event log. The age of a message is
the time of its commit minus its store time at the server.

    python -m nats3_dagster_tests.bench.latency [--minutes 5] [--rate 4] [--max-age 30 2] [--no-connect]

For each threshold of age it measures anew, on a Spark Connect server unless told otherwise.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from dagster import DagsterInstance, RunsFilter
from rich.console import Console

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.status import chunks
from nats3_dagster.defs.instance.instance import dagster_home
from nats3_dagster.dev.connect_server import ConnectServer
from nats3_dagster.dev.process import Process, wait_for
from nats3_dagster.dev.stack import Stack
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, Chunk, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.processes import Samples, Use, ended_s, own_use, sampled, use_of
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.support.pictures import Panel, draw_lines
from nats3_dagster_tests.support.process_use import tree_of
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
ARCHIVE, STREAM = "events", "EV"
# The steps from the oldest message of a run to its first commit, each with the event that ends it.
STEPS = {
    "threshold and tick": "run created by the sensor",
    "queue": "PIPELINE_STARTING",
    "process and imports": "STEP_START",
    "session": "Spark is ready",
    "plan, read, commit": "chunks committed",
}
# What costs processor time, by process.
RUNS, SPARK, DAGSTER = "runs", "Spark Connect", "daemon and code server"


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement."""

    max_age_s: int
    # (seconds since the first message when it was archived, its age then), ascending.
    ages: list[tuple[float, float]]
    # Of each run, the seconds of each step.
    runs: list[dict[str, float]]
    captures: int
    samples: Samples

    @property
    def summary(self) -> dict[str, float]:
        """Percentiles of the ages in seconds, and what a capture cost."""
        ages = sorted(age for _, age in self.ages)
        cut = statistics.quantiles(ages, n=100, method="inclusive")
        spent = self.samples.spent_s(RUNS) + self.samples.spent_s(SPARK)
        return {
            "max_age_s": self.max_age_s,
            "messages": len(ages),
            "p50": cut[49],
            "p95": cut[94],
            "max": ages[-1],
            "runs": len(self.runs),
            "captures": self.captures,
            "processor_s_a_capture": spent / self.captures,
            "processor_s_a_run": spent / len(self.runs),
            "runs_peak_mb": self.samples.peak_mb(RUNS),
            "spark_peak_mb": self.samples.peak_mb(SPARK),
        }


def main() -> None:
    arguments = _arguments()
    all_measured: list[Measured] = []
    for max_age_s in arguments.max_age:
        with tempfile.TemporaryDirectory(prefix="nats3-latency-") as folder:
            all_measured.append(_measure(Path(folder), max_age_s, arguments))
        _print(all_measured[-1])
    out = Path(".nats3", "latency.json")
    out.parent.mkdir(exist_ok=True)
    rows = [measured.summary | {"steps": measured.runs} for measured in all_measured]
    out.write_text(json.dumps(rows, indent=2) + "\n")
    for measured in all_measured:
        _draw(out.with_name(f"latency-{measured.max_age_s}s.svg"), measured)
    Console().print(f"Written: {out}, and a picture of each beside it", soft_wrap=True)


def _measure(folder: Path, max_age_s: int, arguments: argparse.Namespace) -> Measured:
    """One archive with this threshold of age, from nothing to the last message captured."""
    os.environ["NATS3_HOME"] = str(folder)
    os.environ.pop("NATS3_SPARK_REMOTE", None)
    with Stack(folder, stay=False) as stack, ExitStack() as running:
        os.environ.update(stack.endpoints.environment)
        os.environ |= {"DAGSTER_HOME": str(dagster_home()), "DAGSTER_DISABLE_TELEMETRY": "yes"}
        wire, workspace = running.enter_context(Wire(stack.nats.url)), running.enter_context(Workspace(Settings.load()))
        wire.create_stream(STREAM, "ev.>")
        spec = ArchiveSpec(name=ARCHIVE, stream=STREAM, bucket="archive", max_age_s=max_age_s)
        create(workspace, spec, create_bucket=True)
        spark = None
        if arguments.connect:
            # As `nats3 dev` starts it.
            server = ConnectServer(folder / "connect").start()
            running.callback(server.stop)
            spark, os.environ["NATS3_SPARK_REMOTE"] = server.process, server.remote or ""
        # After the archive: a code location knows the archives of its last load.
        daemon = running.enter_context(_daemon(folder))
        probes = {
            RUNS: lambda: _use_of_runs(daemon),
            DAGSTER: lambda: _use_without_runs(daemon),
            SPARK: lambda: use_of(tree_of(spark.pid) if spark else []),
        }
        with sampled(probes) as samples:
            _publish(wire, arguments.minutes * 60, arguments.rate)
            is_captured = wait_for(lambda: _is_captured(workspace), arguments.patience, every_s=1)
        assert is_captured, f"messages are not captured after {arguments.patience} s"
        captured, stored_at = chunks(workspace, ARCHIVE), _store_times(workspace)
        # A capture commits its chunks at once.
        captures = len({chunk.committed_at for chunk in captured})
        return Measured(max_age_s, _ages(captured, stored_at), _runs(captured, stored_at), captures, samples)


def _code_servers(daemon: Process) -> list[psutil.Process]:
    """The processes of the daemon that load the code. Their children are runs."""
    return [p for p in tree_of(daemon.pid) if _says(p, "api") and _says(p, "grpc")]


def _use_of_runs(daemon: Process) -> Use:
    """The use of the runs that live, and the processor time of those that have ended."""
    return sum((use_of(tree_of(s.pid)[1:]) + Use(ended_s(s)) for s in _code_servers(daemon)), Use())


def _use_without_runs(daemon: Process) -> Use:
    runs = {p.pid for server in _code_servers(daemon) for p in tree_of(server.pid)[1:]}
    return sum((own_use(p) for p in tree_of(daemon.pid) if p.pid not in runs), Use())


def _says(process: psutil.Process, word: str) -> bool:
    try:
        return word in process.cmdline()
    except psutil.Error:
        return False


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


def _ages(captured: Sequence[Chunk], stored_at: Mapping[int, float]) -> list[tuple[float, float]]:
    """When each message was archived, in seconds since the first was stored, and its age then; ascending."""
    first = min(stored_at.values())
    return sorted(
        (chunk.committed_at.timestamp() - first, chunk.committed_at.timestamp() - stored_at[seq])
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
    """The seconds of each step, for each run that committed chunks, up to its first commit."""
    runs: list[dict[str, float]] = []
    with DagsterInstance.get() as instance:
        for run_id, committed in _by_run(captured).items():
            (record,) = instance.get_run_records(RunsFilter(run_ids=[run_id]))
            ended_at = _event_times(instance, run_id) | {
                "run created by the sensor": record.create_timestamp.timestamp(),
                "chunks committed": min(chunk.committed_at.timestamp() for chunk in committed),
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


def _print(measured: Measured) -> None:
    now, console = measured.summary, Console()
    console.print(
        f"\nmax_age {measured.max_age_s} s: age of {now['messages']:,.0f} messages when archived: "
        f"p50 {now['p50']:.1f} s, p95 {now['p95']:.1f} s, max {now['max']:.1f} s"
    )
    console.print(
        f"{now['captures']:.0f} captures in {now['runs']:.0f} runs: {now['processor_s_a_capture']:.2f} s of processor "
        f"time a capture; peak of runs {now['runs_peak_mb']:.0f} MB, of Spark Connect {now['spark_peak_mb']:.0f} MB"
    )
    table = new_table("seconds, from the oldest message of a run to its first commit", "step", "median", "max")
    for step in STEPS:
        values = [run[step] for run in measured.runs]
        table.add_row(step, f"{statistics.median(values):.1f}", f"{max(values):.1f}")
    print_table(table)
    table = new_table("processor time", "process", "s", "% of a core")
    for name, points in measured.samples.processor_s.items():
        spent = measured.samples.spent_s(name)
        table.add_row(name, f"{spent:.1f}", f"{100 * spent / points[-1][0]:.1f}")
    print_table(table)


def _draw(file: Path, measured: Measured) -> None:
    """Age, processor time and memory over time."""

    def minutes(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(at / 60, value) for at, value in points]

    samples = measured.samples
    draw_lines(
        file,
        "minutes",
        [
            Panel("Age of messages when archived", "s", {"age": minutes(measured.ages)}),
            Panel("Processor time so far", "s", {name: minutes(row) for name, row in samples.processor_s.items()}),
            Panel("Resident memory", "MB", {name: minutes(row) for name, row in samples.memory_mb.items()}),
        ],
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make latency")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--rate", type=float, default=4, help="messages a second")
    default = ArchiveSpec(name=ARCHIVE, stream=STREAM, bucket="archive").max_age_s
    parser.add_argument("--max-age", type=int, nargs="+", default=[default, 2], help="seconds; each is measured")
    parser.add_argument("--patience", type=float, default=240, help="seconds to wait for the last messages")
    parser.add_argument("--no-connect", dest="connect", action="store_false", help="a session of each run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
