"""Compaction: a sealed hour has fewer chunks afterwards, and nothing else of it is another."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.keep import compaction, merge_task
from nats3_dagster.archive.keep.compaction import compact_hours, due_hours, plan, sealed_hours
from nats3_dagster.archive.keep.merge_task import HourMerged, MergeTask, merge_hour
from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.proof.verify import chunks_to_verify
from nats3_dagster.archive.read.chunk_pages import page
from nats3_dagster.archive.read.cursor import Cursor
from nats3_dagster.archive.read.points import by_sequence
from nats3_dagster.archive.read.subjects import last_of, next_of
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored import folder
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import ChunkError, Conflict, EngineError, OperatorError
from nats3_dagster.model import Archive, Gap, Selection, SeqRange, StreamState
from nats3_dagster.pipeline import compact_run
from nats3_dagster.pipeline.compact_run import run_compaction
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.races import errors, meet, race
from nats3_dagster_tests.support.repairs import damage
from nats3_dagster_tests.support.small_chunks import (
    HOUR,
    bounds,
    check_whole,
    compact,
    live,
    messages,
    rows,
    seal,
    small,
    swept,
)
from nats3_dagster_tests.support.stored import LIFE, Made, hour_key, made, store


@pytest.fixture(autouse=True)
def _no_fault() -> Iterator[None]:
    yield
    fault_points.arm("")


@pytest.fixture
def logs(workspace: Workspace, bucket: str) -> Archive:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    return archive


def test_an_hour_of_small_chunks_becomes_one(workspace: Workspace, logs: Archive) -> None:
    small(workspace, logs)
    before, version = rows(workspace, logs), contents(workspace, logs, [HOUR])[HOUR]
    old = live(workspace, logs)
    assert sealed_hours(workspace, logs) == (HOUR,)
    assert (plan(workspace, logs, HOUR).chunks, plan(workspace, logs, HOUR).after) == (6, 1)
    done = compact(workspace, logs)
    assert (done.before, done.after, done.messages) == (6, 1, 30)
    (new,) = live(workspace, logs)
    assert rows(workspace, logs).equals(before)
    assert (new.meta.covers.first, new.meta.covers.last, new.meta.messages) == (1, 30, 30)
    assert new.meta.subjects == {"a.0": 10, "a.1": 10, "a.2": 10}
    assert new.meta.payload_bytes == sum(c.meta.payload_bytes for c in old)
    assert contents(workspace, logs, [HOUR])[HOUR] == version
    (seal,) = workspace.catalog.seals.select(logs)
    assert (seal.valid, seal.number, seal.content, seal.chunks) == (True, 2, version, 1)
    check_whole(workspace, logs)
    # Nothing is left to do, and the catalog knows.
    assert sealed_hours(workspace, logs) == ()
    (again,) = compact_hours(workspace, logs, [HOUR])
    assert (again.before, again.after) == (1, 1)


AGAIN = replace(LIFE, created_ns=LIFE.created_ns + 5)
OTHER = {"name": "S", "max_age": 5}


def put(workspace: Workspace, archive: Archive, *chunks: tuple[list[int], dict[str, Any]]) -> None:
    """Chunks of messages of these sequences."""
    for seqs, fields in chunks:
        store(workspace, archive, 7, [Made(s, f"a.{s % 3}", b"%d" % s) for s in seqs], **fields)


# name: (chunks, gaps, what the chunks cover afterwards)
HOURS: dict[str, tuple[list[Any], list[Gap], list[tuple[int, int]]]] = {
    "absent sequences": (
        [([1, 4], {"covers": (1, 6)}), ([7, 8], {}), ([12], {"covers": (9, 12)})],
        [],
        [(1, 12)],
    ),
    "lost sequences": (
        [([1, 4], {"covers": (1, 6), "reason": "expired"}), ([7, 8], {}), ([12], {"covers": (9, 12), "reason": "ttl"})],
        [],
        [(1, 8), (9, 12)],
    ),
    "a gap between them": (
        [([1], {}), ([2], {}), ([5], {}), ([6], {})],
        [Gap(LIFE, (SeqRange(3, 4),), "expired")],
        [(1, 2), (5, 6)],
    ),
    "unselected sequences": (
        [
            ([1, 4], {"covers": (1, 6), "reason": "unselected", "filters": ["a.*"]}),
            ([7], {"filters": ["a.*"]}),
            ([12], {"covers": (8, 12), "reason": "unselected", "filters": ["a.*"]}),
        ],
        [],
        [(1, 12)],
    ),
    "another filter": (
        [([1], {}), ([2], {}), ([3], {"filters": ["a.*"]}), ([4], {"filters": ["a.*"]}), ([5], {})],
        [],
        [(1, 2), (3, 4), (5, 5)],
    ),
    "another configuration": ([([1], {}), ([2], {"config": OTHER}), ([3], {"config": OTHER})], [], [(1, 1), (2, 3)]),
    "nothing fits": ([([1], {}), ([2], {"config": OTHER}), ([3], {})], [], [(1, 1), (2, 2), (3, 3)]),
    "many subjects": (
        [(list(range(n, n + 100)), {}) for n in (1, 101, 201, 301)],
        [],
        [(1, 400)],
    ),
}


@pytest.mark.parametrize("case", HOURS)
def test_what_an_hour_holds_stays(workspace: Workspace, logs: Archive, case: str) -> None:
    chunks, gaps, expected = HOURS[case]
    put(workspace, logs, *chunks)
    workspace.catalog.chunks.commit(logs, [], gaps)
    seal(workspace, logs)
    before = what_is_held(workspace, logs)
    compact(workspace, logs)
    assert bounds(workspace, logs) == expected
    assert what_is_held(workspace, logs) == before
    check_whole(workspace, logs)
    assert sealed_hours(workspace, logs) == ()


def what_is_held(workspace: Workspace, archive: Archive) -> Any:
    """Rows, absent sequences with their reasons, the sums, and the version of each hour."""
    catalog = workspace.catalog
    known = [c.meta for c in live(workspace, archive)]
    lacks = [(r, m.absent_reason) for m in known for r in m.deleted or ()]
    absent = sorted((seq, reason) for r, reason in lacks for seq in range(r.first, r.last + 1))
    (totals,) = catalog.archives.totals()
    return (
        rows(workspace, archive).to_pylist(),
        absent,
        sum(m.absent for m in known),
        catalog.gaps.select(archive),
        (totals.messages, totals.payload_bytes, totals.first_ns, totals.last_ns),
        [(c.incarnation, c.start, c.frontier, c.last, c.absent, c.lost) for c in catalog.coverage.all(archive)],
        contents(workspace, archive, [*catalog.hours.revisions(archive)]),
    )


def test_two_lives_of_a_stream_stay_apart(workspace: Workspace, logs: Archive) -> None:
    put(workspace, logs, ([1], {}), ([2], {}))
    workspace.catalog.coverage.begin(logs, StreamState(AGAIN, 1, 2, 0, 0, 2, 0, {}))
    put(workspace, logs, ([1], {"life": AGAIN}), ([2], {"life": AGAIN}))
    seal(workspace, logs)
    before = what_is_held(workspace, logs)
    compact(workspace, logs)
    assert [(c.meta.incarnation, *c.meta.covers) for c in live(workspace, logs)] == [(LIFE, 1, 2), (AGAIN, 1, 2)]
    assert what_is_held(workspace, logs) == before
    check_whole(workspace, logs)


def test_many_subjects_have_a_filter_in_the_place_of_counts(workspace: Workspace, logs: Archive) -> None:
    """As in a chunk that a capture wrote with so many."""
    for first in (1, 201):
        store(workspace, logs, 7, [Made(s, f"a.{s}", b"%d" % s) for s in range(first, first + 200)])
    seal(workspace, logs)
    assert [len(c.meta.subjects or ()) for c in live(workspace, logs)] == [200, 200]
    compact(workspace, logs)
    assert [c.meta.subjects for c in live(workspace, logs)] == [None]
    for subject, found in {"a.7": 7, "a.399": 399, "a.999": None}.items():
        message = last_of(workspace, logs, subject)
        assert (message and message.seq) == found
    check_whole(workspace, logs)


STEPS = (
    "compact.planned",
    "compact.chunk_read",
    "compact.object_put",
    "compact.proven",
    "compact.in_swap",
    "compact.swapped",
    "seal.object_put",
    "compact.sealed",
)


@pytest.mark.parametrize("step", STEPS)
def test_a_compaction_that_dies_leaves_an_hour_as_it_was_or_as_it_will_be(
    workspace: Workspace, logs: Archive, step: str
) -> None:
    small(workspace, logs)
    before = what_is_held(workspace, logs)
    fault_points.arm(f"{step}:raise")
    with pytest.raises(fault_points.InjectedFault):
        compact(workspace, logs)
    assert what_is_held(workspace, logs) == before
    merged = step in STEPS[5:]
    assert bounds(workspace, logs) == ([(1, 30)] if merged else [(n, n + 4) for n in range(1, 31, 5)])
    seal(workspace, logs)
    compact(workspace, logs)
    assert bounds(workspace, logs) == [(1, 30)]
    assert what_is_held(workspace, logs) == before
    assert swept(workspace) >= 7
    check_whole(workspace, logs)
    assert what_is_held(workspace, logs) == before


def test_a_chunk_that_is_not_as_written_stops_its_hour_alone(
    workspace: Workspace, logs: Archive, s3_client: Any
) -> None:
    small(workspace, logs)
    for first in (31, 36):
        store(workspace, logs, 8, messages(first, first + 4))
    seal(workspace, logs, hour_key(8))
    old = live(workspace, logs)
    damage(s3_client, old[3])
    with pytest.raises(ChunkError, match=rf"Hour {HOUR} of archive logs was not compacted: .*SHA-256.*") as raised:
        list(compact_hours(workspace, logs, [HOUR, hour_key(8)]))
    assert raised.value.hint_in(WORDS).endswith("nats3 chunk repair logs")
    assert bounds(workspace, logs) == [*((n, n + 4) for n in range(1, 31, 5)), (31, 40)]
    # Nothing that was put is left.
    objects = {key for key, _ in workspace.bucket(logs.spec.bucket).list(f"of/logs/{'archive=logs'}")}
    kept = {c.meta.key for c in live(workspace, logs)} | {c.meta.key for c in old[6:]}
    assert {key for key in objects if key.endswith(".parquet")} == kept


def test_an_hour_that_is_not_as_it_was_sealed_is_refused(workspace: Workspace, logs: Archive) -> None:
    small(workspace, logs)
    store(workspace, logs, 7, messages(31, 35))
    with pytest.raises(OperatorError, match="is not sealed, or changed since"):
        compact(workspace, logs)
    seal(workspace, logs)
    workspace.catalog.chunks.retire(logs, [live(workspace, logs)[0].id])
    seal(workspace, logs)
    with pytest.raises(OperatorError, match="were deleted after a replay"):
        compact(workspace, logs)
    assert sealed_hours(workspace, logs) == ()


def test_two_compactions_at_once(
    settings: Settings, workspace: Workspace, logs: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They put the same bytes under the same key. One wins, and the other does not remove what is the winner's."""
    small(workspace, logs)
    before = what_is_held(workspace, logs)
    meet(monkeypatch, compaction, "plan")
    with Workspace(settings) as other:
        results = race(lambda: compact(workspace, logs), lambda: compact(other, logs))
    (lost,) = errors(results)
    assert isinstance(lost, Conflict)
    assert bounds(workspace, logs) == [(1, 30)]
    assert what_is_held(workspace, logs) == before
    swept(workspace)
    check_whole(workspace, logs)


