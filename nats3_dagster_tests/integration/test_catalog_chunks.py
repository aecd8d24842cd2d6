"""Chunks and gaps: what Postgres refuses, what it sums, what a listing finds."""

import itertools
import random
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from nats3_dagster.actor import in_run
from nats3_dagster.errors import CatalogError, Conflict, OperatorError
from nats3_dagster.hours import hour_of, hour_start
from nats3_dagster.model import Gap, Incarnation, Reason, SeqRange
from nats3_dagster.model.erasure import ErasureRecord
from nats3_dagster_tests.support.catalog import HOUR, HOUR_NS, LOGS, chunk, ranges, spec, state

AGAIN = Incarnation("LOGS", LOGS.created_ns + 1)
NEXT_HOUR = "2026-11-21-08:00"


@pytest.fixture
def logs(catalog):
    return catalog.archives.create(spec(), state())


def _gap(*pairs, reason: Reason = "expired", incarnation=LOGS):
    return Gap(incarnation, ranges(*pairs), reason)


LOST = ("expired", "superseded", "ttl", "superseded_or_ttl", "damaged", "undelivered")


def _covers(chunks):
    return [tuple(c.meta.covers) for c in chunks]


# What is kept


def test_a_chunk_comes_back_as_it_was_committed(catalog, logs):
    meta = chunk(1, 10, 7, deleted=ranges((2, 3), (9, 9)), subjects={"logs.a": 5, "logs.b\t\\N\n": 2})
    with in_run("run-1"):
        catalog.chunks.commit(logs, [meta])
    (bare,) = catalog.chunks.select(logs)
    assert bare.meta == replace(meta, deleted=None, subjects=None)
    assert bare.dagster_run_id == "run-1"
    assert abs((catalog.now() - bare.committed_at).total_seconds()) < 60
    (whole,) = catalog.chunks.select(logs, with_subjects=True, with_deleted=True)
    assert whole.meta == meta
    assert catalog.chunks.get(bare.id) == whole
    assert catalog.chunks.by_key(meta.bucket, meta.key) == whole
    assert catalog.chunks.by_key("other", meta.key) is None
    with pytest.raises(OperatorError, match="There is no chunk 999"):
        catalog.chunks.get(999)


def test_nothing_deleted_is_not_the_same_as_not_known(catalog, logs):
    catalog.chunks.commit(logs, [chunk(1, 10, deleted=()), chunk(11, 20)])
    first, second = catalog.chunks.select(logs, with_deleted=True, with_subjects=True)
    assert (first.meta.deleted, second.meta.deleted) == ((), None)
    assert (first.meta.subjects, second.meta.subjects) == (None, None)


def test_ten_thousand_subjects_and_a_hundred_thousand_deleted_ranges_are_quick(catalog, logs):
    subjects = {f"logs.host{n}.{'x' * 50}": 10 for n in range(10_000)}
    deleted = tuple(SeqRange(n, n) for n in range(2, 600_001, 3))
    meta = chunk(1, 300_000, 100_000, subjects=subjects, deleted=None)
    holes = chunk(300_001, 900_000, 400_000, deleted=tuple(SeqRange(n + 300_000, n + 300_000) for n, _ in deleted))
    began = time.monotonic()
    catalog.chunks.commit(logs, [meta, holes])
    assert time.monotonic() - began < 60  # 2 s on an idle machine
    first, second = catalog.chunks.select(logs, with_subjects=True, with_deleted=True)
    assert first.meta.subjects == subjects
    assert second.meta.deleted == holes.deleted


def test_a_commit_too_large_for_one_statement_is_one_transaction(catalog, logs, monkeypatch):
    monkeypatch.setattr("nats3_dagster.catalog.contents.chunk_rows.STATEMENT_CHARS", 1000)
    metas = [chunk(n, n + 9, subjects={"a": 4, "b": 6}) for n in range(1, 100, 10)]
    with pytest.raises(Conflict):
        catalog.chunks.commit(logs, [*metas, chunk(50, 60)])
    assert catalog.chunks.select(logs) == ()
    catalog.chunks.commit(logs, metas)
    assert [c.meta for c in catalog.chunks.select(logs, with_subjects=True)] == metas
    assert catalog.hours.select(logs)[0].messages == 100


