"""A catalog of many chunks: what a call reads depends on what it answers, not on what there is.

The measure is the rows that Postgres reads, from its own statistics: the same on every machine, and a scan of the table
cannot hide in it. A million chunks, tried by hand, answer as fast; a tenth of that is made in a tenth of the time.
"""

import psycopg
import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.session.statements import _text
from nats3_dagster.model import Gap, ReplaySpec, SeqRange
from nats3_dagster_tests.support.catalog import LOGS, chunk, ids, ranges, rows_read, spec, state

CHUNKS = 100_000
SEQS = 1000  # a chunk
LAST = CHUNKS * SEQS
FROM_NS = 1_577_836_800_000_000_000  # 2020-01-01; a chunk covers 36 s, an hour has 100
STEP_NS = 36_000_000_000
SOME_HOUR = "2020-01-03-05:00"
_LIFE = {"stream": LOGS.stream, "created_ns": LOGS.created_ns}

_FILL = """
insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, first_ns, last_ns, payload_bytes,
                         largest_bytes, stored_bytes, sha256, bucket, key, subjects)
select archive_id, incarnation_id, to_char(timestamp '2020-01-01' + i / 100 * interval '1 hour', 'YYYY-MM-DD-HH24:00'),
       int8range(i * %(seqs)s + 1, (i + 1) * %(seqs)s, '[]'), %(seqs)s, %(from)s + i * %(step)s,
       %(from)s + (i + 1) * %(step)s - 1, 256000, 300, 90000, encode(sha256(int8send(i)), 'hex'), 'archive',
       format('archive=%%s/date=2020-01-01/hour=00/%%s.parquet', archive_id, lpad(i::text, 66, '0')),
       case when i %% 10 = 0 then 1 end
from nats3.coverage, generate_series(0, %(chunks)s - 1) i"""
_FILL_SUBJECTS = """
insert into nats3.chunk_subject (chunk_id, archive_id, incarnation_id, first_seq, subject, messages)
select id, archive_id, incarnation_id, lower(seqs), 'logs.a', messages from nats3.chunk where subjects = 1"""
_FILL_GAPS = """
insert into nats3.gap (archive_id, incarnation_id, seqs, reason)
select archive_id, incarnation_id, int8range(%(first)s + i, %(first)s + i + 1), 'deleted'
from nats3.coverage, generate_series(0, 4999) i"""


@pytest.fixture
def full(postgres_url):
    """A catalog whose one archive has CHUNKS chunks."""
    with Catalog.connect(postgres_url) as catalog:
        catalog.archives.create(spec(), state())
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            values = {"seqs": SEQS, "from": FROM_NS, "step": STEP_NS, "chunks": CHUNKS}
            connection.execute(_FILL, values)
            connection.execute(_FILL_SUBJECTS)
            connection.execute("analyze")
        yield catalog


