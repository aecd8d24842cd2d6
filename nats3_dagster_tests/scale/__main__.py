"""`make scale`: captures and replays on a standalone Spark cluster of 1, 2 and 4 workers, each pinned to a core: how
fast, and which part has no more processor to give. What came out is compared message by message.

    python -m nats3_dagster_tests.scale [--workers 1,2,4] [--messages 400000]

After them, on the largest cluster, dynamic allocation with shuffle tracking, and an executor that is killed in the
middle of a replay. The figures are written to `.nats3/scale.json`, with a picture beside it.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.servers import BUCKET, Servers, running
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.scale.cluster import Cluster
from nats3_dagster_tests.scale.work import STREAM, Run, capture, fill, hours, judge_captured, judge_replayed, replay
from nats3_dagster_tests.soak.truth import Truth
from nats3_dagster_tests.support.pictures import draw_bars

_PARTS = ("nats-server", "S3 server", "Postgres", "driver", "workers")
_DYNAMIC = (
    "spark.dynamicAllocation.enabled=true",
    "spark.dynamicAllocation.shuffleTracking.enabled=true",
    "spark.dynamicAllocation.minExecutors=0",
    "spark.dynamicAllocation.initialExecutors=0",
    "spark.dynamicAllocation.executorIdleTimeout=5s",
)


def main() -> int:
    arguments = _arguments()
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    workers: list[int] = arguments.workers
    broken: list[str] = []
    rows: dict[str, Run] = {}
    with running(nats=True) as servers:
        assert servers.nats
        truth = fill(servers.nats.url, arguments.messages)
        of = hours(servers.nats.url)
        for count in workers:
            with Cluster(servers.folder / f"cluster{count}", count) as cluster:
                broken += _measure(servers, cluster, f"{count}", of, _fixed(count), truth, rows)
                if count == max(workers):
                    dynamic = (*_DYNAMIC, f"spark.dynamicAllocation.maxExecutors={count}", "spark.executor.cores=1")
                    broken += _measure(servers, cluster, f"{count} dynamic", of, dynamic, truth, rows)
                    kill = arguments.messages // 8
                    broken += _measure(servers, cluster, f"{count} killed", of, _fixed(count), truth, rows, kill)
    _print(rows, arguments.messages, max(workers))
    _write(rows, arguments.messages)
    for line in broken:
        print(f"BROKEN: {line}")
    print(f"{len(broken)} broken promises; every message was compared")
    return 1 if broken else 0


def _fixed(count: int) -> tuple[str, ...]:
    return (f"spark.cores.max={count}", "spark.executor.cores=1")


def _measure(
    servers: Servers,
    cluster: Cluster,
    name: str,
    of: Sequence[str],
    conf: Sequence[str],
    truth: Truth,
    rows: dict[str, Run],
    kill: int = 0,
) -> list[str]:
    """A capture into an archive of its own and a replay of it; the broken promises."""
    archive, target = f"a{name.replace(' ', '_')}", f"BACK_{name.replace(' ', '_').upper()}"
    print(f"{name}: capture and replay", flush=True)
    with Workspace(servers.settings) as workspace:
        create(workspace, ArchiveSpec(archive, STREAM, BUCKET, prefix=archive), create_bucket=True)
    rows[f"capture, {name}"] = capture(servers, cluster, archive, of, conf)
    archived, broken = judge_captured(servers, archive, truth)
    rows[f"replay, {name}"] = replay(servers, cluster, archive, target, conf, kill)
    return broken + judge_replayed(servers, target, archived)


def _print(rows: dict[str, Run], messages: int, most: int) -> None:
    cores = len(os.sched_getaffinity(0))
    if most > cores:
        print(f"{most} workers share {cores} cores with all servers: more workers than cores cannot be faster")
    table = new_table("workers", "run", "msg/s", "command s", "executors", "starts", *_PARTS)
    for name, run in rows.items():
        shares = [f"{run.processors.get(part, 0.0):.2f}" for part in _PARTS]
        rate = f"{messages / run.seconds:,.0f}"
        table.add_row(name, rate, f"{run.command_s:.1f}", str(run.executors), str(run.starts), *shares)
    print_table(table)
    print("the last columns are processors on average over the whole command, 1 is a whole one")


def _write(rows: dict[str, Run], messages: int) -> None:
    out = Path(".nats3", "scale.json")
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps({"messages": messages, "runs": {n: asdict(r) for n, r in rows.items()}}, indent=2) + "\n")
    groups: dict[str, dict[str, float]] = {}
    for name, run in rows.items():
        kind, _, workers = name.partition(", ")
        groups.setdefault(workers, {})[kind] = messages / run.seconds
    draw_bars(out.with_suffix(".svg"), "messages a second", groups)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make scale")
    parser.add_argument(
        "--workers", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 4], help="1,2,4"
    )
    parser.add_argument("--messages", type=int, default=400_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
