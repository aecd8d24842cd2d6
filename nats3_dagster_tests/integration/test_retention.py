"""Retention: whole sealed hours expire once the archive does not keep them, and nothing brings them back."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from nats3_dagster.archive.keep import retention
from nats3_dagster.archive.keep.compaction import compact_hours
from nats3_dagster.archive.keep.holds import place, release
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.proof.unlisted import adopt_unlisted
from nats3_dagster.archive.read.history import history
from nats3_dagster.archive.recovery.rebuild import rebuild
from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import remove_objects, sweep
from nats3_dagster.catalog import migrate
from nats3_dagster.errors import Conflict, Held, OperatorError, StoreError
from nats3_dagster.model import Archive, ReplaySpec, Selection, SeqRange
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.recovery import HOURS, new_archive, put

YEARS_S = 10 * 365 * 86_400


@pytest.fixture
def logs(workspace: Workspace, bucket: str) -> Archive:
    """An archive of three sealed hours, 10 messages in each, the second one in two chunks."""
    archive = new_archive(workspace, bucket)
    metas = [
        put(workspace, archive, hour, covers)
        for hour, covers in zip(
            (HOURS[0], HOURS[1], HOURS[1], HOURS[2]), ((1, 10), (11, 15), (16, 20), (21, 30)), strict=True
        )
    ]
    workspace.catalog.chunks.commit(archive, metas)
    assert len(list(seal_hours(workspace, archive, HOURS))) == 3
    return archive


@pytest.fixture
def other_catalog(
    workspace: Workspace, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workspace]:
    """An empty catalog beside the same store."""
    migrate(empty_postgres_url)
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
        settings = Settings.load()
    with Workspace(settings) as opened:
        yield opened


def keep(workspace: Workspace, seconds: int = 0, size: int = 0) -> Archive:
    return change(workspace, "logs", {"keep_s": seconds, "keep_bytes": size}).after


def keep_since(workspace: Workspace, hour: str) -> Archive:
    """Keep what was stored in this hour and later."""
    begin = datetime.strptime(f"{hour}+0000", "%Y-%m-%d-%H:00%z")
    return keep(workspace, int((datetime.now(UTC) - begin).total_seconds()) - 60)


def live(workspace: Workspace, archive: Archive) -> list[tuple[str, int]]:
    """The hours and first sequences of the live chunks."""
    return [(c.meta.hour, c.meta.covers.first) for c in workspace.catalog.chunks.select(archive)]


def stored(s3_client: Any, bucket: str) -> set[str]:
    return {
        item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"] if item["Key"].endswith(".parquet")
    }


def age(postgres_url: str) -> None:
    """Let what was retired or sealed so far be older than the grace."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set session_replication_role = replica")
        connection.execute(
            "update nats3.chunk set deleted_at = deleted_at - interval '2 h' where deleted_at is not null"
        )
        connection.execute("update nats3.seal set superseded_at = superseded_at - interval '2 h'")


def test_hours_expire_once_they_are_not_kept(workspace: Workspace, logs: Archive) -> None:
    assert retention.expire(workspace, "logs").hours == 0  # for ever
    archive = keep_since(workspace, HOURS[2])
    planned = retention.expire(workspace, "logs", dry_run=True)
    assert (planned.hours, planned.first, planned.last, planned.chunks, planned.messages) == (2, *HOURS[:2], 3, 20)
    assert len(live(workspace, archive)) == 4
    assert retention.expire(workspace, "logs") == planned
    assert live(workspace, archive) == [(HOURS[2], 21)]
    (gap,) = workspace.catalog.gaps.select(archive)
    assert (gap.reason, gap.size, gap.is_loss) == ("expired_by_policy", 20, False)
    assert retention.expire(workspace, "logs").hours == 0
    assert [seal.hour for seal in workspace.catalog.seals.select(archive) if seal.valid] == list(HOURS)
    assert retention.promise(workspace, archive, 0).is_kept


def test_a_tick_looks_at_archives_that_have_something_to_expire_or_to_seal(workspace: Workspace, logs: Archive) -> None:
    assert list(retention.expire_each(workspace)) == []
    archive = keep_since(workspace, HOURS[1])
    assert [(one.archive, one.hours) for one in retention.expire_each(workspace)] == [("logs", 1)]
    # A process that dies before the seal, and an archive that keeps all again.
    archive = keep_since(workspace, HOURS[2])
    assert len(workspace.catalog.expiry.expire(archive, HOURS[2], None, 10)) == 1
    archive = keep(workspace)
    assert workspace.catalog.expiry.unsealed(archive, 10) == [HOURS[1]]
    assert [(one.archive, one.hours, one.problem) for one in retention.expire_each(workspace)] == [("logs", 0, None)]
    assert workspace.catalog.expiry.unsealed(archive, 10) == []
    assert list(retention.expire_each(workspace)) == []