def removed(workspace: Workspace, archive: Archive) -> None:
    remove.delete(workspace, archive.name)


def captured(workspace: Workspace, archive: Archive) -> None:
    store(workspace, archive, 7, messages(31, 35))


def repaired(workspace: Workspace, archive: Archive) -> None:
    """One of the chunks gives way to one of the same messages."""
    old = live(workspace, archive)[2].meta
    data = workspace.bucket(old.bucket).get(old.key)
    key = old.key.replace(old.sha256[:12], "0" * 12)
    workspace.bucket(old.bucket).put_new(key, data, old.sha256)
    chunk_id = live(workspace, archive)[2].id
    begun = workspace.catalog.now()
    workspace.catalog.chunks.replace(archive, [chunk_id], [replace(old, key=key)], (), begun=begun)


@pytest.mark.parametrize("happens", [removed, captured, repaired])
def test_what_changes_the_hour_meanwhile_wins(
    workspace: Workspace, logs: Archive, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Workspace, Archive], None]
) -> None:
    small(workspace, logs)
    real = merge_task.merge

    def merge(*args: Any) -> Any:
        yield from real(*args)
        happens(workspace, logs)

    monkeypatch.setattr(merge_task, "merge", merge)
    with pytest.raises(Conflict):
        compact(workspace, logs)
    if happens is removed:
        return
    # The new object is gone again.
    known = {c.meta.key for c in live(workspace, logs)}
    objects = {key for key, _ in workspace.bucket(logs.spec.bucket).list("of/logs/archive=logs")}
    new = {key for key in objects if f"{1:020}-{30:020}" in key}
    assert new == set()
    assert known <= objects
    monkeypatch.setattr(merge_task, "merge", real)
    seal(workspace, logs)
    compact(workspace, logs)
    assert len(bounds(workspace, logs)) == 1
    check_whole(workspace, logs)


