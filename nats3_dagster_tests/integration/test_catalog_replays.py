"""Replays: planned once, driven by one process at a time, done only when every message is accounted for."""

import psycopg
import pytest

from nats3_dagster.actor import in_run
from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.replays.replay_chunks import PendingPage
from nats3_dagster.errors import CatalogError, Conflict, OperatorError
from nats3_dagster.model import ChunkResult, DonePart, Incarnation, Pace, ReplaySpec, ReplayTarget, Selection, SeqRange
from nats3_dagster_tests.support.catalog import HOUR, LOGS, chunk, ids, spec, state

ID = "0123456789abcdef"
TARGETS = (ReplayTarget(Incarnation("A", 5), 17), ReplayTarget(Incarnation("B", 6), 1))


@pytest.fixture
def logs(catalog):
    archive = catalog.archives.create(spec(), state())
    catalog.chunks.commit(archive, [chunk(n, n + 9) for n in (1, 11, 21)])
    return archive


@pytest.fixture
def chunks(catalog, logs):
    return catalog.chunks.select(logs)


def _result(chunk, published=10, found=0, duplicates=0, selected=None):
    selected = published + found if selected is None else selected
    return ChunkResult(chunk.id, selected, published, found, duplicates)


def test_a_replay_comes_back_as_it_was_asked_for(catalog, logs, chunks):
    asked = ReplaySpec(
        "logs",
        "replay.>",
        Selection((HOUR,), 1, 2**62, SeqRange(1, 30), ("logs.>",)),
        order="subject",
        pace=Pace(rate=2.5),
        create_stream="NEW",
        into_own_stream=True,
        over_gaps=True,
        delete_chunks=True,
    )
    made = catalog.replays.begin(ID, logs, asked, TARGETS, ids(chunks))
    assert (made.id, made.spec, made.targets) == (ID, asked, TARGETS)
    assert (made.state, made.attempt, made.chunks, made.chunks_done) == ("planned", 0, 3, 0)
    assert catalog.replays.get(ID) == made
    catalog.replays.begin("f" * 16, logs, ReplaySpec("logs"), (), ids(chunks[:1]))
    assert [r.id for r in catalog.replays.select()] == ["f" * 16, ID]
    assert catalog.replays.select(limit=1)[0].spec == ReplaySpec("logs")
    other = catalog.archives.create(spec("other"), state())
    assert catalog.replays.select(other) == ()
    assert [r.id for r in catalog.replays.select(logs)] == ["f" * 16, ID]


def test_chunks_are_pending_in_the_order_of_the_plan(catalog, logs, chunks):
    plan = (chunks[2], chunks[0], chunks[1])
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(plan))
    assert catalog.replay_chunks.pending(ID, with_minutes=True).chunks == plan
    first = catalog.replay_chunks.pending(ID, places=2, with_minutes=True)
    assert (first.chunks, first.position, first.is_last) == (plan[:2], 2, False)
    rest = catalog.replay_chunks.pending(ID, places=2, after=2, with_minutes=True)
    assert (rest.chunks, rest.position, rest.is_last) == (plan[2:], 3, True)
    assert catalog.replay_chunks.pending(ID, after=3) == PendingPage((), 3, True)
    attempt = catalog.replays.start_attempt(ID)
    catalog.replay_chunks.record(ID, attempt, [_result(chunks[0])])
    assert catalog.replay_chunks.pending(ID, with_minutes=True).chunks == (chunks[2], chunks[1])
    assert [(c.chunk_id, c.state, c.planned) for c in catalog.replay_chunks.last(ID, 9)] == [
        (chunks[2].id, "pending", 10),
        (chunks[0].id, "done", 10),
        (chunks[1].id, "pending", 10),
    ]