def test_a_read_and_a_plan_say_what_expired(workspace: Workspace, logs: Archive) -> None:
    archive = keep_since(workspace, HOURS[1])
    retention.expire(workspace, "logs")
    (gone,) = removed(workspace, archive, Selection())
    assert gone == Removed("logs", "expired_by_policy", None, 10, True)
    assert gone.text == "10 messages of the selection, which it does not keep any longer"
    assert removed(workspace, archive, Selection(hours=(HOURS[1],))) == ()
    from nats3_dagster.replay.planning.plan import plan

    with pytest.raises(OperatorError, match=r"holds nothing of this selection. Not in archive logs any more: 10 mess"):
        plan(workspace, ReplaySpec("logs", selection=Selection(hours=(HOURS[0],))))


def test_the_oldest_hours_expire_while_more_bytes_are_stored(workspace: Workspace, logs: Archive) -> None:
    sizes = [c.meta.stored_bytes for c in workspace.catalog.chunks.select(logs)]
    keep(workspace, size=sum(sizes))
    assert retention.expire(workspace, "logs", dry_run=True).hours == 0
    keep(workspace, size=sum(sizes) - 1)
    assert retention.expire(workspace, "logs", dry_run=True).last == HOURS[0]
    keep(workspace, size=sum(sizes[1:]) - 1)
    assert retention.expire(workspace, "logs").last == HOURS[1]  # whole hours
    assert live(workspace, logs) == [(HOURS[2], 21)]
    keep(workspace, size=1)
    place(workspace, "logs", "case", Selection(), "a law")
    assert retention.expire(workspace, "logs").hours == 0  # what is held does not count


