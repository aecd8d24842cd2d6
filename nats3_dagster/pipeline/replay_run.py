"""Replays: the driver's side. It divides the chunks of an attempt among Spark's tasks."""

import time
from collections.abc import Callable, Iterator

from pyspark import TaskContext
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.task_progress import Tally, new_subject, reporting
from nats3_dagster.model import ChunkResult, OnProgress, Progress
from nats3_dagster.pipeline.tasks import parallelism, run_tasks
from nats3_dagster.replay import attempt
from nats3_dagster.replay.job import ReplayResult, Share, shares
from nats3_dagster.replay.republish import Republisher
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def run_replay(
    spark: SparkSession, settings: Settings, replay_id: str, *, run_id: str | None = None,
    on_progress: OnProgress | None = None, on_attempt: Callable[[int], None] | None = None,
) -> ReplayResult:  # fmt: skip
    """Publish what the replay has not yet published. Safe to call again after any end, a kill -9 included.

    `on_progress` is called with the messages of this attempt that the targets have, and all that it has to publish;
    `on_attempt` with the attempt's number before it publishes. Raises Nats3Error; Conflict if another process runs this
    replay."""
    began = time.monotonic()
    with Workspace(settings) as workspace, attempt.lock(workspace, replay_id):
        subject = new_subject()
        started = attempt.start(workspace, replay_id, run_id=run_id, progress=subject)
        if on_attempt:
            on_attempt(started.job.attempt)
        job, total = started.job, started.messages
        try:
            with Tally(workspace.link, subject, total, on_progress, lambda c: attempt.keep(workspace, job, c)):
                finished = run_tasks(
                    spark, f"replay {replay_id}", publish_share, shares(job, started.chunks, parallelism(spark))
                )
        except BaseException as error:
            attempt.abandon(workspace, job, error)
            raise
        results = attempt.record(workspace, job, finished.results, finished.error, run_id)
        if finished.error:
            raise finished.error
        selected = sum(r.selected for r in results)
        if on_progress:
            on_progress(Progress(selected, selected))
        return ReplayResult(
            replay_id, job.spec.archive, job.attempt, len(results), selected=selected,
            published=sum(r.published for r in results), found=sum(r.found for r in results),
            duplicates=sum(r.duplicates for r in results), expired=sum(r.expired for r in results),
            seconds=time.monotonic() - began,
            replay=workspace.catalog.replays.get(replay_id),
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
        republisher = Republisher(share, link)
        with reporting(link, share.job.progress, share.index, republisher.counts):
            yield from republisher.results()
