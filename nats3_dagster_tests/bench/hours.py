"""Many small hours: the time of `nats3 store run` for an archive that has nothing.

    python -m nats3_dagster_tests.bench.hours [--hours 200] [--messages 100] [--package FOLDER]

The clock runs from the start of the command to its end, Spark's start included. `--package` names another checkout to
measure.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS
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
        environment = {**os.environ, "PYTHONPATH": str(arguments.package)}
        command = [sys.executable, "-m", "nats3_dagster.cli", "store", "run", "bench", "-o", "json"]
        began = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, cwd=arguments.package)
        seconds = time.perf_counter() - began
        hours = json.loads(done.stdout)
    messages = sum(hour["messages"] for hour in hours)
    assert messages == arguments.hours * arguments.messages, messages
    print(
        f"{arguments.hours:,} hours of {arguments.messages} messages: {seconds:.1f} s, the captures "
        f"{sum(hour['seconds'] for hour in hours):.1f} s"
    )


def past(hours: int, messages: int, size: int) -> Iterator[Past]:
    """Messages of a payload of this size, evenly over ended hours."""
    start = (time.time_ns() // HOUR_NS - hours) * HOUR_NS
    data = (b'{"value": 12345, "unit": "celsius", "at": "somewhere"}' * (size // 50 + 1))[:size]
    for number in range(hours * messages):
        hour, at = divmod(number, messages)
        yield Past(number + 1, start + hour * HOUR_NS + at * HOUR_NS // messages, f"bench.{number % 8}", b"", data)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m nats3_dagster_tests.bench.hours")
    parser.add_argument("--hours", type=int, default=200)
    parser.add_argument("--messages", type=int, default=100, help="of each hour")
    parser.add_argument("--package", type=Path, default=ROOT)
    return parser.parse_args()


if __name__ == "__main__":
    main()