def test_subjects_that_postgres_cannot_hold(catalog, logs):
    long = "logs." + "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=4000))
    catalog.chunks.commit(logs, [chunk(1, 2, subjects={"nul\0": 1, "b": 1}), chunk(3, 4, subjects={long: 2})])
    first, second = catalog.chunks.select(logs, with_subjects=True)
    assert first.meta.subjects is None
    assert second.meta.subjects == {long: 2}


# What is refused


def test_overlapping_chunks_are_refused(catalog, logs):
    catalog.chunks.commit(logs, [chunk(1, 10)])
    for first, last in [(5, 15), (1, 10), (3, 4), (10, 10), (1, 1)]:
        with pytest.raises(Conflict, match=f"Sequences {first}-{last} of archive logs: a chunk of 1-10 is there"):
            catalog.chunks.commit(logs, [chunk(50, 60), chunk(first, last)], [_gap((90, 91))])
        assert _covers(catalog.chunks.select(logs)) == [(1, 10)]
        assert catalog.gaps.select(logs) == ()


def test_chunks_that_overlap_in_one_commit_are_refused(catalog, logs):
    with pytest.raises(Conflict, match="Sequences 10-20"):
        catalog.chunks.commit(logs, [chunk(1, 10), chunk(10, 20)])
    assert catalog.chunks.select(logs) == ()


def test_the_same_sequences_in_another_archive_or_incarnation_are_no_overlap(catalog, logs):
    other = catalog.archives.create(spec("other"), state())
    catalog.coverage.begin(logs, state(AGAIN))
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(1, 10, incarnation=AGAIN)])
    catalog.chunks.commit(other, [chunk(1, 10, archive="other")])
    assert len(catalog.chunks.select(logs)) == 2


@pytest.mark.parametrize(
    ("first", "then", "say"),
    [
        (([(1, 5)], []), ([], [(5, 8)]), "chunk 1-5 and in the gap 5-8"),
        (([(1, 5)], []), ([], [(7, 8), (3, 3)]), "chunk 1-5 and in the gap 3-3"),
        (([], [(5, 8)]), ([], [(1, 5)]), "Sequences 1-5 of archive logs: a gap of 5-8 is recorded"),
        (([], []), ([(1, 5)], [(5, 8)]), "chunk 1-5 and in the gap 5-8"),
    ],
)
def test_a_sequence_is_in_a_chunk_or_in_a_gap(catalog, logs, first, then, say):
    def commit(chunks, gaps):
        catalog.chunks.commit(logs, [chunk(*c) for c in chunks], [_gap(*gaps)] if gaps else [])

    commit(*first)
    before = (_covers(catalog.chunks.select(logs)), catalog.gaps.select(logs))
    with pytest.raises(Conflict, match=say):
        commit(*then)
    assert (_covers(catalog.chunks.select(logs)), catalog.gaps.select(logs)) == before


def test_a_chunk_takes_its_sequences_out_of_gaps(catalog, postgres_url):
    reasons: list[Reason] = [
        "deleted",
        "expired",
        "superseded",
        "ttl",
        "damaged",
        "undelivered",
        "missing",
        "unselected",
    ]
    kept = """select count(*) filter (where dagster_run_id = 'run-1'), count(distinct recorded_at) from nats3.gap
              where archive_id = %s"""
    for reason in reasons:
        archive = catalog.archives.create(spec(reason), state())
        gap = _gap((1, 9), (11, 11), (13, 20), (30, 40), reason=reason)
        with in_run("run-1"):
            catalog.chunks.commit(archive, [], [gap])
        with in_run("run-2"):
            catalog.chunks.commit(archive, [chunk(5, 15, archive=reason), chunk(33, 35, archive=reason)])
        assert _covers(catalog.chunks.select(archive)) == [(5, 15), (33, 35)]
        assert catalog.gaps.select(archive) == (_gap((1, 4), (16, 20), (30, 32), (36, 40), reason=reason),)
        assert catalog.coverage.covered(archive, LOGS, SeqRange(1, 99)) == ranges((1, 20), (30, 40))
        with psycopg.connect(postgres_url) as connection:
            assert connection.execute(kept, [archive.id]).fetchone() == (4, 1), reason


