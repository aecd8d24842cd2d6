"""Dagster beside a catalog of a million chunks: how many rows a tick and a load read. `make year` takes their times.

The rows are those that a year of captures would leave. While they are made the triggers that prove each commit are off,
and indexes are built afterwards; what the triggers keep is written by hand, and checked before anything is measured.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from dagster import DagsterInstance, RunRequest, SkipReason

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.project.project import load
from nats3_dagster.defs.sensors.cursor import ArchiveCursor, write
from nats3_dagster.defs.sensors.cursor import read as read_cursor
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.hours import hour_of
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.catalog import rows_read
from nats3_dagster_tests.support.dagster.capture_ticks import tick
from nats3_dagster_tests.support.dagster.daemon import Daemon
from nats3_dagster_tests.support.dagster.seal_ticks import asked
from nats3_dagster_tests.support.dagster.seal_ticks import tick as seal_tick
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

CHUNKS = 1_000_000
SEQS = 1000  # a chunk
LAST = CHUNKS * SEQS
# The exclusion constraint's index is built as a plain one: as a constraint it would be asked a million times.
_INDEXES = ("chunk_key", "chunk_hour", "chunk_order", "chunk_times", "chunk_reach", "chunk_no_overlap")
_FILL = """
insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, first_ns, last_ns, payload_bytes,
                         largest_bytes, stored_bytes, sha256, bucket, key)
select archive_id, incarnation_id, to_char(timestamp '2020-01-01' + i / 100 * interval '1 hour', 'YYYY-MM-DD-HH24:00'),
       int8range(i::int8 * %(seqs)s + 1, (i::int8 + 1) * %(seqs)s, '[]'), %(seqs)s,
       1577836800000000000 + i::int8 * 36000000000, 1577836800000000000 + (i::int8 + 1) * 36000000000 - 1,
       256000, 300, 90000, lpad(to_hex(i), 64, '0'), 'archive',
       format('archive=events/%%s.parquet', lpad(i::text, 66, '0'))
from nats3.coverage, generate_series(0, %(chunks)s - 1) i"""
_FILL_HOURS = """
insert into nats3.hour (archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes,
                        first_seq, last_seq, first_ns, last_ns, revision)
select archive_id, incarnation_id, hour, count(*), sum(messages), sum(absent), sum(payload_bytes), sum(stored_bytes),
       min(lower(seqs)), max(upper(seqs)) - 1, min(first_ns), max(last_ns), 1
from nats3.chunk group by 1, 2, 3"""
_FILL_COVERAGE = """
update nats3.coverage c set covered = n.covered, chunks = n.chunks, messages = n.messages,
       payload_bytes = n.payload_bytes, stored_bytes = n.stored_bytes, first_ns = n.first_ns, last_ns = n.last_ns
from (select range_agg(seqs) as covered, count(*) as chunks, sum(messages) as messages,
             sum(payload_bytes) as payload_bytes, sum(stored_bytes) as stored_bytes, min(first_ns) as first_ns,
             max(last_ns) as last_ns from nats3.chunk) n"""
_FILL_SUMS = """
insert into nats3.archive_hours as k (archive_id, hours)
select archive_id, count(distinct hour) from nats3.hour group by 1
on conflict (archive_id) do update set hours = excluded.hours"""
_TILES = """
select count(*) from (select lower(seqs) - lag(upper(seqs), 1, 1::int8) over (order by seqs) as hole from nats3.chunk) t
where hole <> 0"""


# Every hour up to now is sealed but the last day's: those of seven years, most of them without a chunk.
_FILL_SEALS = """
insert into nats3.seal (archive_id, hour, number, revision, chunks, losses, messages, gaps, content, bucket, key,
                        sha256, stored_bytes)
select c.archive_id, to_char(t, 'YYYY-MM-DD-HH24:00'), 1, coalesce(h.revision, 0), coalesce(h.chunks, 0), 0, 1, 0,
       repeat('0', 16), 'archive', t::text, repeat('0', 64), 100
from nats3.coverage c, generate_series(timestamp '2020-01-01', now() at time zone 'UTC' - interval '1 day', '1 hour') t
left join nats3.hour h on h.hour = to_char(t, 'YYYY-MM-DD-HH24:00')"""
# What the trigger of each seal would have added up.
_SUM_SEALS = """
update nats3.archive_hours k set sealed = n.sealed, sealed_filled = n.filled, sealed_empty = n.empty
from (select int4multirange(nats3.hour_range(min(hour), max(hour))) as sealed,
             count(*) filter (where chunks > 0) as filled, count(*) filter (where chunks = 0) as empty
      from nats3.seal) n"""


# The other connections of clients.
_OTHERS = """
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""
# The rows that each call may make Postgres read, in tables and their indexes.
MOST = {
    # One of them looks at each hour of the archive, of which there are 10,000.
    "nothing is due": 12_000,
    "a capture is due": 12_000,
    "10,000 hours to seal": 26_000,
    "60,000 hours are sealed": 12_000,
    "Dagster has heard of all": 20,
    "a load": 20,
}


