"""Captures: the driver's side. Plan from the catalog, read in the workers, commit what came back.

Invariant: only the driver uses Postgres, and what some tasks achieved is committed though another failed.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from pyspark.sql import SparkSession

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.driver import Perform, capture_hours
from nats3_dagster.archive.captures.hour_run import HourRun, OnError, OnJob
from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.captures.read import Outcome
from nats3_dagster.archive.captures.task import HourFailure
from nats3_dagster.archive.take.driver import take_hours
from nats3_dagster.archive.take.job import Perform as PerformTake
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.errors import Nats3Error
from nats3_dagster.jetstream.task_progress import Tally, new_subject
from nats3_dagster.model import Archive, ChunkMeta, OnProgress, Progress
from nats3_dagster.pipeline.tasks import parallelism, run_tasks
from nats3_dagster.pipeline.worker import capture_task, take_task
from nats3_dagster.settings import Settings
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace


def run_captures(
    spark: SparkSession,
    settings: Settings,
    archive_name: str,
    run: HourRun,
    on_error: OnError,
    *,
    adopt: bool = False,
    on_job: OnJob | None = None,
) -> Iterator[tuple[CaptureResult, ...]]:
    """Make the hours of the run complete as far as the stream goes now. Running it again adds nothing. Yields after
    each Spark job the hours that it completed; hours that failed are noted in the run.

    `on_job`'s progress is called with the messages that were read and the sequences to read. Raises Nats3Error."""
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get(archive_name)
        parallel = parallelism(spark, "spark.nats3.capture.tasks")
        if archive.spec.mode == "consumer":
            jobs = take_hours(
                workspace,
                archive,
                run,
                _taking(spark, archive, run.hours),
                on_error,
                adopt=adopt,
                parallel=parallel,
                on_job=on_job,
            )
        else:
            perform = _reading(spark, workspace, archive, parallel, on_job)
            jobs = capture_hours(workspace, archive, run, perform, on_error, adopt=adopt)
        while True:
            with followed(workspace, archive.name):
                done = next(jobs, None)
            if done is None:
                return
            yield done


def run_capture(
    spark: SparkSession,
    settings: Settings,
    archive_name: str,
    hour: str,
    *,
    adopt: bool = False,
    on_progress: OnProgress | None = None,
) -> CaptureResult:
    """`run_captures` for one hour. Raises its error."""
    run = HourRun([hour])

    def on_job(hours: Sequence[str]) -> AbstractContextManager[OnProgress]:
        assert on_progress
        return nullcontext(on_progress)

    jobs = run_captures(
        spark,
        settings,
        archive_name,
        run,
        lambda *_: None,
        adopt=adopt,
        on_job=on_job if on_progress else None,
    )
    results = [result for done in jobs for result in done]
    run.raise_errors()
    return results[0]


def _reading(
    spark: SparkSession, workspace: Workspace, archive: Archive, parallel: int, on_job: OnJob | None
) -> Perform:
    """The function that runs the tasks of a plan on Spark, `parallel` of them at most."""

    def perform(planned: CapturePlan) -> tuple[Sequence[Outcome | HourFailure], Nats3Error | None]:
        job, hours, total = planned.job, planned.hours, sum(r.size for r in planned.missing)
        name = f"capture {archive.name} {hours[0]}{f' to {hours[-1]}' if len(hours) > 1 else ''}"
        if not on_job or not total:
            finished = run_tasks(spark, name, capture_task, [(job, ranges) for ranges in planned.tasks(parallel)])
            return finished.results, finished.error
        subject = new_subject()
        job = replace(job, progress=subject)
        with on_job(hours) as on_progress:
            with Tally(workspace.link, subject, total, on_progress):
                finished = run_tasks(spark, name, capture_task, [(job, ranges) for ranges in planned.tasks(parallel)])
            read = sum(outcome.messages for outcome in finished.results if isinstance(outcome, ChunkMeta))
            on_progress(Progress(read, read))
        return finished.results, finished.error

    return perform


def _taking(spark: SparkSession, archive: Archive, hours: Sequence[str]) -> PerformTake:
    """The function that runs the tasks of a round on Spark: they pull in turn, and write at the same time."""

    def perform(job: TakeJob) -> tuple[tuple[object, ...], Nats3Error | None]:
        finished = run_tasks(
            spark, f"capture {archive.name} {hours[0]}", take_task, [(job, n) for n in range(job.tasks)]
        )
        return finished.results, finished.error

    return perform
