"""Replays: the driver's side. It divides the chunks among Spark's tasks and records the result of each chunk.

Invariant: one process at a time drives a replay (a lock in Postgres), and before it publishes it makes sure that no
task of an earlier attempt still does (the fence).
"""

import time
from collections.abc import Callable, Iterator

from pyspark import TaskContext
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError
from nats3_dagster.jetstream.fence import raise_fence
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.task_progress import Progress, reporter
from nats3_dagster.model import ChunkResult
from nats3_dagster.pipeline.tasks import Finished, parallelism, run_tasks
from nats3_dagster.replay.job import ReplayJob, ReplayResult, Share, combine, shares
from nats3_dagster.replay.plan import check_objects
from nats3_dagster.replay.republish import Republisher
from nats3_dagster.replay.targets import check_resumable
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def run_replay(
    spark: SparkSession, settings: Settings, replay_id: str, *, run_id: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReplayResult:  # fmt: skip
    """Publish what the replay has not yet published. Safe to call again after any end, a kill -9 included.

    `on_progress(done, total)` is called with messages. Raises Nats3Error; Conflict if another process runs this
    replay."""
    began = time.monotonic()
    with Workspace(settings) as workspace, workspace.catalog.replays.lock(replay_id):
        replay = workspace.catalog.replays.get(replay_id)
        archive = workspace.catalog.archives.get(replay.spec.archive)
        batched = check_resumable(workspace.link, replay.targets)
        chunks = workspace.catalog.replays.pending(replay_id)
        check_objects(workspace, chunks)
        attempt = workspace.catalog.replays.start_attempt(replay_id, run_id)
        if attempt > 1:
            raise_fence(workspace.link, replay_id, attempt)
        with Progress(workspace.link, on_progress) as progress:
            progress.total = sum(c.meta.messages for c in chunks)
            job = ReplayJob(
                replay_id, attempt, replay.spec, replay.targets, settings.nats, settings.store, batched,
                progress.subject,
            )  # fmt: skip
            try:
                finished = run_tasks(
                    spark, f"replay {replay_id}", publish_share, shares(job, chunks, parallelism(spark))
                )
            except BaseException as error:
                state = "canceled" if isinstance(error, KeyboardInterrupt) else "failed"
                workspace.catalog.replays.finish(replay_id, state, str(error))
                raise
        results = _record(workspace, job, finished, run_id)
        if finished.error:
            raise finished.error
    return ReplayResult(
        replay_id, archive.name, attempt, len(results),
        selected=sum(r.selected for r in results), published=sum(r.published for r in results),
        found=sum(r.found for r in results), duplicates=sum(r.duplicates for r in results),
        seconds=time.monotonic() - began,
    )  # fmt: skip


def publish_share(share: Share) -> Iterator[ChunkResult]:
    """One task, in a worker. Raises EngineError where Spark starts it again by itself: the worker of the first try may
    have lost its executor and still publish, and only a new attempt of the replay raises the fence against it."""
    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise EngineError(
            f"Spark lost a task of replay {share.job.id} while it published",
            "Run the replay again: it makes sure that the lost task has stopped, and goes on",
        )
    with Link(share.job.nats) as link:
        yield from Republisher(share, link, reporter(link, share.job.progress)).results()


def _record(
    workspace: Workspace, job: ReplayJob, finished: Finished[ChunkResult], run_id: str | None
) -> tuple[ChunkResult, ...]:
    """Record the chunks that are done, and how the attempt ended; the results of those chunks."""
    results = combine(finished.results)
    if job.spec.order == "subject" and finished.error:
        # A chunk is done only when the tasks of all its subjects are, and one of them failed.
        results = ()
    workspace.catalog.replays.record(job.id, job.attempt, results, run_id)
    state = "failed" if finished.error else "succeeded"
    workspace.catalog.replays.finish(job.id, state, str(finished.error) if finished.error else None)
    return results
