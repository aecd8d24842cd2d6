"""Attempt: what is left of a replay when it is driven, and how that ended.

Invariant: one process at a time drives a replay (a lock in Postgres), and before it publishes it makes sure that no
task of an earlier attempt still does (the fence).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.extent import SelectedPart
from nats3_dagster.archive.stored.presence import check_objects
from nats3_dagster.errors import CatalogError, Nats3Error, ObjectMissing, Paused
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.publish.fence import raise_fence
from nats3_dagster.jetstream.task_progress import Counts
from nats3_dagster.model import Chunk, ChunkResult, ReplayState
from nats3_dagster.replay.job import ReplayJob, combine, joined
from nats3_dagster.replay.planning.room import check_room
from nats3_dagster.replay.targets import check_resumable
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

# A publisher's next steps, and those of a replay in their place.
_RESUMING = {Next.CHANGE_TARGET: Next.CHANGE_TARGET_AND_RESUME, Next.PUBLISH_AGAIN: Next.RESUME_REPLAY}


@dataclass(frozen=True, slots=True)
class Attempt:
    """The work of an attempt."""

    job: ReplayJob
    # In the order of the plan.
    chunks: tuple[Chunk, ...]
    # Selected messages of these, at most.
    messages: int


def start(workspace: Workspace, replay_id: str) -> Attempt:
    """Check the targets and the objects, and begin an attempt at what is not done yet; call it under the replay's
    lock. Raises Nats3Error."""
    replays, replay_chunks = workspace.catalog.replays, workspace.catalog.replay_chunks
    settings = workspace.settings
    replay = replays.get(replay_id)
    # An archive that was deleted is not replayed.
    selected = ArchiveSelection(workspace, workspace.catalog.archives.get(replay.spec.archive), replay.spec.selection)
    batched = check_resumable(workspace.link, replay.targets)
    chunks = replay_chunks.pending(replay_id)
    _check_objects(workspace, replay_id, chunks)
    parts = _parts(selected, chunks)
    job = ReplayJob(
        replay_id,
        replay.attempt,
        replay.spec,
        replay.targets,
        settings.nats,
        settings.store,
        batched,
        done=joined(replay_chunks.done(replay_id)),
    )
    if all(part.is_exact for part in parts):
        check_room(workspace.link, replay, job, sum(part.messages for part in parts))
    number = replays.start_attempt(replay_id)
    fault_point("replay.attempt_started")
    if number > 1:
        raise_fence(workspace.link, replay_id, number)
    if replay.spec.poll_interval_s is not None:
        # Until this attempt began, an earlier one may have added chunks.
        chunks = replay_chunks.pending(replay_id)
        _check_objects(workspace, replay_id, chunks)
        parts = _parts(selected, chunks)
    job = replace(job, attempt=number, done=joined(replay_chunks.done(replay_id)))
    return Attempt(job, chunks, sum(part.messages for part in parts))


def _parts(selected: ArchiveSelection, chunks: Sequence[Chunk]) -> list[SelectedPart]:
    """The parts of these chunks that the replay selects."""
    pending = {chunk.id for chunk in chunks}
    merged = [chunk for chunk in chunks if chunk.merged_into]
    pages = ([chunk for chunk in page if chunk.id in pending] for page in selected.pages())
    return [part for page in chain([merged], pages) for part in selected.parts(page)]


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
    done = record_chunks(workspace, job, results, error)
    finish(workspace, job, error)
    return done


def record_chunks(
    workspace: Workspace, job: ReplayJob, results: Iterable[ChunkResult], error: Nats3Error | None
) -> tuple[ChunkResult, ...]:
    """The first half of `record`: the attempt goes on."""
    done = combine(results)
    if job.spec.order == "subject" and error:
        # A chunk is done only when the tasks of all its subjects are, and one of them failed.
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
            workspace.catalog.replay_chunks.pending(replay_id)
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