def test_a_replay_from_plan_to_success(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), TARGETS, ids(chunks))
    with in_run("run-1"):
        assert catalog.replays.start_attempt(ID) == 1
    running = catalog.replays.get(ID)
    assert (running.state, running.run_ids) == ("running", ("run-1",))
    catalog.replay_chunks.record(ID, 1, [_result(chunks[0]), _result(chunks[1], 4, selected=4)])
    catalog.replays.finish(ID, 1, "failed", "the target was full")
    failed = catalog.replays.get(ID)
    assert (failed.state, failed.error) == ("failed", "the target was full")
    assert (failed.chunks_done, failed.published) == (2, 14)
    with in_run("run-2"):
        assert catalog.replays.start_attempt(ID) == 2
        catalog.replay_chunks.record(ID, 2, [_result(chunks[1], 10), _result(chunks[2], 7, 3, 2)])
    catalog.replays.finish(ID, 2, "succeeded")
    done = catalog.replays.get(ID)
    # What was done in the first attempt stays as it was.
    assert (done.selected, done.published, done.found, done.duplicates) == (24, 21, 3, 2)
    assert (done.state, done.error, done.chunks_done, done.run_ids) == ("succeeded", None, 3, ("run-1", "run-2"))
    assert done.created_at <= done.started_at <= done.finished_at
    last = catalog.replay_chunks.last(ID, 9)[2]
    assert (last.published, last.found, last.attempt, last.dagster_run_id) == (7, 3, 2, "run-2")
    assert catalog.replay_chunks.of_chunk(chunks[2].id) == (last,)
    with pytest.raises(Conflict, match="has succeeded"):
        catalog.replays.start_attempt(ID)


def test_an_hour_is_whole_when_all_its_chunks_of_that_time_were_published_whole(catalog, logs):
    one, two, three = "2026-11-21-08:00", "2026-11-21-09:00", "2026-11-21-10:00"
    catalog.chunks.commit(
        logs,
        [
            chunk(first, first + 9, hour=hour)
            for first, hour in ((31, one), (41, one), (51, two), (61, two), (71, three))
        ],
    )
    by_first = {c.meta.covers.first: c for c in catalog.chunks.select(logs)}
    # Of the first hour one chunk is not in the plan; of the last one not every message is selected.
    planned = [by_first[first] for first in (41, 51, 61, 71)]
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(planned))
    catalog.chunks.commit(logs, [chunk(81, 90, hour=two)])
    catalog.replays.start_attempt(ID)
    catalog.replay_chunks.record(ID, 1, [*(_result(c) for c in planned[:3]), _result(planned[3], 9)])
    assert catalog.replay_chunks.whole_hours([ID, "f" * 16]) == {ID: {two}, "f" * 16: set()}
    # Chunks that were deleted later, and some that were before.
    catalog.chunks.retire(logs, [c.id for c in catalog.chunks.select(logs)])
    assert catalog.replay_chunks.whole_hours([ID]) == {ID: {two}}


def test_the_numbers_of_an_archive_go_up_with_each_change(catalog, logs, chunks):
    def version():
        found = catalog.archives.versions()
        assert [v.id for v in found] == [logs.id, other.id]
        return found[0].revision, found[0].replays

    other = catalog.archives.create(spec("another"), state())
    assert version() == (1, 0)
    catalog.chunks.retire(logs, [chunks[0].id])  # and a gap in its place
    assert version() == (3, 0)
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks[1:]))
    catalog.replays.start_attempt(ID)
    catalog.replay_chunks.record(ID, 1, [_result(c) for c in chunks[1:]])
    assert version() == (3, 0)
    catalog.replays.finish(ID, 1, "succeeded")
    assert version() == (3, 1)
    catalog.replays.begin("f" * 16, logs, ReplaySpec("logs"), (), ids(chunks[1:]))
    catalog.replays.delete("f" * 16)
    assert version() == (3, 1)
    catalog.replays.delete(ID)
    assert version() == (3, 2)
    catalog.archives.delete("another")
    assert catalog.archives.deleted_names() == ({"another"}, {"LOGS"})
    assert [(v.id, v.name, v.stream) for v in catalog.archives.versions()] == [(logs.id, "logs", "LOGS")]
    assert catalog.archives.of([logs.id, other.id]) == (catalog.archives.get("logs"),)


