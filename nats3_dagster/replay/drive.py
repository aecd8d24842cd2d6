"""Drive: one attempt of a replay, from its lock to its end. The caller says how chunks are published.

Invariant: what the targets acknowledged is recorded before an error ends the attempt.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial

from nats3_dagster.catalog.replays.replay_lock import ReplayLock
from nats3_dagster.errors import CatalogError, Nats3Error
from nats3_dagster.jetstream.task_progress import Tally, new_subject
from nats3_dagster.model import Chunk, ChunkResult, OnProgress, Progress
from nats3_dagster.replay import attempt
from nats3_dagster.replay.control import delete_chunks
from nats3_dagster.replay.follow import check_asked, rounds
from nats3_dagster.replay.job import Reached, ReplayJob, ReplayResult, done_ranges, joined
from nats3_dagster.replay.pages import Page, Pages
from nats3_dagster.workspace import Workspace

# Publishes chunks as tasks of the job: the results, and the error of the first task that failed.
Publish = Callable[[ReplayJob, tuple[Chunk, ...]], tuple[Sequence[ChunkResult | Reached], Nats3Error | None]]
_COUNTS = tuple(f.name for f in fields(ChunkResult) if f.name not in ("chunk_id", "last_seq", "last_ns"))


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
        driver = _Driver(workspace, lock, publish, on_progress)
        try:
            driver.publish_pending(started)
            if job.spec.poll_interval_s is not None:
                driver.follow(job)
        except BaseException as error:
            with suppress(CatalogError):  # without Postgres nothing can be recorded: it shows as interrupted
                attempt.abandon(workspace, job, error)
            raise
        attempt.finish(workspace, job, None)
        sums = driver.sums
        if on_progress:
            on_progress(Progress(sums["selected"], sums["selected"]))
        return ReplayResult(
            replay_id,
            job.spec.archive,
            job.attempt,
            driver.chunks,
            **{name: sums[name] for name in _COUNTS},
            seconds=time.monotonic() - began,
            replay=workspace.catalog.replays.get(replay_id),
        )


class _Driver:
    """Publishes the chunks of an attempt, round by round. Each round is recorded before the next one is asked for."""

    def __init__(
        self, workspace: Workspace, lock: ReplayLock, publish: Publish, on_progress: OnProgress | None
    ) -> None:
        self._workspace, self._lock, self._publish, self._on_progress = workspace, lock, publish, on_progress
        # Of the chunks that are done, and how many they are.
        self.sums, self.chunks = Counter[str](), 0
        self._timing: tuple[float, int] | None = None

    def publish_pending(self, started: attempt.Attempt) -> None:
        """Publish what the replay had when the attempt began, page by page. Raises Nats3Error: TargetError when it is
        asked to pause."""
        spec = started.job.spec
        if spec.poll_interval_s is not None and spec.delete_chunks:
            delete_chunks(self._workspace, started.job.id)  # those that an earlier attempt was killed before it deleted
        pages, reached = Pages(self._workspace, started.job), None
        while page := pages.next(reached):
            # The lock may be lost, and then another process has begun an attempt.
            check_asked(self._lock.wait(0), page.job.id)
            reached = self._round(page, max(0, started.messages - self.sums["selected"]))

    def follow(self, job: ReplayJob) -> None:
        """Publish what comes into the archive. Raises Nats3Error: TargetError when it is asked to pause."""
        replay_chunks = self._workspace.catalog.replay_chunks
        done = replay_chunks.done(job.id)
        for chunks in rounds(self._workspace, self._lock, job):
            page = Page(replace(job, fresh=True, done=done_ranges(done)), chunks)
            self._round(page, sum(chunk.meta.messages for chunk in chunks))
            done = joined((*done, *replay_chunks.done(job.id, chunks)))

    def _round(self, page: Page, messages: int) -> Reached | None:
        """Publish chunks and record them; how far the targets have messages of an earlier attempt, if that is beyond
        them. `messages`: of the attempt that are still to come, at most. Raises Nats3Error."""
        workspace = self._workspace
        job = replace(page.job, progress=new_subject(), timing=self._timing)
        save = partial(attempt.record_progress, workspace, job)
        with Tally(workspace.link, job.progress or "", messages, self._behind(), save):
            answers, error = self._publish(job, page.chunks)
        ended_at = time.time()
        results = [answer for answer in answers if isinstance(answer, ChunkResult)]
        reached = max((answer for answer in answers if isinstance(answer, Reached)), default=None)
        done = attempt.record_chunks(workspace, job, results, are_all=not error and not reached)
        if error:
            raise attempt.cause(workspace, job.id, error) from error
        if job.spec.poll_interval_s is not None and job.spec.delete_chunks:
            delete_chunks(workspace, job.id, [result.chunk_id for result in done])
        self.chunks += len(done)
        for result in done:
            self.sums.update({name: getattr(result, name) for name in _COUNTS})
        if last_ns := max((result.last_ns for result in done), default=0):
            self._timing = ended_at, last_ns
        return reached

    def _behind(self) -> OnProgress | None:
        """The caller's function, called with what was done before as well."""
        call, done = self._on_progress, self.sums["selected"]
        return call and (lambda p: call(replace(p, done=done + p.done, total=done + p.total)))
