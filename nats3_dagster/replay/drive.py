"""Drive: one attempt of a replay, from its lock to its end. The caller says how chunks are published.

Invariant: what the targets acknowledged is recorded before an error ends the attempt.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial

from nats3_dagster.catalog.replays.replay_lock import ReplayLock
from nats3_dagster.errors import CatalogError, Nats3Error
from nats3_dagster.jetstream.task_progress import Tally, new_subject
from nats3_dagster.model import Chunk, ChunkResult, OnProgress, Progress
from nats3_dagster.replay import attempt
from nats3_dagster.replay.control import delete_chunks
from nats3_dagster.replay.follow import rounds
from nats3_dagster.replay.job import ReplayJob, ReplayResult, joined
from nats3_dagster.workspace import Workspace

# Publishes chunks as tasks of the job: the results, and the error of the first task that failed.
Publish = Callable[[ReplayJob, tuple[Chunk, ...]], tuple[Sequence[ChunkResult], Nats3Error | None]]


def drive(
    workspace: Workspace,
    replay_id: str,
    publish: Publish,
    *,
    on_progress: OnProgress | None = None,
    on_attempt: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Publish what the replay has not yet published; one that follows its archive goes on until its selection ends. See
    pipeline.run_replay. Raises Nats3Error."""
    began = time.monotonic()
    with workspace.catalog.replays.lock(replay_id) as lock:
        started = attempt.start(workspace, replay_id)
        job = started.job
        if on_attempt:
            on_attempt(job.attempt)
        sums, done = Counter[str](), 0
        try:
            for part in _parts(workspace, lock, started):
                results = _round(workspace, part, publish, _behind(on_progress, sums["selected"]))
                done += len(results)
                for result in results:
                    sums.update({name: getattr(result, name) for name in _COUNTS})
        except BaseException as error:
            with suppress(CatalogError):  # without Postgres nothing can be recorded: it shows as interrupted
                attempt.abandon(workspace, job, error)
            raise
        attempt.finish(workspace, job, None)
        if on_progress:
            on_progress(Progress(sums["selected"], sums["selected"]))
        return ReplayResult(
            replay_id,
            job.spec.archive,
            job.attempt,
            done,
            **{name: sums[name] for name in _COUNTS},
            seconds=time.monotonic() - began,
            replay=workspace.catalog.replays.get(replay_id),
        )


_COUNTS = tuple(f.name for f in fields(ChunkResult) if f.name not in ("chunk_id", "last_seq"))


def _parts(workspace: Workspace, lock: ReplayLock, started: attempt.Attempt) -> Iterator[attempt.Attempt]:
    """Yields the replay's chunks and, if it follows its archive, new ones. Each part is recorded before the next is
    asked for."""
    job = started.job
    follows = job.spec.poll_interval_s is not None
    if follows and job.spec.delete_chunks:
        delete_chunks(workspace, job.id)  # those that an earlier attempt was killed before it deleted
    if started.chunks or not follows:
        yield started
    if not follows:
        return
    job = replace(job, fresh=True, done=joined(workspace.catalog.replay_chunks.done(job.id)))
    for chunks in rounds(workspace, lock, job):
        yield attempt.Attempt(job, chunks, sum(chunk.meta.messages for chunk in chunks))
        job = replace(job, done=joined(workspace.catalog.replay_chunks.done(job.id, chunks), before=job.done))


def _round(
    workspace: Workspace, part: attempt.Attempt, publish: Publish, on_progress: OnProgress | None
) -> tuple[ChunkResult, ...]:
    """Publish a part and record it. Raises Nats3Error."""
    job = replace(part.job, progress=new_subject())
    save = partial(attempt.record_progress, workspace, job)
    with Tally(workspace.link, job.progress or "", part.messages, on_progress, save):
        results, error = publish(job, part.chunks)
    done = attempt.record_chunks(workspace, job, results, error)
    if error:
        raise attempt.cause(workspace, job.id, error) from error
    if job.spec.poll_interval_s is not None and job.spec.delete_chunks:
        delete_chunks(workspace, job.id, [result.chunk_id for result in done])
    return done


def _behind(on_progress: OnProgress | None, done: int) -> OnProgress | None:
    """The same function, called with what was done before as well."""
    if on_progress is None:
        return None
    return lambda p: on_progress(replace(p, done=done + p.done, total=done + p.total))