def test_progress_is_of_the_chunks_that_are_not_done(catalog, logs, chunks):
    def progress():
        replay = catalog.replays.get(ID)
        return replay.published, replay.found, replay.progress_published, replay.progress_found, replay.acknowledged

    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    catalog.replays.start_attempt(ID)
    catalog.replays.record_progress(ID, 1, 12, 3)
    assert progress() == (0, 0, 12, 3, 15)
    # One chunk is done, and the counts that are left are of the others.
    catalog.replay_chunks.record(ID, 1, [_result(chunks[0], 8, 2)])
    assert progress() == (8, 2, 4, 1, 15)
    catalog.replays.finish(ID, 1, "canceled")
    # A driver that comes too late with what it counted changes nothing.
    catalog.replays.record_progress(ID, 1, 99, 0)
    assert progress() == (8, 2, 4, 1, 15)
    catalog.replays.start_attempt(ID)
    assert progress() == (8, 2, 0, 0, 10)
    catalog.replays.record_progress(ID, 1, 99, 0)
    assert progress() == (8, 2, 0, 0, 10)
    # The last report was lost: the exact counts hold.
    catalog.replays.record_progress(ID, 2, 5, 4)
    catalog.replay_chunks.record(ID, 2, [_result(chunks[1], 10), _result(chunks[2], 6, 4)])
    catalog.replays.finish(ID, 2, "succeeded")
    assert progress() == (24, 6, 0, 0, 30)


@pytest.mark.parametrize("state", ["canceled", "paused"])
def test_an_attempt_that_was_killed_counts_as_lost(catalog, logs, chunks, postgres_url, state):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    for _ in range(2):
        catalog.replays.start_attempt(ID)
    catalog.replays.finish(ID, 2, state)
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute("select attempt, state from nats3.replay_attempt order by 1").fetchall()
    assert rows == [(1, "lost"), (2, state)]


@pytest.mark.parametrize("counts", [(9, 0, 0, 10), (5, 6, 0, 10), (11, 0, 0, 11), (0, 0, 1, 0), (-1, 1, 0, 0)])
def test_a_chunk_whose_messages_are_not_accounted_for_is_not_done(catalog, logs, chunks, counts):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    attempt = catalog.replays.start_attempt(ID)
    with pytest.raises(CatalogError, match="does not account for all messages"):
        catalog.replay_chunks.record(ID, attempt, [_result(chunks[0]), _result(chunks[1], *counts)])
    assert len(catalog.replay_chunks.pending(ID).chunks) == 3
    assert catalog.replays.get(ID).chunks_done == 0