def test_reads_go_on_while_an_hour_is_compacted(workspace: Workspace, logs: Archive) -> None:
    """A cursor, the pages of a list, a read by subject and a verification that had the first chunks."""
    small(workspace, logs)
    cursor = Cursor.begin(workspace, logs, Selection(), over_gaps=True)
    batches = cursor.batches()
    read = [*seqs(next(batches)), *seqs(next(batches))]
    cursor.advance()
    token = cursor.token()
    first = page(workspace, logs, limit=2)
    verified = chunks_to_verify(workspace, logs)
    seen = {next(verified).id}
    compact(workspace, logs)
    swept(workspace)
    assert next_of(workspace, logs, "a.2", 11).seq == 14  # type: ignore[union-attr]
    assert last_of(workspace, logs, "a.2").seq == 29  # type: ignore[union-attr]
    assert by_sequence(workspace, logs, 17).data == b"17"
    for one in (batches, Cursor.resume(workspace, token).batches()):
        assert read + [seq for batch in one for seq in seqs(batch)] == list(range(1, 31))
    rest = page(workspace, logs, limit=2, after=first.next)
    assert [tuple(c.meta.covers) for c in rest.chunks] == [(1, 30)]
    assert seen.isdisjoint(c.id for c in live(workspace, logs))


def seqs(batch: Any) -> list[int]:
    return batch.column("seq").to_pylist()