@pytest.mark.parametrize("at_once", [1, 2, 3, 100])
def test_no_more_hours_expire_than_are_asked_for(
    workspace: Workspace, logs: Archive, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest first, however many one transaction takes out."""
    later = "2026-11-21-10:00"
    workspace.catalog.chunks.commit(logs, [put(workspace, logs, later, (31, 40))])
    list(seal_hours(workspace, logs, [later]))
    monkeypatch.setattr(retention, "AT_ONCE", at_once)
    keep(workspace, 60)
    for limit, hours in ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 4), (None, 4)):
        planned = retention.expire(workspace, "logs", dry_run=True, limit=limit)
        assert (planned.hours, planned.last) == (hours, (*HOURS, later)[hours - 1] if hours else None)
    assert retention.expire(workspace, "logs", limit=0).hours == 0
    assert len(live(workspace, logs)) == 5
    found = retention.expire(workspace, "logs", limit=3)
    assert (found.hours, found.first, found.last, found.chunks, found.messages) == (3, HOURS[0], HOURS[2], 4, 30)
    assert live(workspace, logs) == [(later, 31)]
    assert all(seal.valid for seal in workspace.catalog.seals.select(logs))
    found = retention.expire(workspace, "logs")
    assert (found.hours, found.first, found.last, found.problem) == (1, later, later, None)
    assert all(seal.valid for seal in workspace.catalog.seals.select(logs))


def test_settings_of_another_process_count_from_the_next_transaction_on(
    workspace: Workspace, logs: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 1)
    assert list(retention._expire(workspace, logs, None)) == []  # it keeps all
    keep(workspace, 60)
    hours = retention._expire(workspace, logs, None)
    assert [one.hour for one in next(hours)] == [HOURS[0]]
    keep(workspace)
    assert list(hours) == []
    assert len(live(workspace, logs)) == 3
    keep(workspace, 60)
    hours = retention._expire(workspace, logs, None)
    assert [one.hour for one in next(hours)] == [HOURS[1]]
    delete(workspace, "logs")
    with pytest.raises(Conflict, match="Archive logs was deleted"):
        next(hours)


def test_an_archive_that_fails_does_not_stop_the_others(workspace: Workspace, logs: Archive, bucket: str) -> None:
    names = ("another", "logs", "zeta")
    for name in (names[0], names[2]):
        archive = new_archive(workspace, bucket, name)
        workspace.catalog.chunks.commit(archive, [put(workspace, archive, HOURS[0], (1, 10))])
        list(seal_hours(workspace, archive, HOURS[:1]))
    for name in names:
        change(workspace, name, {"keep_s": 60})
    found = retention.expire_each(workspace, limit=2)
    first = next(found)
    assert (first.archive in names, first.hours > 0, first.problem) == (True, True, None)
    gone, left = (name for name in workspace.catalog.expiry.due_archives() if name != first.archive)
    delete(workspace, gone)
    failed, last = found
    assert (failed.archive, failed.hours, isinstance(failed.problem, OperatorError | Conflict)) == (gone, 0, True)
    assert (last.archive, last.hours, last.problem) == (left, 2 if left == "logs" else 1, None)


def test_an_hour_that_cannot_be_sealed_again_is_the_problem_and_is_sealed_by_the_next_call(
    workspace: Workspace, logs: Archive, bucket: str
) -> None:
    archive = keep(workspace, 60)
    key, store = folder.owner_key("archive=logs"), workspace.bucket(bucket)
    own, other = bytes(store.get(key)), folder.Owner(uuid4(), "logs", "LOGS").encode()
    store.put_again(key, other, sha256(other).hexdigest())
    found = retention.expire(workspace, "logs")
    assert (found.hours, isinstance(found.problem, StoreError)) == (3, True)
    assert workspace.catalog.expiry.unsealed(archive, 9) == list(HOURS)
    store.put_again(key, own, sha256(own).hexdigest())
    assert retention.expire(workspace, "logs").problem is None
    assert workspace.catalog.expiry.unsealed(archive, 9) == []


def test_an_hour_that_is_not_sealed_stays_and_is_named(workspace: Workspace, logs: Archive) -> None:
    workspace.catalog.chunks.commit(logs, [put(workspace, logs, HOURS[0], (31, 33))])
    archive = keep(workspace, 60)
    assert retention.expire(workspace, "logs").first == HOURS[1]
    assert [hour for hour, _ in live(workspace, archive)] == [HOURS[0], HOURS[0]]
    promise = retention.promise(workspace, archive)
    assert (promise.unkept.hours, promise.unkept.oldest, promise.unkept.unsealed) == (1, HOURS[0], 1)
    assert not promise.is_kept


def test_objects_go_after_their_grace_and_once_the_hour_is_sealed_again(
    workspace: Workspace, logs: Archive, s3_client: Any, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(s3_client, bucket)
    archive = keep_since(workspace, HOURS[1])
    monkeypatch.setattr(retention, "seal_again", lambda *_: None)
    retention.expire(workspace, "logs")
    age(postgres_url)
    assert sweep(workspace).objects == 0  # the newest manifest of the hour names the object
    monkeypatch.undo()
    assert retention.expire(workspace, "logs").problem is None
    assert sweep(workspace).objects == 1
    assert len(stored(s3_client, bucket)) == len(before) - 1
    assert len(live(workspace, archive)) == 3


def test_nothing_brings_expired_messages_back(
    workspace: Workspace, logs: Archive, bucket: str, s3_client: Any, postgres_url: str
) -> None:
    metas = [chunk.meta for chunk in workspace.catalog.chunks.select(logs)]
    archive = keep_since(workspace, HOURS[2])
    retention.expire(workspace, "logs")
    assert adopt_unlisted(workspace, archive) == 0
    for meta in metas[:3]:
        with pytest.raises(Conflict):
            workspace.catalog.chunks.commit(archive, [meta])
    assert live(workspace, archive) == [(HOURS[2], 21)]


def test_a_hold_wins_over_expiry(workspace: Workspace, logs: Archive) -> None:
    placed = place(workspace, "logs", "case-7", Selection(sequences=SeqRange(12, 13)), "court order 7")
    assert (placed.chunks, placed.removed, placed.hold.first_seq) == (1, 0, 12)
    archive = keep(workspace, 60)
    found = retention.expire(workspace, "logs")
    assert (found.hours, found.chunks, found.held_chunks) == (3, 3, 1)
    assert live(workspace, archive) == [(HOURS[1], 11)]
    assert retention.promise(workspace, archive).is_kept
    release(workspace, "logs", "case-7", "closed")
    assert not retention.promise(workspace, archive).is_kept
    assert retention.expire(workspace, "logs").chunks == 1
    assert live(workspace, archive) == []


def test_the_catalog_refuses_what_removes_held_messages(
    workspace: Workspace, logs: Archive, bucket: str, s3_client: Any, postgres_url: str
) -> None:
    first, *others = workspace.catalog.chunks.select(logs)
    place(workspace, "logs", "case", Selection(hours=(HOURS[0],)), "court order")
    for recapture in (False, True):
        with pytest.raises(Held, match="The hold case keeps them"):
            workspace.catalog.chunks.retire(logs, [first.id, others[0].id], recapture=recapture)
    for purge in (False, True):
        with pytest.raises(Held, match="has the hold case"):
            delete(workspace, "logs", purge=purge)
    assert len(live(workspace, logs)) == 4
    # Replaced by chunks with the same messages, it may leave.
    begun = workspace.catalog.now()
    halves = [put(workspace, logs, HOURS[0], covers) for covers in ((1, 5), (6, 10))]
    with pytest.raises(Held):
        workspace.catalog.chunks.replace(logs, [first.id], halves[:1], (), begun=begun)
    workspace.catalog.chunks.replace(logs, [first.id], halves, (), begun=begun)
    assert remove_objects(workspace, bucket, [first.meta.key]) == 0  # its object stays, as long as the hold
    release(workspace, "logs", "case", "closed")
    assert remove_objects(workspace, bucket, [first.meta.key]) == 1


def test_a_hold_keeps_objects_that_wait_for_their_sweep(workspace: Workspace, logs: Archive, postgres_url: str) -> None:
    keep_since(workspace, HOURS[1])
    retention.expire(workspace, "logs")
    placed = place(workspace, "logs", "late", Selection(hours=(HOURS[0],)), "it came late")
    assert placed.removed == 10
    age(postgres_url)
    assert sweep(workspace).objects == 1  # a manifest
    release(workspace, "logs", "late", "closed")
    assert sweep(workspace).objects == 1


@pytest.mark.parametrize("swept", [False, True])
def test_a_rebuild_keeps_holds_and_brings_nothing_back(
    workspace: Workspace, logs: Archive, bucket: str, postgres_url: str, swept: bool, other_catalog: Workspace
) -> None:
    place(workspace, "logs", "case", Selection(sequences=SeqRange(16, 16)), "court order")
    keep_since(workspace, HOURS[2])
    retention.expire(workspace, "logs")
    if swept:
        age(postgres_url)
        assert sweep(workspace).objects > 0
    (made,) = rebuild(other_catalog, bucket)
    assert made.error is None
    archive = other_catalog.catalog.archives.get("logs")
    assert live(other_catalog, archive) == [(HOURS[1], 16), (HOURS[2], 21)]
    assert other_catalog.catalog.gaps.sums(archive) == {"expired_by_policy": 15}
    assert archive.spec.keep_s
    assert archive.spec == replace(logs.spec, keep_s=archive.spec.keep_s)
    placed, hold = other_catalog.catalog.holds.all(archive)
    assert (placed.name, placed.first_hour, placed.first_seq) == (REBUILT, None, None)
    assert (hold.name, hold.reason, hold.first_seq) == ("case", "court order", 16)
    assert adopt_unlisted(other_catalog, archive) == 0


def test_a_held_hour_is_compacted_and_expires_once_it_is_released(
    workspace: Workspace, logs: Archive, postgres_url: str, s3_client: Any, bucket: str
) -> None:
    place(workspace, "logs", "case", Selection(hours=(HOURS[1],)), "court order")
    (done,) = compact_hours(workspace, logs, [HOURS[1]])
    assert (done.before, done.after) == (2, 1)
    archive = keep_since(workspace, HOURS[2])
    assert retention.expire(workspace, "logs").hours == 1
    assert live(workspace, archive) == [(HOURS[1], 11), (HOURS[2], 21)]
    age(postgres_url)
    sweep(workspace)
    # The hold covers the objects from before the compaction as well.
    assert len(stored(s3_client, bucket)) == 4
    release(workspace, "logs", "case", "closed")
    sweep(workspace)
    assert len(stored(s3_client, bucket)) == 2
    assert retention.expire(workspace, "logs").hours == 1
    age(postgres_url)
    sweep(workspace)
    assert len(stored(s3_client, bucket)) == 1
    told = [one.happening.what for one in history(workspace, [logs])]
    assert [what for what in reversed(told) if what in ("held", "compacted", "expired", "released")] == [
        "held",
        "compacted",
        "expired",
        "released",
        "expired",
    ]
