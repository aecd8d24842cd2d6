"""Queries: what they fetch of an archive of log events, how long they take, and the most memory that they need.

    python -m nats3_dagster_tests.bench.query [--messages 200000] [--rounds 3]

Each statement runs in a process of its own, which fetches footers anew and whose memory is its own. `fetched` is what
was read from the store, beside what the archive has there. Fails if a statement that needs few columns or few row
groups fetches more than MOST of the archive.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from statistics import median
from typing import NamedTuple

import pyarrow as pa

from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.hours import HOUR_NS, format_time, hour_of
from nats3_dagster.model import Archive, ArchiveSpec, Incarnation, Selection, SeqRange, StreamState
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.query import engine
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import servers
from nats3_dagster_tests.bench.memory import own_peak_mb
from nats3_dagster_tests.bench.payloads import payloads
from nats3_dagster_tests.bench.tables import new_table, print_table

T0 = 1_795_244_400_000_000_000
LOGS = Incarnation("LOGS", T0 - 1)
SIZE, HOURS, SUBJECTS = 512, 4, 20
# Statements, and the share of the archive that each may fetch.
STATEMENTS: dict[str, tuple[str, float]] = {
    "count": ("SELECT count(*) FROM logs", 0.02),
    "by subject": ("SELECT subject, count(*) FROM logs GROUP BY 1", 0.1),
    "seq": ("SELECT max(data) FROM logs WHERE seq BETWEEN {half} AND {half} + 999", 0.1),
    "time": ("SELECT count(data) FROM logs WHERE time >= '{late}'", 0.15),
    "json": ("SELECT as_json(data) ->> 'level', count(*) FROM logs GROUP BY 1", 1.0),
    "sort": ("SELECT seq, data FROM logs ORDER BY data LIMIT 1 OFFSET {half}", 1.0),
}


class Ran(NamedTuple):
    """One run of a statement."""

    # From the statement to its last row, with what it imports before.
    seconds: float
    fetched_bytes: int
    # Of the process, at most.
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with servers.workspace() as workspace:
        stored = fill(workspace, arguments.messages)
        ran: dict[str, list[Ran]] = {name: [] for name in STATEMENTS}
        for _ in range(arguments.rounds):
            for name, (sql, _) in STATEMENTS.items():
                ran[name].append(alone(worded(sql, arguments.messages)))
    print_results(ran, arguments.messages, stored)
    sys.exit(_verdict(ran, stored))


def fill(workspace: Workspace, messages: int) -> int:
    """An archive `logs` of messages of SIZE bytes, a chunk for each of HOURS; its bytes in the store."""
    last_ns = T0 + (messages - 1) * _step_ns(messages)
    state = StreamState(LOGS, 1, messages, T0, last_ns, messages, 1, {})
    archive = workspace.catalog.archives.create(ArchiveSpec("logs", "LOGS", servers.BUCKET), state)
    ends = [messages * hour // HOURS for hour in range(HOURS + 1)]
    hours = [range(ends[hour] + 1, ends[hour + 1] + 1) for hour in range(HOURS)]
    return sum(_add(workspace, archive, seqs, messages) for seqs in hours)


def worded(sql: str, messages: int) -> str:
    """The statement for an archive of so many messages."""
    late = format_time(T0 + messages * 9 // 10 * _step_ns(messages))
    return sql.format(half=messages // 2, late=late)


def alone(sql: str) -> Ran:
    """Run it in a new process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_run, sql).result()


def _run(sql: str) -> Ran:
    began = time.perf_counter()
    with Workspace(Settings.load()) as workspace, engine.run(workspace, sql, Selection(), over_gaps=True) as result:
        for _ in result.rows:
            pass
        seconds = time.perf_counter() - began
        return Ran(seconds, result.scanned.fetched_bytes, own_peak_mb())


def _step_ns(messages: int) -> int:
    return (HOURS * HOUR_NS - 1) // messages


def _add(workspace: Workspace, archive: Archive, seqs: range, messages: int) -> int:
    times = [T0 + (seq - 1) * _step_ns(messages) for seq in seqs]
    writer = ChunkWriter("logs", LOGS, hour_of(times[0]), servers.BUCKET, "", 3, {})
    writer.write(
        pa.record_batch(
            [
                seqs,
                times,
                [f"logs.host{seq * 7919 % SUBJECTS}" for seq in seqs],
                pa.nulls(len(seqs), pa.binary()),
                pa.nulls(len(seqs), pa.binary()),
                payloads(SIZE, len(seqs), seqs[0]),
            ],
            schema=MESSAGES,
        )
    )
    data, meta = writer.finish(SeqRange(seqs[0], seqs[-1]), "deleted")
    workspace.bucket(servers.BUCKET).put_new(meta.key, data.to_pybytes(), meta.sha256)
    workspace.catalog.chunks.commit(archive, [meta])
    return meta.stored_bytes


def print_results(ran: dict[str, list[Ran]], messages: int, stored: int) -> None:
    table = new_table(
        f"queries of {messages:,} messages of {SIZE} bytes, {stored / 1e6:,.1f} MB stored; medians",
        "statement",
        "fetched MB",
        "of it",
        "s",
        "msg/s",
        "peak MB",
    )
    for name, runs in ran.items():
        fetched, seconds = median(run.fetched_bytes for run in runs), median(run.seconds for run in runs)
        table.add_row(
            name,
            f"{fetched / 1e6:,.2f}",
            f"{fetched / stored:.1%}",
            f"{seconds:.2f}",
            f"{messages / seconds:,.0f}",
            f"{max(run.peak_mb for run in runs):,.0f}",
        )
    print_table(table)


def _verdict(ran: dict[str, list[Ran]], stored: int) -> str | None:
    """What fetched more than it may, as the text to exit with."""
    shares = {name: max(run.fetched_bytes for run in runs) / stored for name, runs in ran.items()}
    return (
        "; ".join(
            f"{name}: {share:.1%} of the archive was fetched, and {STATEMENTS[name][1]:.0%} are allowed"
            for name, share in shares.items()
            if share > STATEMENTS[name][1] + 0.02
        )
        or None
    )


if __name__ == "__main__":
    main()