def test_totals_of_captures_do_not_grow(workspace: Workspace, logs: Archive, postgres_url: str) -> None:
    small(workspace, logs)
    query = "select what, label, value from nats3.total where archive_id = %s"
    with psycopg.connect(postgres_url) as connection:
        before = {(what, label): value for what, label, value in connection.execute(query, [logs.id])}
        compact(workspace, logs)
        connection.rollback()
        after = {(what, label): value for what, label, value in connection.execute(query, [logs.id])}
    assert after["captured_messages", ""] == before["captured_messages", ""] == 30
    assert after["captured_bytes", ""] == before["captured_bytes", ""]
    # What was put is counted.
    assert after["stored_bytes", ""] > before["stored_bytes", ""]
    assert after["seals", ""] == before["seals", ""] + 1


def test_the_policy_says_which_hours_are_due(workspace: Workspace, bucket: str) -> None:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    small(workspace, archive)
    assert due_hours(workspace, archive) == ()
    ages = {}
    for after_s in (1, 3650 * 86_400):
        archive = change(workspace, "logs", {"compact_after_s": after_s}).after
        ages[after_s] = due_hours(workspace, archive)
    assert ages == {1: (HOUR,), 3650 * 86_400: ()}
    # Nothing is small any more; then everything is again.
    archive = change(workspace, "logs", {"compact_after_s": 1, "compact_below": 1}).after
    assert compact(workspace, archive).after == 6
    assert due_hours(workspace, archive) == ()
    archive = change(workspace, "logs", {"compact_below": 1 << 20}).after
    assert due_hours(workspace, archive) == (HOUR,)
    assert compact(workspace, archive).after == 1
    assert due_hours(workspace, archive) == ()
    store(workspace, archive, 7, messages(31, 35))
    assert due_hours(workspace, archive) == ()
    seal(workspace, archive)
    assert due_hours(workspace, archive) == (HOUR,)


def _fewer(batch: Any) -> Any:
    return batch.slice(0, batch.num_rows - 1)


