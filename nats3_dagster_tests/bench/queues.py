"""Work queues and interest streams: what an archive takes, beside a client that only counts and acknowledges at once.

Invariant: each measured path gets a stream of its own, filled before the clock starts, for what is taken is gone.

    python -m nats3_dagster_tests.bench.queues [--messages 1000000] [--rounds 3] [--sizes 256,1024] [--only limit,take]
        [--cluster]
"""

import argparse
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from pyspark.sql import SparkSession

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.source.durables import durable_of
from nats3_dagster.hours import SECOND_NS, hour_of
from nats3_dagster.jetstream.api import request
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.streams import create_stream, delete_stream, stream_names
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.objects import create_bucket
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.pipeline.session import session
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import limits, servers, spark_rows
from nats3_dagster_tests.bench.rows import BATCH, batch_of
from nats3_dagster_tests.bench.tables import new_table, print_table
from nats3_dagster_tests.support.servers.cluster import three_servers

STREAM, NAME = "QUEUE", "queue"
PATHS = ("limit", "take", "one by one")
# As wide as an archive's own durable has it for chunks of this size.
EXPLICIT = {"ack_policy": "explicit", "ack_wait": 60 * SECOND_NS, "max_ack_pending": 1_000_000, "max_deliver": -1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=lambda text: [int(n) for n in text.split(",")], default=[256, 1024])
    parser.add_argument("--only", default=",".join(PATHS))
    parser.add_argument("--cluster", action="store_true", help="three servers, streams of three copies")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        started = stack.enter_context(servers.running(nats=True))
        settings = started.settings
        create_bucket(settings.store, servers.BUCKET)
        if arguments.cluster:
            assert started.nats
            started.nats.stop()
            os.environ["NATS3_NATS_URL"] = stack.enter_context(three_servers(started.folder / "cluster"))[0].url
            settings = Settings.load()
        _measure(settings, arguments)


def _measure(settings: Settings, arguments: argparse.Namespace) -> None:
    replicas = 3 if arguments.cluster else 1
    table = new_table("medians; ratios within a round", "retention", "size", "path", "msg/s", "of limit", "peak MB")
    with session() as spark:
        spark_rows.peak_mb(spark)
        runs: dict[str, Callable[[int], float]] = {
            "limit": lambda count: _limit(settings, count),
            "take": lambda count: _take(spark, settings, count),
            "one by one": lambda count: _take(spark, settings, count, durable="mine"),
        }
        paths = {path: runs[path] for path in arguments.only.split(",")}
        for retention in ("workqueue", "interest"):
            for size in arguments.sizes:
                messages = arguments.messages * 256 // max(size, 256) // (4 if replicas > 1 else 1)
                rates: dict[str, list[float]] = {path: [] for path in paths}
                peaks = dict.fromkeys(paths, 0.0)
                for _ in range(arguments.rounds):
                    for path, run in paths.items():
                        _make(settings, retention, replicas, path)
                        if path != "limit":
                            _archive(settings, "mine" if path == "one by one" else None)
                        _fill(settings, messages, size)
                        rates[path].append(messages / run(messages))
                        peaks[path] = max(peaks[path], spark_rows.peak_mb(spark))
                for path, values in rates.items():
                    ratio = median(a / b for a, b in zip(values, rates["limit"], strict=True))
                    table.add_row(
                        retention, str(size), path, f"{median(values):,.0f}", f"{ratio:.2f}", f"{peaks[path]:.0f}"
                    )
    print_table(table)


def _make(settings: Settings, retention: str, replicas: int, path: str) -> None:
    """The empty stream, with the consumer that keeps its messages."""
    with Link(settings.nats) as link:
        if STREAM in stream_names(link):
            delete_stream(link, STREAM)
        create_stream(
            link,
            {
                "name": STREAM,
                "subjects": ["bench.in.>"],
                "retention": retention,
                "allow_batched": True,
                "num_replicas": replicas,
            },
        )
        if path == "limit":
            config = limits.FLOW | {"durable_name": NAME, "deliver_subject": limits.FLOW_SUBJECT}
        elif path == "one by one":
            config = EXPLICIT | {"durable_name": "mine"}
        else:
            return
        name = config["durable_name"]
        link.call(request, f"CONSUMER.CREATE.{STREAM}.{name}", {"stream_name": STREAM, "config": config})


def _fill(settings: Settings, messages: int, size: int) -> None:
    with Publisher(settings.nats, mode="batch") as target:
        for at in range(0, messages, BATCH):
            part = batch_of(size, min(BATCH, messages - at), at)
            target.publish(part.column("subject"), part.column("headers"), part.column("data"))
        target.flush()


def _archive(settings: Settings, durable: str | None) -> None:
    spec = ArchiveSpec(NAME, STREAM, servers.BUCKET, prefix=str(time.time_ns()), mode="consumer", durable=durable)
    with Workspace(settings) as workspace:
        create(workspace, spec)


def _limit(settings: Settings, messages: int) -> float:
    return limits.count_by_flow(settings.nats.servers[0], STREAM, NAME, messages)


def _take(spark: SparkSession, settings: Settings, messages: int, durable: str | None = None) -> float:
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get(NAME)
        while durable_of(workspace, archive).pending < messages:  # the server counts a moment later
            time.sleep(0.01)
    began = time.perf_counter()
    taken = run_capture(spark, settings, NAME, hour_of(time.time_ns())).messages
    elapsed_s = time.perf_counter() - began
    assert taken == messages, taken
    with Workspace(settings) as workspace:
        delete(workspace, NAME)
    return elapsed_s


if __name__ == "__main__":
    main()
