"""Exports: messages of JSON events of one hour, from chunks in S3 to files in S3, by the tasks of one Spark session.

Invariant: the session is started and its workers have run once before the clock starts; planning and the replacement of
files count.

    python -m nats3_dagster_tests.bench.exports [--messages 1000000] [--rounds 3] [--only csv,ndjson]
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

import pyarrow as pa

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.hours import HOUR_NS, hour_start
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, ExportSpec, Incarnation, SeqRange, StreamState
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.pipeline.export_run import run_export
from nats3_dagster.pipeline.session import session
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import servers, spark_rows
from nats3_dagster_tests.bench.servers import BUCKET
from nats3_dagster_tests.bench.tables import new_table, print_table

HOUR, CHUNK = "2026-11-21-07:00", 125_000
ORDERS = Incarnation("ORDERS", hour_start(HOUR) - 1)
STORES = 20
# What is asked of each row: messages a second on two cores.
LIMITS = {"csv": 100_000, "ndjson": 100_000}
ROWS: dict[str, dict[str, Any]] = {
    "csv": {"decode": "json", "key": "subject:2", "format": "csv"},
    "csv_zstd": {"decode": "json", "key": "subject:2", "format": "csv", "compression": "zstd"},
    "ndjson": {"decode": "json", "key": "subject:2"},
    "ndjson_zstd": {"decode": "json", "key": "subject:2", "compression": "zstd"},
    "ndjson_field": {"decode": "json", "key": "field:store", "compression": "zstd"},
    "parquet": {"decode": "json", "key": "subject:2", "format": "parquet", "compression": "zstd"},
    "messages": {"format": "messages", "compression": "zstd"},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=lambda text: [n for n in ROWS if n in text.split(",")], default=list(ROWS))
    arguments = parser.parse_args()
    with ExitStack() as stack:
        workspace = stack.enter_context(servers.workspace())
        archive = _fill(workspace, arguments.messages)
        spark = stack.enter_context(session())
        spark_rows.peak_mb(spark)  # starts the workers and their imports
        rates: dict[str, list[float]] = {name: [] for name in arguments.only}
        for number in range(arguments.rounds):
            for name in arguments.only:
                spec = ExportSpec(name, f"s3://{BUCKET}/{name}{number}", **ROWS[name])
                result = run_export(spark, workspace, archive, spec, HOUR)
                assert result.messages == arguments.messages
                rates[name].append(result.messages / result.seconds)
        peak = spark_rows.peak_mb(spark)
    print_results(rates, peak)


def _fill(workspace: Workspace, messages: int) -> Archive:
    """An archive of one sealed hour of orders, of about 200 bytes each."""
    state = StreamState(ORDERS, 1, messages, hour_start(HOUR), hour_start(HOUR) + HOUR_NS - 1, messages, 1, {})
    archive = workspace.catalog.archives.create(ArchiveSpec("orders", "ORDERS", BUCKET), state)
    folder.claim(workspace, archive)
    for first in range(1, messages + 1, CHUNK):
        workspace.catalog.chunks.commit(archive, [_chunk(workspace, first, min(first + CHUNK - 1, messages), messages)])
    assert list(seal_hours(workspace, archive, [HOUR]))
    return archive


def _chunk(workspace: Workspace, first: int, last: int, messages: int) -> ChunkMeta:
    writer = ChunkWriter("orders", ORDERS, HOUR, BUCKET, "", 3, {})
    step = HOUR_NS // messages
    seqs = range(first, last + 1)
    writer.write(
        pa.record_batch(
            [
                seqs,
                [hour_start(HOUR) + (seq - 1) * step for seq in seqs],
                [f"orders.s{seq % STORES}" for seq in seqs],
                pa.nulls(len(seqs), pa.binary()),
                pa.nulls(len(seqs), pa.binary()),
                list(_orders(seqs)),
            ],
            schema=MESSAGES,
        )
    )
    data, meta = writer.finish(SeqRange(first, last), "deleted")
    workspace.bucket(BUCKET).put_new(meta.key, data.to_pybytes(), meta.sha256)
    return meta


def _orders(seqs: range) -> Iterator[bytes]:
    for seq in seqs:
        yield (
            f'{{"order": {seq}, "store": "s{seq % STORES}", "pizza": "Quattro stagioni no. {seq * 7919 % 97}", '
            f'"price": {seq * 31 % 20}.{seq * 17 % 100:02d}, "paid": {"true" if seq % 3 else "false"}, '
            f'"customer": {{"id": "{seq * 2654435761 % 2**32:08x}", "vip": false}}, "note": null}}'
        ).encode()


def print_results(rates: dict[str, list[float]], peak: float) -> None:
    table = new_table(f"exports; medians; peak of a worker {peak:,.0f} MB", "row", "msg/s", "asked")
    for name, values in rates.items():
        table.add_row(name, f"{median(values):,.0f}", f"{LIMITS[name]:,}" if name in LIMITS else "-")
    print_table(table)


if __name__ == "__main__":
    main()