def _others(batch: Any) -> Any:
    """Another payload of the same size in the first message."""
    at = batch.schema.get_field_index("data")
    return batch.set_column(at, batch.schema.field(at), pa.array([b"?" * len(v) for v in batch.column(at).to_pylist()]))


@pytest.mark.parametrize("wrong", [_fewer, _others])
def test_what_is_not_equal_is_not_committed(
    workspace: Workspace, logs: Archive, monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any], Any]
) -> None:
    """A defect of the writer, which its own counts do not show."""
    small(workspace, logs)
    before = what_is_held(workspace, logs)
    real = ChunkWriter.write
    with monkeypatch.context() as patch:
        patch.setattr(ChunkWriter, "write", lambda self, batch: real(self, wrong(batch)))
        with pytest.raises(ChunkError, match=r"could not be merged: rows.* would differ"):
            compact(workspace, logs)
    assert what_is_held(workspace, logs) == before
    objects = [key for key, _ in workspace.bucket(logs.spec.bucket).list("of/logs/archive=logs")]
    assert sum(key.endswith(".parquet") for key in objects) == 6


def test_many_hours_are_merged_by_tasks_of_spark_and_fail_alone(
    workspace: Workspace, logs: Archive, spark: Any, s3_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compact_run, "SPARK_FROM_HOURS", 4)
    monkeypatch.setattr(compaction, "HOURS_AT_ONCE", 3)
    hours = [hour_key(n) for n in range(1, 8)]
    for n in range(1, 8):
        for first in range(20 * n - 19, 20 * n, 5):
            store(workspace, logs, n, messages(first, first + 4))
    seal(workspace, logs, *hours)
    old = live(workspace, logs)
    damage(s3_client, old[5])  # in the second hour
    lost = old[25].meta  # in the seventh
    workspace.bucket(lost.bucket).delete(lost.key)

    def no_session() -> Any:
        raise AssertionError("three hours start no Spark")

    done = list(run_compaction(no_session, workspace, logs, hours[2:5]))
    assert [(one.hour, one.before, one.after) for one in done] == [(hour, 4, 1) for hour in hours[2:5]]
    done = []
    with pytest.raises(ChunkError, match=r"2 hours of archive logs were not compacted.*") as raised:
        for one in run_compaction(lambda: spark, workspace, logs, hours):
            done.append(one)
    assert f"{hours[1]}, {hours[6]}" in str(raised.value)
    assert [(one.hour, one.before, one.after) for one in done] == [
        (hour, 4 if hour in (hours[0], hours[5]) else 1, 1) for hour in hours if hour not in (hours[1], hours[6])
    ]
    left = [(first, first + 4) for n in (2, 7) for first in range(20 * n - 19, 20 * n, 5)]
    merged = [(20 * n - 19, 20 * n) for n in (1, 3, 4, 5, 6)]
    assert bounds(workspace, logs) == sorted(left + merged)
    # What a task had put for an hour that failed is removed: the store has what was there, and what is live.
    objects = {key for key, _ in workspace.bucket(logs.spec.bucket).list("of/logs/archive=logs")}
    kept = {one.meta.key for one in (*old, *live(workspace, logs))}
    assert {key for key in objects if key.endswith(".parquet")} == kept - {lost.key}


def test_a_lost_task_of_spark_leaves_its_hours_as_they_were(
    workspace: Workspace, logs: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = [hour_key(n) for n in (7, 8)]
    for n in (7, 8):
        for first in (10 * n - 69, 10 * n - 64):
            store(workspace, logs, n, messages(first, first + 4))
    seal(workspace, logs, *hours)

    def lose(tasks: Sequence[MergeTask]) -> tuple[Sequence[HourMerged], EngineError]:
        """The first task comes back, and the worker of the second dies."""
        return [merge_hour(tasks[0])], EngineError("Spark lost a task", "Run it again")

    done: list[compaction.Compacted] = []
    with pytest.raises(EngineError, match="Spark lost a task"):
        done.extend(compact_hours(workspace, logs, hours, lose))
    assert bounds(workspace, logs) == [(1, 10), (11, 15), (16, 20)]
    assert [(one.before, one.after) for one in compact_hours(workspace, logs, hours)] == [(1, 1), (2, 1)]
    check_whole(workspace, logs)
