"""Point reads: one message by its sequence, cold and warm, beside a catalog of 1,000 and of 1,000,000 chunks.

    python -m nats3_dagster_tests.bench.points [--reads 300] [--chunks 1000,1000000]

A cold read knows no footer: two requests to the store; a warm one is one. `request` is such a request alone, the
server's own time, and `catalog` the lookup of the chunk. Few objects are real; the other rows of the catalog are made
by SQL. Fails if a read with 1,000 chunks takes more than LIMIT_MS at the median, or with 1,000,000 more than twice as
long.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable

from nats3_dagster.archive.read.points import by_sequence, first_at, locate
from nats3_dagster.archive.read.references import reference
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.chunks.footer_cache import FooterCache
from nats3_dagster.model import Archive, Message
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import servers
from nats3_dagster_tests.bench.api import print_percentiles, share
from nats3_dagster_tests.bench.payloads import payloads
from nats3_dagster_tests.support.points import T0, add_chunk, create, message

LIMIT_MS, AT_MOST = 30.0, 2.0
# Objects, and messages of each: about 16 MB of 256-byte messages, in eight row groups.
OBJECTS, MESSAGES, SIZE = 8, 62_500, 256
SUBJECTS = 100
# Between two messages.
STEP_NS = 50_000_000
_FILL = """
insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, first_ns, last_ns, payload_bytes,
                         largest_bytes, stored_bytes, sha256, bucket, key)
select archive_id, incarnation_id, to_char(timestamp '2027-01-01' + i / 100 * interval '1 hour', 'YYYY-MM-DD-HH24:00'),
       int8range(%(first)s + i::int8 * 1000, %(first)s + (i::int8 + 1) * 1000), 1000,
       1798761600000000000 + i::int8 * 36000000000, 1798761600000000000 + (i::int8 + 1) * 36000000000 - 1,
       256000, 300, 90000, encode(sha256(int8send(i)), 'hex'), 'bench', format('archive=logs/%%s.parquet', i)
from nats3.coverage, generate_series(%(begin)s, %(end)s - 1) i"""
_COVER = """
update nats3.coverage set chunks = %(chunks)s,
       covered = int8multirange(int8range(1, %(first)s + %(chunks)s::int8 * 1000))"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--reads", type=int, default=300)
    parser.add_argument("--chunks", type=lambda text: [int(n) for n in text.split(",")], default=[1000, 1_000_000])
    arguments = parser.parse_args()
    with servers.workspace() as workspace:
        archive = create(workspace, servers.BUCKET)
        fill_objects(workspace, archive)
        filled, medians = OBJECTS, {}
        for chunks in sorted(arguments.chunks):
            fill(workspace.settings.postgres, filled, chunks)
            filled = chunks
            medians[chunks] = measure(workspace, archive, chunks, arguments.reads)
    sys.exit(_verdict(medians))


def fill_objects(workspace: Workspace, archive: Archive) -> None:
    """Chunks with objects: OBJECTS of MESSAGES messages each."""
    for number in range(OBJECTS):
        first = number * MESSAGES + 1
        add_chunk(
            workspace,
            archive,
            [
                message(seq, b"logs.%d" % (seq % SUBJECTS), body, time_ns=T0 + seq * STEP_NS)
                for seq, body in enumerate(payloads(SIZE, MESSAGES, first), first)
            ],
        )


def fill(postgres: str, begin: int, end: int) -> None:
    """Rows of chunks without objects behind the real ones, until the catalog has `end` chunks."""
    with servers.bulk(postgres) as connection:
        values = {"first": OBJECTS * MESSAGES + 1, "begin": begin, "end": end, "chunks": end}
        connection.execute(_FILL, values)
        connection.execute(_COVER, values)


def measure(workspace: Workspace, archive: Archive, chunks: int, reads: int) -> dict[str, float]:
    """Print p50 and p99 of each kind of read; the medians in milliseconds."""
    noise = random.Random(chunks)
    last = OBJECTS * MESSAGES

    def cold(seq: int) -> Message:
        workspace._footers = FooterCache(0)
        return by_sequence(workspace, archive, seq)

    def warm(seq: int) -> Message:
        return by_sequence(workspace, archive, seq)

    def at_time(seq: int) -> Message | None:
        return first_at(workspace, archive, T0 + seq * STEP_NS)

    def refer(seq: int) -> object:
        return reference(workspace, archive, seq, 60)

    chunk = locate(workspace, archive, 1)
    start, length = open_ranged(workspace, chunk).span(1)

    def catalog(seq: int) -> object:
        return locate(workspace, archive, seq)

    def request(_: int) -> object:
        return workspace.bucket(chunk.meta.bucket).get_range(chunk.meta.key, start, length)

    took_ms: dict[str, list[float]] = {}
    kinds: dict[str, Callable[[int], object]] = {
        "request": request,
        "catalog": catalog,
        "cold": cold,
        "warm": warm,
        "at a time": at_time,
        "reference": refer,
    }
    for name, read in kinds.items():
        if read is not cold:
            workspace._footers = FooterCache()
        for number in range(OBJECTS):  # the first use opens connections, and makes footers known
            read(number * MESSAGES + 1)
        took = []
        for seq in (noise.randint(1, last) for _ in range(reads)):
            began = time.perf_counter()
            read(seq)
            took.append((time.perf_counter() - began) * 1e3)
        took_ms[name] = took
    print_results(took_ms, chunks)
    return {name: share(took, 0.5) for name, took in took_ms.items()}


def print_results(took_ms: dict[str, list[float]], chunks: int) -> None:
    print_percentiles(f"one message of {chunks:,} chunks", took_ms)


def _verdict(medians: dict[int, dict[str, float]]) -> str | None:
    """What is slower than it may be, as the text to exit with."""
    slow = []
    least = min(medians)
    for name in ("cold", "warm"):
        if medians[least][name] > LIMIT_MS:
            slow.append(f"{name}: {medians[least][name]:.1f} ms, and {LIMIT_MS:.0f} are allowed")
        for chunks, row in medians.items():
            if row[name] > AT_MOST * medians[least][name]:
                slow.append(f"{name}: {row[name] / medians[least][name]:.1f} times as long with {chunks:,} chunks")
    return "; ".join(slow) or None


if __name__ == "__main__":
    main()
