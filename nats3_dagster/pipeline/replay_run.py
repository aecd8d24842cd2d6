"""Replays: the driver's side. It divides the chunks of an attempt among Spark's tasks."""

from collections.abc import Callable, Iterator, Sequence

from pyspark import TaskContext
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError, Nats3Error
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.task_progress import reporting
from nats3_dagster.model import Chunk, ChunkResult, OnProgress
from nats3_dagster.pipeline.tasks import parallelism, run_tasks
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.job import ReplayJob, ReplayResult, Share, shares
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def run_replay(
    spark: SparkSession,
    settings: Settings,
    replay_id: str,
    *,
    run_id: str | None = None,
    on_progress: OnProgress | None = None,
    on_attempt: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Publish what the replay has not yet published. Safe to call again after any end, a kill -9 included. One that
    follows its archive goes on until its selection ends, or it is interrupted or paused.

    `on_progress` is called with the messages of this attempt that the targets have, and all that it has to publish;
    `on_attempt` with the attempt's number before it publishes. Raises Nats3Error; Conflict if another process runs this
    replay."""

    def publish(job: ReplayJob, chunks: tuple[Chunk, ...]) -> tuple[Sequence[ChunkResult], Nats3Error | None]:
        finished = run_tasks(spark, f"replay {replay_id}", publish_share, shares(job, chunks, parallelism(spark)))
        return finished.results, finished.error

    with Workspace(settings) as workspace:
        return drive(workspace, replay_id, publish, run_id=run_id, on_progress=on_progress, on_attempt=on_attempt)


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
