"""Replays: the driver's side. It divides the chunks of each page of an attempt among Spark's tasks."""

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Chunk, ChunkResult, OnProgress
from nats3_dagster.pipeline.tasks import parallelism, run_tasks
from nats3_dagster.pipeline.worker import publish_share
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.job import Reached, ReplayJob, ReplayResult, shares
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def run_replay(
    spark: SparkSession,
    settings: Settings,
    replay_id: str,
    *,
    on_progress: OnProgress | None = None,
    on_attempt: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Publish what the replay has not yet published. Safe to call again after any end, a kill -9 included. One that
    follows its archive goes on until its selection ends, or it is interrupted or paused.

    `on_progress` is called with the messages of this attempt that the targets have, and all that it has to publish;
    `on_attempt` with the attempt's number before it publishes. Raises Nats3Error; Conflict if another process runs this
    replay."""

    def publish(job: ReplayJob, chunks: tuple[Chunk, ...]) -> tuple[Sequence[ChunkResult | Reached], Nats3Error | None]:
        finished = run_tasks(spark, f"replay {replay_id}", publish_share, shares(job, chunks, parallelism(spark)))
        return finished.results, finished.error

    with Workspace(settings) as workspace:
        return drive(workspace, replay_id, publish, on_progress=on_progress, on_attempt=on_attempt)