def test_what_was_retired_does_not_come_back(catalog, logs):
    """A capture that was under way while somebody took its sequences out of the archive."""
    catalog.chunks.commit(logs, [chunk(1, 10)])
    catalog.chunks.retire(logs, [catalog.chunks.select(logs)[0].id])
    with pytest.raises(Conflict, match="chunk 5-12 and in the gap 1-10"):
        catalog.chunks.commit(logs, [chunk(5, 12)])


def test_hours_beside_a_gap_change_with_it(catalog, logs):
    def hours_that_change(chunks, gaps):
        seen = catalog.hours.revision(logs)
        catalog.chunks.commit(logs, chunks, gaps)
        return [h.hour[11:13] for h in catalog.hours.select(logs) if h.revision > seen]

    hours = [f"2026-11-21-{n:02}:00" for n in range(7, 12)]
    begins = (1, 21, 41, 61, 81)
    times = [hour_start(hour) for hour in hours]
    catalog.coverage.observe(logs, replace(state(), last_ns=times[-1] + 100))
    made = zip(begins, hours, times, strict=True)
    catalog.chunks.commit(logs, [chunk(n, n + 9, hour=h, first_ns=t, last_ns=t + 9) for n, h, t in made])
    assert hours_that_change([], [_gap((31, 35))]) == ["08", "09"]
    # Nothing of an hour was lost behind its last message; the hours that follow account for it.
    assert hours_that_change([], [_gap((51, 55), reason="unselected")]) == ["10"]
    assert hours_that_change([], [_gap((91, 95))]) == ["11"]
    assert hours_that_change([], [_gap((96, 97), reason="deleted")]) == []
    # The hours whose gap shrinks, and the hour of the chunk.
    assert hours_that_change([chunk(34, 35, hour=hours[0])], []) == ["07", "08", "09"]


def test_what_chunks_lost_is_summed_by_reason(catalog):
    for reason in LOST:
        archive = catalog.archives.create(spec(reason), state())
        lost = chunk(1, 10, 7, archive=reason, deleted=ranges((2, 3), (5, 5)), absent_reason=reason)
        other = chunk(11, 20, 9, archive=reason, deleted=ranges((12, 12)), absent_reason="deleted")
        catalog.chunks.commit(archive, [lost, other])
        assert [c.meta.absent_reason for c in catalog.chunks.select(archive)] == [reason, "deleted"]
        assert catalog.coverage.of(archive, LOGS).lost == {reason: 3}
        assert [(h.absent, h.lost) for h in catalog.hours.select(archive)] == [(4, {reason: 3})]
        more = chunk(21, 30, 8, archive=reason, deleted=ranges((22, 23)), absent_reason=reason)
        catalog.chunks.commit(archive, [more])
        assert catalog.coverage.of(archive, LOGS).lost == {reason: 5}
        catalog.chunks.retire(archive, [catalog.chunks.select(archive)[0].id])
        assert catalog.coverage.of(archive, LOGS).lost == catalog.hours.select(archive)[0].lost == {reason: 2}


