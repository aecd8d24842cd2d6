"""Replays: the driver's side. A row in the catalog first, then Spark, then the results of each chunk.

The rule kept here: one process at a time drives a replay (a Postgres lock), and before it publishes it makes sure that
no task of an earlier attempt still does (the fence).
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from pyspark import TaskContext
from pyspark.sql import SparkSession

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import EngineError
from nats3_dagster.jetstream.fence import raise_fence
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.task_progress import Progress, reporter
from nats3_dagster.model import Chunk, ChunkResult, ReplaySpec
from nats3_dagster.pipeline.capture_run import parallelism
from nats3_dagster.pipeline.tasks import run_tasks
from nats3_dagster.replay import plan as replay
from nats3_dagster.replay.plan import ReplayJob, ReplayPlan, ReplayResult
from nats3_dagster.replay.republish import Republisher, Share
from nats3_dagster.settings import Settings


def plan_replay(settings: Settings, spec: ReplaySpec, *, create: bool = False) -> ReplayPlan:
    """What a replay would do; nothing is published or recorded. With `create` a target stream that is asked for and
    missing is made. Raises Nats3Error."""
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        return replay.plan(catalog, link, catalog.archives.get(spec.archive), spec, settings.store, create=create)


def create_replay(settings: Settings, spec: ReplaySpec) -> str:
    """Plan a replay and record it; its id, for `run_replay`."""
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        planned = replay.plan(catalog, link, catalog.archives.get(spec.archive), spec, settings.store, create=True)
        replay_id = replay.new_id()
        catalog.replays.begin(replay_id, planned.archive, spec, planned.targets, planned.chunks)
        return replay_id


def run_replay(
    spark: SparkSession, settings: Settings, replay_id: str, *, run_id: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ReplayResult:  # fmt: skip
    """Publish what the replay has not yet published. Safe to call again after any end, a kill -9 included.

    `on_progress(done, total)` counts messages. Raises Nats3Error; Conflict when another process runs this replay."""
    began = time.monotonic()
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link, catalog.replays.lock(replay_id):
        record = catalog.replays.get(replay_id)
        archive = catalog.archives.get(record.spec.archive)
        batched = replay.check_resumable(link, record.targets)
        chunks = catalog.replays.pending(replay_id)
        replay.check_objects(chunks, settings.store)
        attempt = catalog.replays.start_attempt(replay_id, run_id)
        if attempt > 1:
            raise_fence(link, replay_id, attempt)
        with Progress(link, on_progress) as progress:
            progress.total = sum(c.meta.messages for c in chunks)
            job = ReplayJob(
                replay_id,
                attempt,
                record.spec,
                record.targets,
                settings.nats,
                settings.store,
                batched,
                progress.subject,
            )
            tasks = _tasks(job, chunks, parallelism(spark))
            try:
                finished = run_tasks(spark, f"replay {replay_id}", publish_share, tasks)
            except BaseException as error:
                catalog.replays.finish(
                    replay_id, "canceled" if isinstance(error, KeyboardInterrupt) else "failed", str(error)
                )
                raise
        results = replay.combine(finished.results)
        if record.spec.order == "subject" and finished.error:
            # A chunk is done only when the tasks of all its subjects are, and one of them failed.
            results = {}
        catalog.replays.record(replay_id, attempt, tuple(results.values()), run_id)
        catalog.replays.finish(
            replay_id, "failed" if finished.error else "succeeded", str(finished.error or "") or None
        )
        if finished.error:
            raise finished.error
    totals = [
        sum(getattr(r, field) for r in results.values()) for field in ("selected", "published", "found", "duplicates")
    ]
    return ReplayResult(replay_id, archive.name, attempt, len(results), *totals, seconds=time.monotonic() - began)


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


def _tasks(job: ReplayJob, chunks: tuple[Chunk, ...], parallel: int) -> list[Share]:
    slim = [replace(c, meta=replace(c.meta, subjects=None, deleted=None)) for c in chunks]
    shares = replay.shares(slim, job.spec.order, parallel)
    return [Share(job, share, index, len(shares)) for index, share in enumerate(shares)]
