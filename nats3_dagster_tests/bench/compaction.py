"""Small chunks before and after their compaction: objects, requests and time of reads.

    python -m nats3_dagster_tests.bench.compaction [--hours 24] [--chunks 60] [--messages 2000] [--spark]

Each hour has a chunk a minute. `GETs` counts the requests for objects or parts of them. Reads begin without known
footers.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import pyarrow as pa

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.read.subjects import last_of
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.chunks.footer_cache import FooterCache
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of
from nats3_dagster.model import Archive, ArchiveSpec, Incarnation, Selection, SeqRange, StreamState
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.objects import Bucket
from nats3_dagster.pipeline import compact_run
from nats3_dagster.pipeline.session import start
from nats3_dagster.query import engine
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import servers
from nats3_dagster_tests.bench.payloads import payloads
from nats3_dagster_tests.bench.tables import new_table, print_table

T0 = 1_795_244_400_000_000_000
LOGS = Incarnation("LOGS", T0 - 1)
SIZE, SUBJECTS = 256, 20
_gets = [0]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--hours", type=int, default=24)
    parser.add_argument("--chunks", type=int, default=60)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--spark", action="store_true", help="merge by tasks of Spark, however few the hours are")
    arguments = parser.parse_args()
    _count_gets()
    with servers.workspace() as workspace:
        last = arguments.hours * arguments.chunks * arguments.messages
        state = StreamState(LOGS, 1, last, T0, T0, last, 0, {"name": "LOGS"})
        archive = workspace.catalog.archives.create(ArchiveSpec("logs", "LOGS", servers.BUCKET), state)
        folder.claim(workspace, archive)
        hours = [hour_of(T0 + n * HOUR_NS) for n in range(arguments.hours)]
        for n in range(arguments.hours):
            fill_hour(workspace, archive, n, arguments.chunks, arguments.messages)
        list(seal_hours(workspace, archive, hours))
        before = _measure(workspace, archive, hours)
        began = time.perf_counter()
        if arguments.spark:
            compact_run.SPARK_FROM_HOURS = 0
        for _ in compact_run.run_compaction(start, workspace, archive, hours):
            pass
        seconds = time.perf_counter() - began
        after = _measure(workspace, archive, hours)
    print_results(
        before, after, f"{last:,} messages; compacted in {seconds:.1f} s, {last / seconds:,.0f} messages a second"
    )


def fill_hour(workspace: Workspace, archive: Archive, hour: int, chunks: int, messages: int) -> None:
    """The hour of this number, from 0, as captures would write it."""
    start, step = T0 + hour * HOUR_NS, HOUR_NS // (chunks * messages)
    metas = []
    for number in range(chunks):
        first = (hour * chunks + number) * messages + 1
        seqs = range(first, first + messages)
        times = [start + (number * messages + n) * step for n in range(messages)]
        writer = ChunkWriter(archive.spec.name, LOGS, hour_of(start), servers.BUCKET, "", 3, {"name": "LOGS"})
        subjects = [f"logs.host{seq * 7919 % SUBJECTS}" if number else "logs.rare" for seq in seqs]
        none = pa.nulls(messages, pa.binary())
        columns = [seqs, times, subjects, none, none, payloads(SIZE, messages, first)]
        writer.write(pa.record_batch(columns, schema=MESSAGES))
        data, meta = writer.finish(SeqRange(seqs[0], seqs[-1]), "deleted")
        workspace.bucket(servers.BUCKET).put_new(meta.key, data, meta.sha256)
        metas.append(meta)
    workspace.catalog.chunks.commit(archive, metas)
    assert hour_of(start + HOUR_NS - SECOND_NS) == hour_of(start)


def _measure(workspace: Workspace, archive: Archive, hours: list[str]) -> dict[str, tuple[float, int]]:
    """Milliseconds and requests; of `objects` the number and the bytes."""
    chunks = workspace.catalog.chunks.select(archive)
    rows = {
        "all messages of an hour, as a replay reads them": partial(_read, workspace, archive, hours[:1]),
        "all messages": partial(_read, workspace, archive, hours),
        "message last, of a subject in each chunk": partial(last_of, workspace, archive, "logs.host3"),
        "message last, of a subject in one chunk an hour": partial(last_of, workspace, archive, "logs.rare"),
        "select count(*)": partial(_query, workspace, "select count(*) from logs"),
        "select max(data) of one time": partial(
            _query, workspace, f"select max(data) from logs where time_ns = {T0 + HOUR_NS // 2}"
        ),
    }
    done = {"objects, bytes": (float(len(chunks)), sum(chunk.meta.stored_bytes for chunk in chunks))}
    for name, row in rows.items():
        workspace._footers = FooterCache()
        done[name] = _timed(row)
    return done


def _timed(row: Callable[[], object]) -> tuple[float, int]:
    _gets[0], began = 0, time.perf_counter()
    row()
    return (time.perf_counter() - began) * 1000, _gets[0]


def _read(workspace: Workspace, archive: Archive, hours: list[str]) -> int:
    chunks = workspace.catalog.chunks.select(archive, hours=hours)
    return sum(b.num_rows for _, reader in fetch_chunks(workspace.bucket, chunks, 1) for b in reader.batches())


def _query(workspace: Workspace, sql: str) -> list[object]:
    with engine.run(workspace, sql, Selection(), over_gaps=True) as result:
        return list(result.rows)


def _count_gets() -> None:
    for name in ("get", "get_range"):
        real = getattr(Bucket, name)

        def counted(*arguments: object, real: Callable[..., object] = real) -> object:
            _gets[0] += 1
            return real(*arguments)

        setattr(Bucket, name, counted)


def print_results(before: dict[str, tuple[float, int]], after: dict[str, tuple[float, int]], title: str) -> None:
    table = new_table(title, "", "before", "GETs", "after", "GETs")
    for name, (value, count) in before.items():
        table.add_row(name, f"{value:,.0f}", f"{count:,}", f"{after[name][0]:,.0f}", f"{after[name][1]:,}")
    print_table(table)


if __name__ == "__main__":
    main()