def test_what_does_not_add_up_is_refused(catalog, logs):
    cases = [
        (chunk(1, 10, 11), "chunk_accounts"),
        (chunk(1, 10, 0), "chunk_messages_check"),
        (chunk(1, 10, 8, deleted=ranges((2, 2))), "chunk_deleted_accounts"),
        (chunk(1, 10, 8, deleted=ranges((2, 4))), "chunk_deleted_accounts"),
        (chunk(1, 10, 8, deleted=ranges((10, 11))), "chunk_deleted_accounts"),
        (chunk(1, 10, 8, deleted=()), "chunk_deleted_accounts"),
        (chunk(1, 10, 9, deleted=ranges((2, 2)), absent_reason=None), "chunk_absent_reason"),
        (chunk(1, 10, 9, absent_reason="superseded"), "chunk_absent_reason"),
        (chunk(1, 10, 9, deleted=ranges((2, 2)), absent_reason="retired"), "chunk_absent_reason"),
        (chunk(1, 10, absent_reason="deleted"), "chunk_absent_reason"),
        (chunk(0, 10), "chunk_seqs_proper"),
        (chunk(1, 10, first_ns=5, last_ns=4), "chunk_times_ordered"),
        (chunk(1, 10, sha256="0"), "chunk_sha256_check"),
        (chunk(1, 10, hour="2026-11-21"), "chunk_hour_check"),
        (chunk(1, 10, stored_bytes=0), "chunk_stored_bytes_check"),
        (chunk(1, 10, subjects={"a": 9}), "chunk_subjects_account"),
        (chunk(1, 10, subjects={"a": 10, "b": 0}), "chunk_subject_messages_check"),
    ]
    for bad, rule in cases:
        with pytest.raises(CatalogError, match=rf"does not add up \({rule}\)"):
            catalog.chunks.commit(logs, [chunk(20, 30), bad])
        assert catalog.chunks.select(logs) == ()


@pytest.mark.parametrize(
    ("chunk_id", "first_seq", "subject"),
    [("2", 11, "b"), ("3", 21, "b"), ("1", 2, "a"), ("4", 31, "b"), ("4", 31, "a")],
    ids=["retired", "unknown", "elsewhere", "too few", "counted already"],
)
def test_subjects_of_no_live_chunk_or_of_another_place_are_refused(
    catalog, logs, postgres_url, chunk_id, first_seq, subject
):
    """No foreign key holds this."""
    catalog.chunks.commit(logs, [chunk(1, 10, subjects={"a": 10}), chunk(11, 20, subjects={"b": 10})])
    one, two = (c.id for c in catalog.chunks.select(logs))
    catalog.chunks.retire(logs, [two])
    catalog.chunks.commit(logs, [chunk(31, 40, subjects={"a": 5, "b": 5})])
    four = catalog.chunks.select(logs)[-1].id
    ids = {"1": one, "2": two, "3": four + 1, "4": four}
    statement = "insert into nats3.chunk_subject select %s, %s, incarnation_id, %s, %s, 5 from nats3.coverage"
    with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.IntegrityError, match="the subjects of"):
        connection.execute(statement, [ids[chunk_id], logs.id, first_seq, subject])


def test_postgres_reads_the_key_of_a_subject_without_a_call(catalog, logs, postgres_url):
    """A call of a function in SQL takes longer than all else that a commit does for a row."""
    with psycopg.connect(postgres_url) as connection:
        plan = connection.execute("explain (verbose) select nats3.subject_key(subject) from nats3.chunk_subject")
        (line,) = [line for (line,) in plan if "Output" in line]
    assert "octet_length" in line


def test_nothing_is_covered_before_the_archive_begins(catalog):
    late = catalog.archives.create(spec(), state(first=50))
    for chunks, gaps in (([chunk(49, 60)], []), ([], [_gap((1, 2))])):
        with pytest.raises(CatalogError, match="does not begin that early: .* is before 50"):
            catalog.chunks.commit(late, chunks, gaps)


def test_an_incarnation_that_was_not_adopted_is_refused(catalog, logs):
    with pytest.raises(CatalogError, match="Observe or adopt it first"):
        catalog.chunks.commit(logs, [chunk(1, 10, incarnation=AGAIN)])


def test_an_object_belongs_to_one_chunk(catalog, logs):
    catalog.chunks.commit(logs, [chunk(1, 10, key="k")])
    with pytest.raises(Conflict, match="An object of archive logs is in the catalog already.*k"):
        catalog.chunks.commit(logs, [chunk(11, 20, key="k")])