def test_a_replay_with_chunks_left_has_not_succeeded(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    catalog.replay_chunks.record(ID, catalog.replays.start_attempt(ID), [_result(chunks[0])])
    with pytest.raises(CatalogError, match="has chunks left.*goes on where it was"):
        catalog.replays.finish(ID, 1, "succeeded")
    assert catalog.replays.get(ID).state == "running"


def test_a_driver_of_an_older_attempt_ends_nothing(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    for _ in range(2):
        catalog.replays.start_attempt(ID)
    catalog.replays.finish(ID, 1, "canceled")
    assert catalog.replays.get(ID).state == "running"
    catalog.replay_chunks.record(ID, 2, [_result(c) for c in chunks])
    catalog.replays.finish(ID, 2, "succeeded")
    catalog.replays.finish(ID, 2, "canceled", "too late")
    done = catalog.replays.get(ID)
    assert (done.state, done.error) == ("succeeded", None)


def test_what_is_done_by_its_sequences(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    attempt = catalog.replays.start_attempt(ID)
    left_out = ChunkResult(chunks[0].id, selected=10, published=5, found=2, duplicates=0, expired=3, last_seq=8)
    catalog.replay_chunks.record(ID, attempt, [ChunkResult(chunks[1].id, 10, 0, 0, 0, expired=10), left_out])
    life = chunks[0].meta.incarnation
    assert catalog.replay_chunks.done(ID) == (DonePart(life, SeqRange(1, 2), SeqRange(1, 20), 7, 8),)
    assert catalog.replay_chunks.done(ID, chunks[1:]) == (DonePart(life, SeqRange(2, 2), SeqRange(11, 20), 0, 0),)


def test_what_is_done_before_and_after_what_is_not(catalog, logs, chunks):
    """A chunk in the middle is not done: its messages in the targets are not those of the others."""
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    attempt = catalog.replays.start_attempt(ID)
    catalog.replay_chunks.record(ID, attempt, [_result(chunks[0]), _result(chunks[2])])
    assert [part.positions for part in catalog.replay_chunks.done(ID)] == [SeqRange(1, 1), SeqRange(3, 3)]


def test_an_attempt_that_was_overtaken_records_nothing(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    first, second = catalog.replays.start_attempt(ID), catalog.replays.start_attempt(ID)
    with pytest.raises(Conflict, match="Attempt 1 .* overtaken by attempt 2"):
        catalog.replay_chunks.record(ID, first, [_result(chunks[0])])
    catalog.replay_chunks.record(ID, second, [_result(chunks[0])])


def test_one_process_holds_a_replay(catalog, logs, chunks, postgres_url):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    catalog.replays.begin("f" * 16, logs, ReplaySpec("logs"), (), ids(chunks))
    with Catalog.connect(postgres_url) as other:
        with catalog.replays.lock(ID), other.replays.lock("f" * 16):
            for contender in (other, catalog):
                with pytest.raises(Conflict, match="being run by another process"), contender.replays.lock(ID):
                    pass
            with pytest.raises(Conflict, match="being run"):
                other.replays.delete(ID)
        with other.replays.lock(ID):
            pass


def test_a_lock_ends_with_the_process_and_not_with_the_catalogs_connection(catalog, logs, chunks, postgres_url):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    with Catalog.connect(postgres_url) as other, catalog.replays.lock(ID):
        catalog.close()
        with pytest.raises(Conflict), other.replays.lock(ID):
            pass
        catalog.archives.all()


def test_a_deleted_replay_is_out_of_the_lists(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    catalog.replays.delete(ID)
    assert catalog.replays.select() == ()
    assert catalog.replay_chunks.of_chunk(chunks[0].id) == ()
    for call in (catalog.replays.get, catalog.replays.delete, catalog.replays.start_attempt):
        with pytest.raises(OperatorError, match="There is no replay 0123456789abcdef"):
            call(ID)


def test_a_chunk_that_was_retired_stops_the_replay_that_needs_it(catalog, logs, chunks):
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), (), ids(chunks))
    catalog.replay_chunks.record(ID, catalog.replays.start_attempt(ID), [_result(chunks[0])])
    catalog.chunks.retire(logs, [chunks[0].id])  # done: no longer needed
    assert len(catalog.replay_chunks.pending(ID).chunks) == 2
    catalog.chunks.retire(logs, [chunks[1].id])
    with pytest.raises(CatalogError, match=f"needs 1 chunks that were retired, {chunks[1].meta.key}"):
        catalog.replay_chunks.pending(ID)
    with pytest.raises(Conflict, match="retired since the replay was planned"):
        catalog.replays.begin("f" * 16, logs, ReplaySpec("logs"), (), ids(chunks))
    assert [r.id for r in catalog.replays.select()] == [ID]


@pytest.mark.parametrize("replay_id", ["", "0123", "0123456789ABCDEF", "0123456789abcdef0"])
def test_an_id_is_sixteen_hex_digits(catalog, logs, chunks, replay_id):
    with pytest.raises(CatalogError, match="replay_id_check"):
        catalog.replays.begin(replay_id, logs, ReplaySpec("logs"), (), ids(chunks))


def test_incarnations_of_targets_are_kept_to_the_nanosecond(catalog, logs, chunks):
    target = ReplayTarget(Incarnation("T", LOGS.created_ns), 2**62)
    assert catalog.replays.begin(ID, logs, ReplaySpec("logs"), (target,), ids(chunks)).targets == (target,)


def test_a_lock_is_free_as_soon_as_it_is_released(catalog, logs, chunks):
    """A pause that has answered can be resumed at once: Postgres needs not notice first that a connection ended."""
    catalog.replays.begin(ID, logs, ReplaySpec("logs"), TARGETS, ids(chunks))
    catalog.replays.start_attempt(ID)
    for _ in range(100):
        with catalog.replays.lock(ID):
            pass
        assert catalog.replays.get(ID).lost