def test_no_call_reads_more_than_it_answers(full, postgres_url):
    logs = full.archives.get("logs")
    hours = full.hours.select(logs)
    assert len(hours) == full.hours.counts(logs).hours == CHUNKS // 100
    assert sum(hour.chunks for hour in hours) == full.coverage.of(logs, LOGS).chunks == CHUNKS
    assert full.coverage.of(logs, LOGS).frontier == LAST

    one_day = [f"2020-01-03-{hour:02}:00" for hour in range(24)]
    middle = full.chunks.select(logs, seqs=SeqRange(LAST // 2, LAST // 2))[0]
    an_hour = ids(full.chunks.select(logs, hours=["2020-01-03-06:00"]))
    last_of_hour = full.chunks.select(logs, hours=[SOME_HOUR])[-1]
    calls = {
        # name: (call, rows that it may read). A row found through an index counts twice; 1,000 hours may be scanned.
        "coverage of an hour": (lambda: full.coverage.covered(logs, LOGS, SeqRange(1, 100 * SEQS)), 20),
        "missing of everything": (lambda: full.coverage.missing(logs, LOGS, SeqRange(1, LAST + 500)), 20),
        "coverages": (lambda: full.coverage.all(logs), 20),
        "totals of all archives": (full.archives.totals, 20),
        "revision": (lambda: full.hours.revision(logs), 20),
        "hours of a page": (lambda: full.hours.select(logs, limit=24, offset=500), 3000),
        "hours of a day": (lambda: full.hours.select(logs, first=one_day[0], last=one_day[-1]), 2000),
        "chunks of an hour": (lambda: full.chunks.select(logs, hours=[SOME_HOUR]), 400),
        "chunks of an hour with subjects": (
            lambda: full.chunks.select(logs, hours=[SOME_HOUR], with_subjects=True),
            500,
        ),
        "chunks of a day": (lambda: full.chunks.select(logs, hours=one_day), 8000),
        "chunks of ten minutes": (lambda: full.chunks.select(logs, time_range=(FROM_NS, FROM_NS + 600 * 10**9)), 300),
        "chunks of the last ten minutes": (
            lambda: full.chunks.select(logs, time_range=(FROM_NS + CHUNKS * STEP_NS - 600 * 10**9, None)),
            300,
        ),
        "chunks of 50,000 sequences": (lambda: full.chunks.select(logs, seqs=SeqRange(LAST - 49_999, LAST)), 800),
        "a page of chunks": (lambda: full.chunks.select(logs, limit=100), 400),
        "a page of chunks from the middle": (lambda: full.chunks.select(logs, limit=100, after=(LOGS, LAST // 2)), 400),
        "a chunk by its key": (lambda: full.chunks.by_key(middle.meta.bucket, middle.meta.key), 20),
        "a sequence": (lambda: full.points.sequence(logs, LAST // 2), 20),
        "a sequence behind the last one": (lambda: full.points.sequence(logs, LAST + 1), 20),
        "the first chunk at any time": (lambda: full.points.first_at(logs, 0), 40),
        "the first chunk at a time": (lambda: full.points.first_at(logs, FROM_NS + CHUNKS // 2 * STEP_NS), 40),
        "the last chunk by time": (lambda: full.points.first_at(logs, FROM_NS + CHUNKS * STEP_NS - 1), 40),
        "no chunk by time": (lambda: full.points.first_at(logs, FROM_NS + CHUNKS * STEP_NS), 40),
        "the newest chunk of a subject": (lambda: full.subjects.newest(logs, LOGS, {"logs.a": LAST}), 20),
        "the newest chunk of no subject": (lambda: full.subjects.newest(logs, LOGS, {"logs.none": LAST}), 20),
        "the next chunk of a subject": (lambda: full.subjects.next(logs, LOGS, ["logs.a"], LAST // 2), 20),
        "distinct subjects": (lambda: full.subjects.like(logs, LOGS, ""), 20),
        "sequences beside the first hour": (lambda: full.hours.beside(logs, LOGS, hours[0].hour, hours[0].hour), 20),
        "sequences beside an hour": (lambda: full.hours.beside(logs, LOGS, SOME_HOUR, SOME_HOUR), 20),
        "sequences beside the last hour": (lambda: full.hours.beside(logs, LOGS, hours[-1].hour, hours[-1].hour), 20),
        "sequences beside a later hour": (
            lambda: full.hours.beside(logs, LOGS, "2099-01-01-00:00", "2098-12-31-23:00"),
            20,
        ),
        "hours around the first sequence": (lambda: full.hours.around(logs, LOGS, SeqRange(1, 1)), 20),
        "hours around a sequence": (lambda: full.hours.around(logs, LOGS, SeqRange(LAST // 2, LAST // 2)), 20),
        "hours around the last sequence": (lambda: full.hours.around(logs, LOGS, SeqRange(LAST, LAST)), 20),
        "gaps": (lambda: full.gaps.select(logs), 20),
        "commit": (lambda: full.chunks.commit(logs, [chunk(LAST + 1, LAST + 9)], [_gap(LAST + 10, LAST + 19)]), 80),
        "retire": (lambda: full.chunks.retire(logs, [middle.id]), 800),
        "retire for repair": (lambda: full.chunks.retire(logs, [last_of_hour.id], recapture=True), 800),
        "missing with a hole": (lambda: full.coverage.missing(logs, LOGS, SeqRange(1, LAST + 500)), 20),
        "dead objects": (lambda: list(full.removals.dead_objects("logs")), 40),
        "claim": (lambda: full.removals.reserve("archive", ["orphan", middle.meta.key]), 40),
        "replay of an hour": (lambda: full.replays.begin("0" * 16, logs, ReplaySpec("logs"), (), an_hour), 4000),
        "pending chunks": (lambda: full.replay_chunks.pending("0" * 16), 2000),
    }
    read = {}
    with psycopg.connect(postgres_url, autocommit=True) as watcher:
        before = _rows_read(full, watcher)
        for name, (call, _) in calls.items():
            call()
            after = _rows_read(full, watcher)
            read[name], before = after - before, after
    too_many = {name: read[name] for name, (_, bound) in calls.items() if read[name] > bound}
    assert not too_many, f"rows read: {too_many}; all: {read}"


def test_ranges_are_looked_up_within_their_archive(postgres_url):
    """By an index of the archive and the range: by the range alone, the chunks of all archives would be read."""
    values = {"seqs": SEQS, "from": FROM_NS, "step": STEP_NS, "chunks": 5000}
    with Catalog.connect(postgres_url) as catalog:
        archives = [catalog.archives.create(spec(name), state()) for name in ("logs", "other")]
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(_FILL, values)
            connection.execute(_FILL_GAPS, {"first": 5000 * SEQS + 1})
            connection.execute("analyze")
        logs = archives[0]
        with catalog.session.reading() as sql:
            ((life,),) = sql.connection.execute("select id from nats3.incarnation").fetchall()
            listed = {
                "archive": logs.id,
                "incarnation": life,
                "hours": None,
                "timed": False,
                "first_ns": None,
                "end_ns": None,
                "first_seq": None,
                "last_seq": None,
                "after": None,
                "limit_to": None,
                "minutes": False,
            }
            some = {"archive": logs.id, **_LIFE, "first_seq": 700_000, "last_seq": 710_000}
            times = {"timed": True, "first_ns": FROM_NS, "end_ns": FROM_NS + 600 * 10**9}
            plans = {
                "chunks by time": _conditions(sql, "list_chunks", **{**listed, **times}),
                "chunks by sequence": _conditions(sql, "list_chunks", **{**listed, "first_seq": 7, "last_seq": 1007}),
                "gaps": _conditions(sql, "list_gaps", **some),
                "gaps of an hour": _conditions(sql, "gaps_of_hour", hour=SOME_HOUR, **some),
                "other hours": _conditions(sql, "other_hours", hour=SOME_HOUR, **some),
            }
    for name, conditions in plans.items():
        ranged = [condition for condition in conditions if "&&" in condition]
        assert ranged, (name, conditions)
        assert all("archive_id = " in condition for condition in ranged), (name, conditions)


def _conditions(sql, statement, **values):
    """By what the statement looks rows up in indexes."""
    rows = sql.connection.execute(b"explain " + _text(statement), values)
    return [line for (line,) in rows if "Index Cond:" in line]


def _gap(first, last):
    return Gap(LOGS, ranges((first, last)), "expired")


def _rows_read(catalog, watcher):
    with catalog.session.reading() as sql:
        sql.connection.execute("select pg_stat_force_next_flush()")
    return rows_read(watcher)