def test_rows_of_what_exists_never_change(catalog, logs, postgres_url):
    catalog.chunks.commit(logs, [chunk(1, 10)], [_gap((11, 12))])
    statements = [
        "update nats3.chunk set seqs = '[1,5)'",
        "update nats3.chunk set sha256 = repeat('0', 64)",
        "update nats3.chunk set deleted_at = null",
        "delete from nats3.chunk",
        "update nats3.chunk set absent_reason = null",
        "update nats3.gap set reason = 'deleted'",
        "delete from nats3.gap",
    ]
    for statement in statements:
        with psycopg.connect(postgres_url) as connection, pytest.raises(psycopg.IntegrityError, match="immutable"):
            connection.execute(statement.encode())


# What is covered


def test_coverage_joins_chunks_and_gaps_and_missing_is_the_rest(catalog, logs):
    gone = [_gap((21, 25)), _gap((30, 35), reason="deleted")]
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20), chunk(41, 50)], gone)
    assert catalog.coverage.covered(logs, LOGS, SeqRange(1, 100)) == ranges((1, 25), (30, 35), (41, 50))
    assert catalog.coverage.covered(logs, LOGS, SeqRange(5, 31)) == ranges((5, 25), (30, 31))
    assert catalog.coverage.covered(logs, LOGS, SeqRange(26, 29)) == ()
    assert catalog.coverage.missing(logs, LOGS, SeqRange(1, 60)) == ranges((26, 29), (36, 40), (51, 60))
    assert catalog.coverage.missing(logs, LOGS, SeqRange(2, 24)) == ()
    (kept,) = catalog.coverage.all(logs)
    assert (kept.start, kept.frontier, kept.last) == (1, 25, 50)
    assert catalog.coverage.of(logs, LOGS) == kept
    catalog.chunks.commit(logs, [chunk(26, 29)])
    assert catalog.coverage.of(logs, LOGS).frontier == 35
    assert catalog.gaps.select(logs) == (_gap((21, 25)), _gap((30, 35), reason="deleted"))
    assert catalog.gaps.select(logs, within=SeqRange(25, 29)) == (_gap((21, 25)),)
    assert catalog.gaps.select(logs, incarnation=AGAIN) == ()


def test_a_gap_of_many_ranges(catalog, logs):
    gap = _gap(*((n, n) for n in range(1, 40_001, 2)), reason="deleted")
    catalog.chunks.commit(logs, [], [gap])
    assert catalog.gaps.select(logs) == (gap,)
    assert catalog.coverage.missing(logs, LOGS, SeqRange(1, 6)) == ranges((2, 2), (4, 4), (6, 6))


def test_hours_sum_the_live_chunks(catalog, logs):
    catalog.coverage.begin(logs, state(AGAIN))
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 30, 15), chunk(31, 40, hour=NEXT_HOUR)])
    seen = catalog.hours.revision(logs)
    catalog.chunks.commit(logs, [chunk(3, 4, incarnation=AGAIN, hour=NEXT_HOUR)])
    first, second = catalog.hours.select(logs)
    assert (first.hour, first.chunks, first.messages, first.absent) == (HOUR, 2, 25, 5)
    assert (first.payload_bytes, first.stored_bytes) == (2500, 752)
    assert (first.first_ns, first.last_ns, first.spans) == (HOUR_NS + 1, HOUR_NS + 30, ((LOGS, SeqRange(1, 30)),))
    assert (second.hour, second.chunks, second.messages) == (NEXT_HOUR, 2, 12)
    assert second.spans == ((LOGS, SeqRange(31, 40)), (AGAIN, SeqRange(3, 4)))
    assert catalog.hours.counts(logs).hours == 2
    assert catalog.hours.select(logs, limit=1) == (first,)
    assert catalog.hours.select(logs, limit=1, offset=1) == catalog.hours.select(logs, first=NEXT_HOUR) == (second,)
    assert catalog.hours.select(logs, last=HOUR) == (first,)
    assert [h.hour for h in catalog.hours.select(logs) if h.revision > seen] == [NEXT_HOUR]
    assert max(h.revision for h in catalog.hours.select(logs)) == catalog.hours.revision(logs)


# What is listed


