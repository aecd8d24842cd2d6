"""A compaction beside replays: each message goes out once and in order, whatever the chunks are when it does."""

from dataclasses import replace

import pytest

from nats3_dagster.archive.keep import retention
from nats3_dagster.archive.keep.erasure import erase
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.removal import sweepable
from nats3_dagster.errors import CatalogError, Conflict, TargetError
from nats3_dagster.model import Archive, ReplaySpec, Selection, SeqRange
from nats3_dagster.replay import attempt, control
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.drive import drive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import driven, pending, publish_here, published, replayed
from nats3_dagster_tests.support.small_chunks import bounds, compact, live, messages, seal, small, swept
from nats3_dagster_tests.support.stored import made, store
from nats3_dagster_tests.support.wire import Wire

SPEC = ReplaySpec("logs", "back.>", Selection(subjects=("a.>",)), over_gaps=True)


@pytest.fixture
def logs(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    archive = made(workspace, bucket, "logs")
    folder.claim(workspace, archive)
    wire.create_stream("BACK", "back.>", duplicate_window=100_000_000)
    return archive


def arrived(wire: Wire) -> list[int]:
    return [int(message.data) for message in wire.messages("BACK")]


def broken_off(workspace: Workspace, replay_id: str, chunks: int, recorded: int) -> None:
    """An attempt that publishes some chunks, records fewer of them, and fails."""
    started = attempt.start(workspace, replay_id)
    results = published(started.job, pending(workspace, replay_id)[:chunks])[:recorded]
    attempt.record(workspace, started.job, results, TargetError("It stopped here"))


@pytest.mark.parametrize("swept_first", [False, True])
def test_a_replay_goes_on_in_the_new_chunk(workspace: Workspace, logs: Archive, wire: Wire, swept_first: bool) -> None:
    """One of its chunks was published and not recorded; the old objects may be gone."""
    small(workspace, logs)
    replay, _ = begin(workspace, SPEC)
    broken_off(workspace, replay.id, 3, 2)
    assert arrived(wire) == list(range(1, 16))
    compact(workspace, logs)
    assert swept(workspace) == 7 if swept_first else True
    assert len(bounds(workspace, logs)) == 1
    done = driven(workspace, replay.id)
    assert (done.state, done.chunks_done, done.selected, done.published, done.found) == ("succeeded", 6, 30, 25, 5)
    assert arrived(wire) == list(range(1, 31))
    # And one that begins now takes the new chunk.
    again = replayed(workspace, SPEC)
    assert (again.state, again.chunks, again.published) == ("succeeded", 1, 30)
    assert arrived(wire) == [*range(1, 31), *range(1, 31)]


def test_a_replay_of_some_subjects_and_sequences_goes_on(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    small(workspace, logs)
    spec = ReplaySpec("logs", "back.1", Selection(subjects=("a.1",), sequences=SeqRange(8, 23)), over_gaps=True)
    replay, _ = begin(workspace, spec)
    compact(workspace, logs)
    swept(workspace)
    done = driven(workspace, replay.id)
    assert (done.state, arrived(wire)) == ("succeeded", [10, 13, 16, 19, 22])


def test_a_sweep_leaves_what_a_running_replay_reads(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    small(workspace, logs)
    replay, _ = begin(workspace, SPEC)
    started = attempt.start(workspace, replay.id)
    compact(workspace, logs)
    workspace.settings.delete_grace = 0
    assert sweepable(workspace).objects == 1  # the manifest
    results = published(started.job, pending(workspace, replay.id))
    attempt.record(workspace, started.job, results, None)
    assert arrived(wire) == list(range(1, 31))
    assert sweepable(workspace).objects == 7


def test_an_expiry_and_an_erasure_leave_what_a_replay_is_to_publish(
    workspace: Workspace, logs: Archive, wire: Wire
) -> None:
    small(workspace, logs)
    replay, _ = begin(workspace, SPEC)
    compact(workspace, logs)
    change(workspace, "logs", {"keep_s": 3600})
    assert retention.expire(workspace, "logs").chunks == 0
    (merged,) = live(workspace, logs)
    refused = pytest.raises(Conflict, match=f"Replay {replay.id} still has to publish messages of chunk {merged.id}")
    with refused:
        erase(workspace, logs, {merged.meta.incarnation: [SeqRange(3, 3)]}, reason="asked", chosen_by=())
    with refused:  # begun after the erasure was decided
        workspace.catalog.erasures.swap(logs, merged, [], [], begun=workspace.catalog.now())
    assert driven(workspace, replay.id).state == "succeeded"
    assert arrived(wire) == list(range(1, 31))
    assert retention.expire(workspace, "logs").chunks == 1


def test_what_is_merged_twice_is_found(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    small(workspace, logs, 3)
    replay, _ = begin(workspace, SPEC)
    compact(workspace, logs)
    store(workspace, logs, 7, messages(16, 20))
    seal(workspace, logs)
    compact(workspace, logs)
    assert bounds(workspace, logs) == [(1, 20)]
    swept(workspace)
    assert driven(workspace, replay.id).state == "succeeded"
    assert arrived(wire) == list(range(1, 16))


def test_a_chunk_that_was_taken_out_after_it_was_merged_is_an_error(
    workspace: Workspace, logs: Archive, wire: Wire
) -> None:
    small(workspace, logs)
    replay, _ = begin(workspace, SPEC)
    compact(workspace, logs)
    workspace.catalog.chunks.retire(logs, [live(workspace, logs)[0].id])
    with pytest.raises(CatalogError, match="still needs 6 chunks that were retired"):
        attempt.start(workspace, replay.id)
    assert arrived(wire) == []


def test_a_replay_is_recorded_of_chunks_that_were_merged_since_it_was_planned(
    workspace: Workspace, logs: Archive, wire: Wire
) -> None:
    small(workspace, logs)
    replay, planned = begin(workspace, SPEC)
    compact(workspace, logs)
    other = "0123456789abcdef"
    workspace.catalog.replays.begin(other, logs, planned.spec, planned.targets, planned.chosen.ids)
    assert driven(workspace, other).published == 30
    assert driven(workspace, replay.id).published == 30


def test_a_replay_that_follows_goes_on_within_the_new_chunk(workspace: Workspace, logs: Archive, wire: Wire) -> None:
    """It has the first chunks, and was paused; the others and these are one chunk now."""
    small(workspace, logs, 3)
    spec = replace(SPEC, poll_interval_s=0.05, selection=Selection(subjects=("a.>",), sequences=SeqRange(1, 35)))
    replay, _ = begin(workspace, spec)
    broken_off(workspace, replay.id, 3, 3)
    small(workspace, logs, 3, first=16)
    compact(workspace, logs)
    assert bounds(workspace, logs) == [(1, 30)]
    swept(workspace)
    assert workspace.catalog.replay_chunks.count_after(replay.id) == 1
    store(workspace, logs, 8, messages(31, 40))
    drive(workspace, replay.id, publish_here)
    assert arrived(wire) == list(range(1, 36))
    now = workspace.catalog.replays.get(replay.id)
    assert (now.state, now.chunks, now.chunks_done, now.published) == ("succeeded", 7, 7, 35)


@pytest.mark.parametrize("whole", [True, False])
def test_chunks_are_deleted_after_the_replay_only_where_all_of_them_was_published(
    workspace: Workspace, logs: Archive, wire: Wire, whole: bool
) -> None:
    small(workspace, logs)
    sequences = None if whole else SeqRange(1, 20)
    spec = replace(SPEC, delete_chunks=True, selection=Selection(subjects=("a.>",), sequences=sequences))
    replay, _ = begin(workspace, spec)
    broken_off(workspace, replay.id, 2, 2)
    compact(workspace, logs)
    assert driven(workspace, replay.id).state == "succeeded"
    assert control.delete_chunks(workspace, replay.id) == whole
    assert bounds(workspace, logs) == ([] if whole else [(1, 30)])
