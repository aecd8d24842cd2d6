"""Processor time of a capture and of a replay: which process takes it, and in the workers which library.

Invariant: the processes' times are the kernel's. Only the division of the workers' own time by library is a sample, by
`perf` (Debian: linux-perf); where there is none, it stands in one row.

    python -m nats3_dagster_tests.bench.profile [--messages 1000000] [--rounds 3] [--sizes 256,1024] [--picture FILE]
"""

import argparse
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from statistics import median

import psutil
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import Progress

from nats3_dagster.objects import create_bucket
from nats3_dagster.pipeline.session import session
from nats3_dagster_tests.bench import rows, servers, spark_rows
from nats3_dagster_tests.bench.libraries import WORKERS_OWN, library_shares
from nats3_dagster_tests.bench.rows import Case
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.support.pictures import draw_bars

SERVER, STORE, KERNEL, REST = "server", "store", "kernel", "Spark, driver"
PATHS = ("capture", "replay")
# Samples a second of each worker.
_SAMPLES = 997
# Microseconds of processor time for a message, by part.
Parts = dict[str, float]


def main() -> None:
    arguments = _arguments()
    measured: dict[str, Parts] = {}
    with servers.running(nats=True) as started, session() as spark, tempfile.TemporaryDirectory() as folder:
        create_bucket(started.settings.store, servers.BUCKET)
        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=len(arguments.sizes) * len(PATHS) * arguments.rounds)
            for size in arguments.sizes:
                case = rows.fill(started.settings, arguments.messages * min(256, size) // size, size)
                spark_rows.capture(spark, case)  # starts the workers, and their imports of a first task
                rounds: dict[str, list[Parts]] = {path: [] for path in PATHS}
                for _ in range(arguments.rounds):
                    for path in PATHS:
                        bar.update(task, description=f"{size} B {path}")
                        rounds[path].append(measure(spark, case, path, Path(folder, "perf.data")))
                        bar.advance(task)
                measured |= {f"{path} {size} B": medians(parts) for path, parts in rounds.items()}
    for path in PATHS:
        print_results(path, {name: parts for name, parts in measured.items() if name.startswith(path)})
    out = Path(".nats3", "profile.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(measured, indent=2) + "\n")
    print(f"written: {out}")
    if arguments.picture:
        draw_bars(arguments.picture, "µs of processor time a message", measured)
        print(f"written: {arguments.picture}")


def measure(spark: SparkSession, case: Case, path: str, samples: Path) -> Parts:
    """One capture or replay of all messages of the case."""
    rows.empty_sink(case)
    before = _times()
    with _sampled([pid for pid, (part, _, _) in before.items() if part == WORKERS_OWN], samples):
        getattr(spark_rows, path)(spark, case)
    parts: Parts = {}
    for pid, (part, user_s, system_s) in _times().items():
        _, user_before_s, system_before_s = before.get(pid, ("", 0.0, 0.0))
        in_kernel = KERNEL if part == WORKERS_OWN else part
        for name, spent_s in ((part, user_s - user_before_s), (in_kernel, system_s - system_before_s)):
            parts[name] = parts.get(name, 0.0) + spent_s * 1e6 / case.messages
    own = parts.pop(WORKERS_OWN, 0.0)
    return parts | {name: own * share for name, share in library_shares(samples).items()}


def medians(rounds: list[Parts]) -> Parts:
    """The median of each part, the largest first."""
    names = {name for parts in rounds for name in parts}
    parts = {name: median(one.get(name, 0.0) for one in rounds) for name in names}
    return dict(sorted(parts.items(), key=lambda item: -item[1]))


def print_results(path: str, measured: Mapping[str, Parts]) -> None:
    """`measured`: by the size of the messages."""
    sizes = [name.removeprefix(path).strip() for name in measured]
    titles = [f"{size} {what}" for size in sizes for what in ("µs", "share")]
    table = new_table(f"a {path}: processor time of a message, medians", "part", *titles)
    names = list(dict.fromkeys(name for parts in measured.values() for name in parts))
    for name in [*names, "all"]:
        cells = []
        for parts in measured.values():
            whole = sum(parts.values())
            spent = whole if name == "all" else parts.get(name, 0.0)
            cells += [f"{spent:.2f}", f"{spent / whole:.0%}"]
        table.add_row(name, *cells)
    print_table(table)


def _times() -> dict[int, tuple[str, float, float]]:
    """Of this process and of all that it started: the part that each belongs to, its user and its system time in
    seconds."""
    this = psutil.Process()
    times: dict[int, tuple[str, float, float]] = {}
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.Error):
            spent = process.cpu_times()
            times[process.pid] = (_part(process.cmdline()), spent.user, spent.system)
    return times


def _part(command: list[str]) -> str:
    if "nats-server" in command[0]:
        return SERVER
    if any("swift" in word for word in command[:6]):
        return STORE
    return WORKERS_OWN if "nats3_dagster.pipeline.worker_daemon" in command[1:3] else REST


@contextmanager
def _sampled(pids: list[int], file: Path) -> Iterator[None]:
    """Samples of these processes in a file, if there is `perf`."""
    program = which("perf")
    if program is None:
        yield
        return
    command = [
        program,
        "record",
        "-F",
        str(_SAMPLES),
        "-e",
        "cpu-clock:u",
        "-o",
        str(file),
        "-p",
        ",".join(map(str, pids)),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as recording:
        try:
            yield
        finally:
            recording.send_signal(signal.SIGINT)  # it writes the file, and ends


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m nats3_dagster_tests.bench.profile")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of 256 B; larger ones are fewer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=lambda text: [int(s) for s in text.split(",")], default=[256, 1024])
    parser.add_argument("--picture", type=Path, help="a file for bars of the parts, as SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