def test_chunks_are_listed_in_the_order_of_the_stream(catalog, logs):
    catalog.coverage.begin(logs, state(AGAIN))
    catalog.chunks.commit(
        logs, [chunk(1, 5, incarnation=AGAIN), chunk(21, 30), chunk(1, 10, hour=NEXT_HOUR), chunk(11, 20)]
    )
    everything = catalog.chunks.select(logs)
    assert _covers(everything) == [(1, 10), (11, 20), (21, 30), (1, 5)]
    assert _covers(catalog.chunks.select(logs, incarnation=AGAIN)) == [(1, 5)]
    assert _covers(catalog.chunks.select(logs, hours=[NEXT_HOUR])) == [(1, 10)]
    assert _covers(catalog.chunks.select(logs, hours=[])) == []
    assert _covers(catalog.chunks.select(logs, seqs=SeqRange(10, 11))) == [(1, 10), (11, 20)]
    assert _covers(catalog.chunks.select(logs, seqs=SeqRange(10, 11), hours=[HOUR])) == [(11, 20)]
    assert _covers(catalog.chunks.select(logs, limit=3)) == [(1, 10), (11, 20), (21, 30)]
    paged, after = [], None
    while page := catalog.chunks.select(logs, limit=1, after=after):
        paged, after = [*paged, *page], (page[-1].meta.incarnation, page[-1].meta.covers.last)
    assert tuple(paged) == everything


@pytest.mark.parametrize("recapture", [False, True])
def test_a_page_goes_on_after_its_last_chunk_was_retired(catalog, logs, recapture):
    catalog.coverage.begin(logs, state(AGAIN))
    catalog.chunks.commit(logs, [chunk(n, n + 9) for n in (1, 11, 21, 31)] + [chunk(1, 5, incarnation=AGAIN)])
    page = catalog.chunks.select(logs, limit=2)
    catalog.chunks.retire(logs, [page[-1].id], recapture=recapture)
    page = catalog.chunks.select(logs, limit=2, after=(LOGS, 20))
    assert _covers(page) == [(21, 30), (31, 40)]
    catalog.chunks.retire(logs, [page[-1].id], recapture=recapture)
    page = catalog.chunks.select(logs, limit=2, after=(LOGS, 40))
    assert [(c.meta.incarnation, *c.meta.covers) for c in page] == [(AGAIN, 1, 5)]
    assert catalog.chunks.select(logs, after=(AGAIN, 5)) == ()


_WINDOWS = {
    (None, None): [1, 11, 21],
    (HOUR_NS + 20, HOUR_NS + 21): [11],
    (HOUR_NS + 20, HOUR_NS + 22): [11, 21],
    (HOUR_NS + 11, None): [11, 21],
    (None, HOUR_NS + 11): [1],
    (HOUR_NS + 99, None): [],
}


def test_a_time_range_takes_chunks_with_a_message_in_it_and_stops_before_its_end(catalog, logs):
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20), chunk(21, 30)])
    found = {
        window: [c.meta.covers.first for c in catalog.chunks.select(logs, time_range=window)] for window in _WINDOWS
    }
    assert found == _WINDOWS


# What is retired


def test_a_retired_chunk_leaves_a_gap(catalog, logs):
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20), chunk(21, 30, hour=NEXT_HOUR)])
    first, second, third = catalog.chunks.select(logs)
    assert catalog.chunks.retire(logs, [second.id, third.id]) == 2
    assert catalog.chunks.retire(logs, [second.id]) == 0
    assert catalog.chunks.select(logs) == (first,)
    assert catalog.gaps.select(logs) == (_gap((11, 30), reason="retired"),)
    assert catalog.coverage.covered(logs, LOGS, SeqRange(1, 99)) == ranges((1, 30))
    kept = catalog.coverage.of(logs, LOGS)
    assert (kept.chunks, kept.messages, kept.last_ns, kept.frontier) == (1, 10, HOUR_NS + 10, 30)
    assert [(h.hour, h.chunks) for h in catalog.hours.select(logs)] == [(HOUR, 1)]
    with pytest.raises(OperatorError):
        catalog.chunks.get(second.id)


