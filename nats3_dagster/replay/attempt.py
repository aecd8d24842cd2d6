"""Attempt: what is left of a replay when it is driven, and how that ended.

Invariant: one process at a time drives a replay (a lock in Postgres), and before it publishes it makes sure that no
task of an earlier attempt still does (the fence).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.errors import CatalogError, Nats3Error, ObjectMissing, Paused
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.publish.fence import raise_fence
from nats3_dagster.jetstream.task_progress import Counts
from nats3_dagster.model import Chunk, ChunkResult, ReplayState
from nats3_dagster.replay import pages
from nats3_dagster.replay.job import ReplayJob, combine, done_ranges
from nats3_dagster.replay.planning.room import check_room
from nats3_dagster.replay.targets import check_resumable
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

# A publisher's next steps, and those of a replay in their place.
_RESUMING = {Next.CHANGE_TARGET: Next.CHANGE_TARGET_AND_RESUME, Next.PUBLISH_AGAIN: Next.RESUME_REPLAY}


@dataclass(frozen=True, slots=True)
class Attempt:
    """The work of an attempt: all that is pending, page by page (see pages.Pages)."""

    job: ReplayJob
    # Selected messages of the pending chunks, at most.
    messages: int


@dataclass(frozen=True, slots=True)
class _Left:
    """The rest of a replay."""

    # Selected messages; an upper bound unless `is_exact`.
    messages: int
    is_exact: bool


def start(workspace: Workspace, replay_id: str) -> Attempt:
    """Check the targets and the objects, and begin an attempt at what is not done yet; call it under the replay's
    lock. All of it is looked at, page by page, before the attempt begins. Raises Nats3Error."""
    replays, replay_chunks = workspace.catalog.replays, workspace.catalog.replay_chunks
    settings = workspace.settings
    replay = replays.get(replay_id)
    # An archive that was deleted is not replayed.
    selected = ArchiveSelection(workspace, workspace.catalog.archives.get(replay.spec.archive), replay.spec.selection)
    batched = check_resumable(workspace.link, replay.targets)
    left = _left(selected, replay_id)
    job = ReplayJob(
        replay_id,
        replay.attempt,
        replay.spec,
        replay.targets,
        settings.nats,
        settings.store,
        batched,
        done=done_ranges(replay_chunks.done(replay_id)),
    )
    if left.is_exact:
        check_room(workspace.link, replay, job, left.messages)
    number = replays.start_attempt(replay_id)
    fault_point("replay.attempt_started")
    if number > 1:
        raise_fence(workspace.link, replay_id, number)
    if replay.spec.poll_interval_s is not None:
        # Until this attempt began, an earlier one may have added chunks.
        left = _left(selected, replay_id)
    return Attempt(replace(job, attempt=number, done=done_ranges(replay_chunks.done(replay_id))), left.messages)


def _left(selected: ArchiveSelection, replay_id: str) -> _Left:
    """Counts what is left of the replay, whose objects are all there. Raises Nats3Error."""
    workspace, selection = selected.workspace, selected.selection
    messages, is_exact, after, is_last = 0, True, 0, False
    while not is_last:
        page = workspace.catalog.replay_chunks.pending(
            replay_id,
            after=after,
            places=pages.PAGE,
            with_subjects=not selection.selects_all_subjects,
            with_minutes=selection.times is not None,
        )
        _check_objects(workspace, replay_id, page.chunks)
        for part in selected.parts(page.chunks):
            messages, is_exact = messages + part.messages, is_exact and part.is_exact
        after, is_last = page.position, page.is_last
    return _Left(messages, is_exact)


def record_progress(workspace: Workspace, job: ReplayJob, counts: Counts) -> None:
    """Record how far the attempt is, so that it is known after any end. Raises CatalogError."""
    workspace.catalog.replays.record_progress(job.id, job.attempt, counts.published, counts.found)


def abandon(workspace: Workspace, job: ReplayJob, error: BaseException) -> None:
    """Record that the attempt ended without any answer of its tasks."""
    # What is no Exception is an interrupt: Ctrl-C, or Dagster's own class where Spark has not set Python's handler.
    state = _end_of(error) if isinstance(error, Exception) else "canceled"
    workspace.catalog.replays.finish(job.id, job.attempt, state, str(error) or None)


def record(
    workspace: Workspace, job: ReplayJob, results: Iterable[ChunkResult], error: Nats3Error | None
) -> tuple[ChunkResult, ...]:
    """Record the chunks that are done, and how the attempt ended; the results of those chunks. `error`: of the tasks
    that failed."""
    done = record_chunks(workspace, job, results, are_all=error is None)
    finish(workspace, job, error)
    return done


def record_chunks(
    workspace: Workspace, job: ReplayJob, results: Iterable[ChunkResult], *, are_all: bool
) -> tuple[ChunkResult, ...]:
    """The first half of `record`: the attempt goes on. `are_all`: whether every task did all that it was given."""
    done = combine(results)
    if job.spec.order == "subject" and not are_all:
        # A chunk is done only when the tasks of all its subjects are.
        done = ()
    fault_point("replay.before_record")
    workspace.catalog.replay_chunks.record(job.id, job.attempt, done)
    fault_point("replay.recorded")
    return done


def cause(workspace: Workspace, replay_id: str, error: Nats3Error) -> Nats3Error:
    """Returns the cause of a failed attempt: an object that is missing may be one that was swept after its chunk was
    retired, and then nothing outside of nats3 took it. A publisher does not know the replay."""
    if isinstance(error.hint, Step) and error.hint.code in _RESUMING:
        return type(error)(error.what, _RESUMING[error.hint.code](replay=replay_id))
    if isinstance(error, ObjectMissing):
        try:
            workspace.catalog.replay_chunks.check_pending(replay_id)
        except CatalogError as retired:
            return retired
    return error


def finish(workspace: Workspace, job: ReplayJob, error: Nats3Error | None) -> None:
    """The second half of `record`."""
    state = _end_of(error) if error else "succeeded"
    workspace.catalog.replays.finish(job.id, job.attempt, state, str(error) if error else None)
    fault_point("replay.after_record")


def _end_of(error: Exception) -> ReplayState:
    """Returns the state in which an attempt ended with this error: a pause is no failure, and must not raise an alarm
    as one."""
    return "paused" if isinstance(error, Paused) else "failed"


def _check_objects(workspace: Workspace, replay_id: str, chunks: Sequence[Chunk]) -> None:
    try:
        check_objects(workspace, chunks)
    except ObjectMissing as error:
        raise cause(workspace, replay_id, error) from error
