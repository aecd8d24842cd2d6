"""Many small hours: the time of `nats3 store run` for an archive that has nothing, or of a backfill in one run.

    python -m nats3_dagster_tests.bench.hours [--hours 200] [--messages 100] [--backfill] [--package FOLDER]

The clock runs from the start of the command to its end, Spark's start included. `--backfill` runs the archive's job of
Dagster for all hours, as a backfill's run does. `--package` names another checkout to measure. With NATS3_STORE_URL the
objects go there.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.servers import BUCKET, running

ROOT = Path(__file__).parents[2]


def main() -> None:
    arguments = _arguments()
    with running(nats=True) as servers:
        subjects = ["bench.>"]
        restore_stream(servers.settings.nats, "BENCH", subjects, past(arguments.hours, arguments.messages, 256))
        with Workspace(servers.settings) as workspace:
            create(workspace, ArchiveSpec("bench", "BENCH", BUCKET), create_bucket=True)
        home = servers.folder / "dagster"
        home.mkdir()
        shutil.copy(arguments.package / "dagster.yaml", home)
        environment = {**os.environ, "PYTHONPATH": str(arguments.package), "DAGSTER_HOME": str(home)}
        command = _backfill(arguments.hours) if arguments.backfill else ["store", "run", "bench", "-o", "json"]
        module = "dagster" if arguments.backfill else "nats3_dagster.cli"
        with (servers.folder / "said").open("w+") as said:
            began = time.perf_counter()
            subprocess.run(
                [sys.executable, "-m", module, *command],
                check=True,
                stdout=said,
                stderr=said if arguments.backfill else None,
                env=environment,
                cwd=arguments.package,
            )
            seconds = time.perf_counter() - began
        with Workspace(servers.settings) as workspace:
            totals = workspace.catalog.archives.totals_of(workspace.catalog.archives.get("bench"))
        messages = totals.messages if totals else 0
    assert messages == arguments.hours * arguments.messages, messages
    print(f"{arguments.hours:,} hours of {arguments.messages} messages: {seconds:.1f} s")


def _backfill(hours: int) -> list[str]:
    start = _start(hours)
    ends = {"start": hour_of(start), "end": hour_of(start + (hours - 1) * HOUR_NS)}
    tags = {f"dagster/asset_partition_range_{end}": hour for end, hour in ends.items()}
    words = ["job", "execute", "-m", "nats3_dagster.definitions", "-j", "bench_capture"]
    return [*words, "--tags", json.dumps(tags)]


def _start(hours: int) -> int:
    return (time.time_ns() // HOUR_NS - hours) * HOUR_NS


def past(hours: int, messages: int, size: int) -> Iterator[Past]:
    """Messages of a payload of this size, evenly over ended hours."""
    start = _start(hours)
    data = (b'{"value": 12345, "unit": "celsius", "at": "somewhere"}' * (size // 50 + 1))[:size]
    for number in range(hours * messages):
        hour, at = divmod(number, messages)
        yield Past(number + 1, start + hour * HOUR_NS + at * HOUR_NS // messages, f"bench.{number % 8}", b"", data)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m nats3_dagster_tests.bench.hours")
    parser.add_argument("--hours", type=int, default=200)
    parser.add_argument("--messages", type=int, default=100, help="of each hour")
    parser.add_argument("--backfill", action="store_true", help="by Dagster's job")
    parser.add_argument("--package", type=Path, default=ROOT)
    return parser.parse_args()


if __name__ == "__main__":
    main()