def test_a_chunk_retired_for_repair_is_missing_until_it_is_captured_again(catalog, logs):
    catalog.chunks.commit(logs, [chunk(1, 10), chunk(11, 20), chunk(21, 30)])
    assert catalog.chunks.retire(logs, [catalog.chunks.select(logs)[1].id], recapture=True) == 1
    assert catalog.coverage.missing(logs, LOGS, SeqRange(1, 30)) == ranges((11, 20))
    assert catalog.coverage.of(logs, LOGS).frontier == 10
    catalog.chunks.commit(logs, [chunk(11, 20)])
    assert catalog.coverage.missing(logs, LOGS, SeqRange(1, 30)) == ()
    assert catalog.coverage.of(logs, LOGS).frontier == 30


def test_a_chunk_of_another_archive_is_not_retired(catalog, logs):
    other = catalog.archives.create(spec("other"), state())
    catalog.chunks.commit(other, [chunk(1, 10, archive="other")])
    assert catalog.chunks.retire(logs, [catalog.chunks.select(other)[0].id]) == 0
    assert len(catalog.chunks.select(other)) == 1


# Gaps


def test_losses_are_of_the_times_between_their_neighbours(catalog):
    """Of all times that begin and end at a neighbour, or a nanosecond before or after it. The last loss ends with the
    last message that the stream was seen with."""
    minute = 60 * 10**9
    end_ns = HOUR_NS + 170 * minute
    logs = catalog.archives.create(spec(), replace(state(), last_ns=end_ns))
    neighbours = []
    for number in range(3):
        start, first = HOUR_NS + number * 60 * minute, 10 * number + 1
        times: dict[str, Any] = {"first_ns": start + 10 * minute, "last_ns": start + 20 * minute}
        catalog.chunks.commit(logs, [chunk(first, first + 4, hour=hour_of(start), **times)])
        neighbours += [*times.values()]
    gaps = [(10 * number + 6, 10 * number + 10) for number in range(3)]
    for pair in gaps:
        catalog.chunks.commit(logs, [], [_gap(pair)])
    between = list(zip(neighbours[1::2], [*neighbours[2::2], end_ns], strict=True))
    points = sorted({at + step for at in [*neighbours, end_ns] for step in (-1, 0, 1)} | {HOUR_NS})
    every = SeqRange(1, 100)

    def lost(*times, within=every):
        found = catalog.gaps.losses(logs, within, list(times))
        return [tuple(part) for gap in found for part in gap.ranges]

    def may_be_of(since, until):
        return [pair for pair, (after, before) in zip(gaps, between, strict=True) if after < until and before >= since]

    for since, until in itertools.combinations(points, 2):
        assert lost((since, until)) == may_be_of(since, until)
    # Of several times: of one of them.
    early, late = (neighbours[1], neighbours[1] + 1), (neighbours[-1], end_ns)
    assert lost(early, late) == lost(late, early) == [gaps[0], gaps[2]]
    assert lost((points[0], points[-1]), within=SeqRange(10, 16)) == [(6, 10), (16, 20)]
    assert lost((points[0], points[-1]), within=SeqRange(11, 15)) == []


def test_only_what_was_erased_in_this_archive_is_a_gap_of_that_reason(catalog, logs):
    other = catalog.archives.create(spec("other"), state())
    for archive in (logs, other):
        catalog.coverage.begin(archive, state(AGAIN))
    sequences = {LOGS.created_ns: ranges((3, 4), (8, 8))}
    catalog.erasures.learn(logs, ErasureRecord(uuid4(), 1, None, catalog.now(), sequences), "a" * 64)
    for archive, life, erased in ((logs, LOGS, True), (logs, AGAIN, False), (other, LOGS, False)):
        catalog.chunks.commit(archive, [], [_gap((1, 3), (6, 10), incarnation=life)])
        found = {gap.reason: gap.ranges for gap in catalog.gaps.select(archive, incarnation=life)}
        assert found == (
            {"expired": ranges((1, 2), (6, 7), (9, 10)), "erased": ranges((3, 3), (8, 8))}
            if erased
            else {"expired": ranges((1, 3), (6, 10))}
        )