@pytest.fixture
def full(settings: Settings, nats: NatsServer, bucket: str) -> Iterator[Wire]:
    """An archive of CHUNKS chunks whose stream has five messages more."""
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>", first_seq=LAST + 1)
        archive(settings, bucket)
        with psycopg.connect(settings.postgres, autocommit=True) as connection:
            connection.execute("update nats3.coverage set start_seq = 1")
            _fill(connection)
        wire.publish([("ev.a", b"", b"x")] * 5)
        yield wire


def _fill(connection: "psycopg.Connection[Any]") -> None:
    found: dict[str, str] = dict(
        connection.execute("select indexname, indexdef from pg_indexes where schemaname = 'nats3'").fetchall()
    )
    connection.execute("alter table nats3.chunk disable trigger user, drop constraint chunk_no_overlap")
    for name in _INDEXES:
        connection.execute(f"drop index if exists nats3.{name}".encode())
    connection.execute(_FILL, {"seqs": SEQS, "chunks": CHUNKS})
    connection.execute(_FILL_HOURS)
    connection.execute(_FILL_SUMS)
    connection.execute(_FILL_COVERAGE)
    for name in _INDEXES:
        connection.execute(found[name].encode())
    # A connection looks for the constraint by its name, and as what it is it would be asked for each chunk.
    connection.execute("alter table nats3.chunk add constraint chunk_no_overlap check (true) not valid")
    connection.execute("alter table nats3.chunk enable trigger user")
    connection.execute("analyze")
    assert connection.execute(_TILES).fetchone() == (0,)


def looks(settings: Settings) -> int:
    """How often anybody looked into the table of chunks, by scan or by index."""
    with psycopg.connect(settings.postgres) as connection:
        found = connection.execute(
            "select seq_scan + idx_scan from pg_stat_user_tables where schemaname = 'nats3' and relname = 'chunk'"
        ).fetchone()
    assert found is not None
    return found[0]


@pytest.fixture
def rows_of(settings: Settings) -> Iterator[Callable[[Callable[[], object]], int]]:
    """How many rows of the catalog a call makes Postgres read, by scan or by index, until its connections are gone: a
    server counts what a connection has read when that ends."""
    with psycopg.connect(settings.postgres, autocommit=True) as watcher:

        def read() -> int:
            eventually(lambda: watcher.execute(_OTHERS).fetchone() == (0,), "all connections are closed", 60)
            return rows_read(watcher)

        def count(call: Callable[[], object]) -> int:
            before = read()
            call()
            return read() - before

        yield count


@pytest.mark.needs_nats("2.10")  # first_seq
def test_ticks_and_loads_read_no_more_beside_a_million_chunks(
    full: Wire, settings: Settings, rows_of: Callable[[Callable[[], object]], int]
) -> None:
    looked, read = looks(settings), dict[str, int]()
    with DagsterInstance.ephemeral() as instance:
        waiting = tick(instance)
        assert isinstance(waiting, SkipReason)
        assert (waiting.skip_message or "").startswith("5 messages wait, the oldest for ")
        read["nothing is due"] = rows_of(lambda: tick(instance))
        full.publish([("ev.a", b"", b"x")] * 100)
        with psycopg.connect(settings.postgres, autocommit=True) as connection:
            connection.execute("update nats3.archive set max_messages = 100")
        read["a capture is due"] = rows_of(lambda: tick(instance))
        assert isinstance(tick(instance), RunRequest)

        read["10,000 hours to seal"] = rows_of(lambda: seal_tick(instance))
        first = asked(seal_tick(instance))[0]
        assert first.tags["dagster/asset_partition_range_start"] == "2020-01-01-00:00"
        with psycopg.connect(settings.postgres, autocommit=True) as connection:
            connection.execute("alter table nats3.seal disable trigger user")
            connection.execute(_FILL_SEALS)
            connection.execute(_SUM_SEALS)
            connection.execute("alter table nats3.seal enable trigger user")
            connection.execute("analyze")
        read["60,000 hours are sealed"] = rows_of(lambda: seal_tick(instance))
        assert len(asked(seal_tick(instance))) <= 1

        # What Dagster has is made up: it would take minutes to write.
        with Catalog.connect(settings.postgres) as catalog:
            (version,) = catalog.archives.versions()
        hour = hour_of(time.time_ns())
        all_of_it = ArchiveCursor(version.revision, version.seals, version.replays, version.exports, hour, 0, 0, 0, 0)
        heard = {version.id: all_of_it}
        daemon = Daemon(instance)
        daemon.cursor = write(heard)
        read["Dagster has heard of all"] = rows_of(daemon.evaluate)
        assert read_cursor(daemon.evaluate().cursor) == heard
    read["a load"] = rows_of(load)
    assert {name: read[name] for name, most in MOST.items() if read[name] > most} == {}, read
    assert read.keys() == MOST.keys()
    # No answer reads a chunk.
    assert looks(settings) == looked
    with Catalog.connect(settings.postgres) as catalog:
        (totals,) = catalog.archives.totals()
        assert (totals.chunks, totals.messages) == (CHUNKS, LAST)
