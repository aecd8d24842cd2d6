"""Several processes at once: one wins, the others are told, and nothing is half done."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import psycopg
import pytest

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import Conflict, Nats3Error
from nats3_dagster.model import Gap, SeqRange
from nats3_dagster_tests.support.catalog import LOGS, chunk, ranges, spec, state

RACERS = 6


@pytest.fixture
def racers(postgres_url):
    """Catalogs on connections of their own."""
    with ExitStack() as stack:
        yield [stack.enter_context(Catalog.connect(postgres_url)) for _ in range(RACERS)]


def _race(*calls):
    """Start all at once; each one's result, or the error that it raised."""
    barrier = Barrier(len(calls))

    def run(call):
        barrier.wait()
        try:
            return call()
        except Nats3Error as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def _gap(first, last):
    return Gap(LOGS, ranges((first, last)), "expired")


@pytest.mark.parametrize("turn", range(5))
def test_of_captures_that_overlap_exactly_one_commits(racers, turn):
    logs = racers[0].archives.create(spec(), state())
    mine = [[chunk(n + 1, 20), chunk(21, 30 + n)] for n in range(RACERS)]
    results = _race(*(lambda c=c, m=m: c.chunks.commit(logs, m) for c, m in zip(racers, mine, strict=True)))
    assert [type(r) for r in results].count(Conflict) == RACERS - 1
    winner = mine[results.index(None)]
    assert [c.meta for c in racers[0].chunks.select(logs)] == winner


def test_captures_side_by_side_all_commit(racers):
    logs = racers[0].archives.create(spec(), state())

    def capture(catalog, lane):
        for n in range(10):
            first = (n * RACERS + lane) * 10 + 1
            catalog.chunks.commit(logs, [chunk(first, first + 9)])

    assert _race(*(lambda c=c, n=n: capture(c, n) for n, c in enumerate(racers))) == [None] * RACERS
    assert racers[0].coverage.covered(logs, LOGS, SeqRange(1, 9999)) == ranges((1, RACERS * 100))
    assert racers[0].hours.select(logs)[0].chunks == RACERS * 10
    # A reader's cursor misses nothing: each commit had a revision of its own.
    assert racers[0].hours.revision(logs) == RACERS * 10


@pytest.mark.parametrize("turn", range(5))
def test_of_a_chunk_and_a_gap_the_chunk_wins(racers, turn):
    logs = racers[0].archives.create(spec(), state())
    calls = [
        (lambda c=c: c.chunks.commit(logs, [chunk(5, 10)]))
        if n % 2
        else (lambda c=c: c.chunks.commit(logs, [], [_gap(8, 12)]))
        for n, c in enumerate(racers)
    ]
    results = _race(*calls)
    # The chunk is committed once, whoever came first, and takes its sequences out of the gap.
    assert [result is None for result in results[1::2]].count(True) == 1
    gap_was_first = results[::2].count(None)
    assert gap_was_first in (0, 1)
    assert [c.meta for c in racers[0].chunks.select(logs)] == [chunk(5, 10)]
    assert racers[0].gaps.select(logs) == ((_gap(11, 12),) if gap_was_first else ())
    assert racers[0].coverage.covered(logs, LOGS, SeqRange(1, 99)) == ranges((5, 12 if gap_was_first else 10))


def test_postgres_keeps_a_chunk_and_a_gap_apart_whatever_writes_them(racers, postgres_url):
    """Without our locks, and in the isolation levels where a reader sees what was committed before it began."""
    insert_chunk = (
        "insert into nats3.chunk (archive_id, incarnation_id, hour, seqs, messages, first_ns, last_ns, payload_bytes,"
        " largest_bytes, stored_bytes, sha256, bucket, key)"
        " select archive_id, incarnation_id, '2026-11-21-07:00', '[5,11)', 6, 1, 1, 1, 1, 1, repeat('0', 64), 'b', 'k'"
        " from nats3.coverage"
    )
    insert_gap = (
        "insert into nats3.gap (archive_id, incarnation_id, seqs, reason)"
        " select archive_id, incarnation_id, '[8,13)', 'expired' from nats3.coverage"
    )
    logs = racers[0].archives.create(spec(), state())
    for level in (psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ):
        with (
            psycopg.connect(postgres_url) as one,
            psycopg.connect(postgres_url) as two,
            ThreadPoolExecutor(1) as pool,
        ):
            one.isolation_level = two.isolation_level = level
            for connection in (one, two):
                connection.execute("select count(*) from nats3.coverage")  # the snapshot of REPEATABLE READ
            one.execute(insert_chunk)
            waiting = pool.submit(two.execute, insert_gap)
            while not one.execute("select from pg_locks where not granted").fetchall():
                assert not waiting.done()
            one.commit()
            with pytest.raises((psycopg.errors.ExclusionViolation, psycopg.errors.SerializationFailure)):
                waiting.result(30)
            two.rollback()
        assert racers[0].gaps.select(logs) == ()
        racers[0].chunks.retire(logs, [c.id for c in racers[0].chunks.select(logs)], recapture=True)


@pytest.mark.parametrize("turn", range(5))
def test_a_commit_and_a_delete_of_its_archive(racers, turn):
    logs = racers[0].archives.create(spec(), state())
    commit, delete = _race(
        lambda: racers[1].chunks.commit(logs, [chunk(1, 10)]), lambda: racers[2].archives.delete("logs")
    )
    # The chunk was there first and went with the archive, or it came too late.
    assert (commit is None, delete) in ((True, 1), (False, 0))
    assert racers[0].chunks.select(logs) == ()


def test_a_name_is_given_once(racers):
    results = _race(*(lambda c=c: c.archives.create(spec(), state()) for c in racers))
    assert [type(r) for r in results].count(Conflict) == RACERS - 1
    assert len(racers[0].archives.all()) == 1


@pytest.mark.parametrize("turn", range(5))
def test_a_chunk_and_the_removal_of_its_object(racers, turn):
    logs = racers[0].archives.create(spec(), state())
    meta = chunk(1, 10)
    racers[0].chunks.commit(logs, [meta])
    racers[0].chunks.retire(logs, [racers[0].chunks.select(logs)[0].id], recapture=True)
    again, claimed = _race(
        lambda: racers[1].chunks.commit(logs, [meta]), lambda: racers[2].removals.reserve(meta.bucket, [meta.key])
    )
    # Either it is live and its object is kept, or its object may go and it is not committed.
    assert (again is None) == (claimed == ())
    assert len(racers[0].chunks.select(logs)) == (again is None)


def test_a_deadlock_is_told_and_undone(racers):
    for name in ("a", "b"):
        racers[0].archives.create(spec(name), state())
    both = Barrier(2)

    def pause(catalog, first, second):
        with catalog.session.transaction():
            catalog.archives.pause(first)
            both.wait()
            catalog.archives.pause(second)

    results = _race(lambda: pause(racers[0], "a", "b"), lambda: pause(racers[1], "b", "a"))
    assert results.count(None) == 1
    loser = next(result for result in results if result)
    assert isinstance(loser, Conflict)
    assert "deadlock detected" in str(loser)
    assert "Nothing was written: run it again" in str(loser)
    assert all(archive.paused for archive in racers[2].archives.all())