# What is kept beside the rows follows them

_COVERED = """
select c.archive_id, i.stream, i.created_ns, coalesce(range_agg(p.seqs), '{}')::text, c.covered::text
from nats3.coverage c join nats3.incarnation i on i.id = c.incarnation_id left join (
    select archive_id, incarnation_id, seqs from nats3.chunk where deleted_at is null
    union all select archive_id, incarnation_id, seqs from nats3.gap
) p using (archive_id, incarnation_id) group by c.archive_id, c.incarnation_id, i.stream, i.created_ns, c.covered"""
_HOURS = """
select archive_id, incarnation_id, hour, count(*)::bigint, sum(messages)::bigint, sum(absent)::bigint,
       sum(payload_bytes)::bigint, sum(stored_bytes)::bigint, min(lower(seqs)), max(upper(seqs)) - 1, min(first_ns),
       max(last_ns), coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0)::bigint,
       coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0)::bigint
from nats3.chunk where deleted_at is null group by 1, 2, 3 order by 1, 2, 3"""
_KEPT_HOURS = """
select archive_id, incarnation_id, hour, chunks, messages, absent, payload_bytes, stored_bytes, first_seq, last_seq,
       first_ns, last_ns, superseded, ttl from nats3.hour order by 1, 2, 3"""
_SUMS = """
select archive_id, incarnation_id, count(*)::bigint, sum(messages)::bigint, sum(absent)::bigint,
       sum(payload_bytes)::bigint, sum(stored_bytes)::bigint, min(first_ns), max(last_ns),
       coalesce(sum(absent) filter (where absent_reason = 'superseded'), 0)::bigint,
       coalesce(sum(absent) filter (where absent_reason = 'ttl'), 0)::bigint
from nats3.chunk where deleted_at is null group by 1, 2 order by 1, 2"""
_KEPT_SUMS = """
select archive_id, incarnation_id, chunks, messages, absent, payload_bytes, stored_bytes, first_ns, last_ns, superseded,
       ttl
from nats3.coverage where chunks > 0 order by 1, 2"""


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_the_sums_and_the_coverage_follow_the_rows(catalog, logs, postgres_url, seed):
    chance = random.Random(seed)
    catalog.coverage.begin(logs, state(AGAIN))
    other = catalog.archives.create(spec("other"), state())
    refused = 0
    for _ in range(120):
        archive, incarnation = chance.choice([(logs, LOGS), (logs, AGAIN), (other, LOGS)])
        first = chance.randint(1, 300)
        last = first + chance.randint(0, 9)
        try:
            match chance.randint(0, 5):
                case 0:
                    catalog.chunks.commit(
                        archive, [], [_gap((first, last), (last + 2, last + 3), incarnation=incarnation)]
                    )
                case 1 if live := catalog.chunks.select(archive):
                    some = chance.sample(live, min(len(live), 3))
                    catalog.chunks.retire(archive, [c.id for c in some], recapture=chance.random() < 0.6)
                case _:
                    hour, messages = chance.choice([HOUR, NEXT_HOUR]), chance.randint(1, last - first + 1)
                    kind = {"archive": archive.name, "incarnation": incarnation, "hour": hour}
                    lost = {}
                    if messages <= last - first:
                        absent = ranges((first, last - messages))
                        lost = {"deleted": absent, "absent_reason": chance.choice(["deleted", "superseded", "ttl"])}
                    catalog.chunks.commit(
                        archive, [chunk(first, last, messages, **kind, **lost), chunk(last + 1, last + 2, **kind)]
                    )
        except Conflict:
            refused += 1
    assert 5 < refused < 110
    with psycopg.connect(postgres_url) as connection:
        assert all(row[3] == row[4] for row in connection.execute(_COVERED))
        assert connection.execute(_HOURS).fetchall() == connection.execute(_KEPT_HOURS).fetchall()
        assert connection.execute(_SUMS).fetchall() == connection.execute(_KEPT_SUMS).fetchall()
