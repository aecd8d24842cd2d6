"""Spark's data sources beside this project's own paths: the same messages, read from the same stream and the same
archive, and written into the same kind of stream.

Invariant: the session is started and its workers have run once before the clock starts. A round measures every row
once, and ratios are taken within a round.

    python -m nats3_dagster_tests.bench.spark_sources [--messages 500000] [--rounds 3] [--size 256] [--only reader,read]
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.model import Selection
from nats3_dagster.objects import create_bucket
from nats3_dagster.pipeline.session import session
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import rows, servers, spark_rows
from nats3_dagster_tests.bench.rows import Case
from nats3_dagster_tests.bench.tables import new_table, print_table

Row = Callable[[SparkSession, Case, str], float]


def reader(_: SparkSession, case: Case, _archive: str) -> float:
    """Our own reader, in this process."""
    return rows.reader(case)


def read(spark: SparkSession, case: Case, _: str, **options: str) -> float:
    """`format("jetstream")`, by as many tasks as the session can run."""
    parts = str(spark.sparkContext.defaultParallelism)
    return _counted(spark.read.format("jetstream").options(stream="BENCH", numPartitions=parts, **options).load, case)


def chunks(_: SparkSession, case: Case, archive: str) -> float:
    """Our own reads of an archive's chunks, proven and with all columns, in this process."""
    began = time.perf_counter()
    with Workspace(case.settings) as workspace:
        found = ArchiveSelection(workspace, workspace.catalog.archives.get(archive), Selection()).chunks()
        read_rows = sum(b.num_rows for _, r in fetch_chunks(workspace.bucket, found, 1) for b in r.batches())
    assert read_rows == case.messages
    return time.perf_counter() - began


def archive(spark: SparkSession, case: Case, name: str, **options: str) -> float:
    """`format("nats3")`."""
    return _counted(spark.read.format("nats3").options(archive=name, **options).load, case)


def publisher(_: SparkSession, case: Case, _archive: str) -> float:
    """Our own publisher, in this process, into a stream without batches."""
    rows.empty_sink(case, takes="")
    return rows.publisher(replace(case, batched=False))


def replay(spark: SparkSession, case: Case, _: str) -> float:
    """The archive into a stream without batches, as a replay."""
    rows.empty_sink(case, takes="")
    return spark_rows.replay(spark, case)


def write(spark: SparkSession, case: Case, name: str, *more: str) -> float:
    """The archive into a stream without batches, by `df.write`."""
    rows.empty_sink(case, takes="")
    stored = spark.read.format("nats3").options(archive=name, columns="seq,subject,data").load()
    frame = stored.selectExpr("replace(subject, 'bench.in.', 'bench.sink.') AS subject", "data", *more)
    began = time.perf_counter()
    frame.write.format("jetstream").mode("append").options(stream="SINK").save()
    return time.perf_counter() - began


def _counted(load: Callable[[], DataFrame], case: Case) -> float:
    began = time.perf_counter()
    assert load().count() == case.messages
    return time.perf_counter() - began


# Each row, and our own one that it is compared with.
ROWS: dict[str, tuple[Row, str]] = {
    "reader": (reader, "reader"),
    "read": (read, "reader"),
    "read_without_data": (partial(read, columns="seq,time,subject"), "reader"),
    "chunks": (chunks, "chunks"),
    "archive": (archive, "chunks"),
    "archive_without_data": (partial(archive, columns="seq,time,subject"), "chunks"),
    "publisher": (publisher, "publisher"),
    "replay": (replay, "publisher"),
    "write": (write, "replay"),
    "write_msg_id": (lambda spark, case, name: write(spark, case, name, "string(seq) AS msg_id"), "replay"),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--only", type=lambda text: [n for n in ROWS if n in text.split(",")], default=list(ROWS))
    arguments = parser.parse_args()
    with servers.running(nats=True) as started:
        create_bucket(started.settings.store, servers.BUCKET)
        case = rows.fill(started.settings, arguments.messages, arguments.size)
        rates: dict[str, list[float]] = {name: [] for name in arguments.only}
        with session() as spark:
            spark_rows.peak_mb(spark)  # starts the workers and their imports
            spark_rows.capture(spark, case)
            with Workspace(case.settings) as workspace:
                (captured,) = (archive.name for archive in workspace.catalog.archives.all())
            for _ in range(arguments.rounds):
                for name in arguments.only:
                    rates[name].append(case.messages / ROWS[name][0](spark, case, captured))
            peak = spark_rows.peak_mb(spark)
    print_results(rates, arguments.size, peak)


def print_results(rates: dict[str, list[float]], size: int, peak: float) -> None:
    table = new_table(
        f"messages of {size} B; ratios within a round; peak of a worker {peak:,.0f} MB",
        "row",
        "msg/s",
        "ratio",
        "beside",
        texts=("beside",),
    )
    for name, measured in rates.items():
        beside = ROWS[name][1]
        pairs = list(zip(measured, rates.get(beside, []), strict=False))
        ratio = f"{median(one / other for one, other in pairs):.2f}" if pairs else "-"
        table.add_row(name, f"{median(measured):,.0f}", ratio, beside)
    print_table(table)


if __name__ == "__main__":
    main()
