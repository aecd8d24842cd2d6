"""Captures: the driver's side. Plan from the catalog, read in the workers, commit what came back.

Invariant: only the driver uses Postgres, and what some tasks achieved is committed though another failed.
"""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from nats3_dagster.archive.captures import commit, plan
from nats3_dagster.archive.captures.capture_log import record_outcome
from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.plan import CaptureJob, CapturePlan
from nats3_dagster.archive.captures.read import Outcome, RangeCapture
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.take.driver import Round, TakeJob, run_rounds
from nats3_dagster.archive.take.take_capture import Outcome as TakeOutcome
from nats3_dagster.archive.take.take_capture import TakeCapture
from nats3_dagster.errors import Conflict, Nats3Error, SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.task_progress import Counts, Tally, new_subject, reporting
from nats3_dagster.model import Archive, OnProgress, Progress, SeqRange
from nats3_dagster.pipeline.tasks import parallelism, run_tasks
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.tables.follow import followed
from nats3_dagster.workspace import Workspace

# Another capture of the hour may commit first, and the next plan then asks for less. A third time is no coincidence.
ATTEMPTS = 3
Task = tuple[CaptureJob, SeqRange]


def run_capture(
    spark: SparkSession,
    settings: Settings,
    archive_name: str,
    hour: str,
    *,
    run_id: str | None = None,
    adopt: bool = False,
    on_progress: OnProgress | None = None,
) -> CaptureResult:
    """Make the hour of the archive complete as far as the stream goes now. Running it again adds nothing.

    `on_progress` is called with the messages that were read and the sequences to read. Raises Nats3Error."""
    began = time.monotonic()
    with Workspace(settings) as workspace:
        archive = workspace.catalog.archives.get(archive_name)
        capture_once = _take if archive.spec.mode == "consumer" else _read

        def captured() -> CaptureResult:
            folder.require(workspace, archive)
            return capture_once(spark, workspace, archive, hour, run_id, adopt, on_progress)

        with followed(workspace, archive.name):
            result = record_outcome(workspace, archive, hour, run_id, captured)
        return replace(result, seconds=time.monotonic() - began)


def _read(
    spark: SparkSession,
    workspace: Workspace,
    archive: Archive,
    hour: str,
    run_id: str | None,
    adopt: bool,
    on_progress: OnProgress | None,
) -> CaptureResult:
    """Captures the sequences of the hour that are missing in the archive."""
    retrying = Retrying(retry=retry_if_exception_type(Conflict), stop=stop_after_attempt(ATTEMPTS), reraise=True)
    for attempt in retrying:
        with attempt:
            subject = new_subject() if on_progress else None
            planned = plan.plan(workspace, archive, hour, adopt=adopt, progress=subject)
            fault_point("capture.planned")
            result = _read_and_commit(spark, workspace, planned, run_id, on_progress)
            _check_complete(workspace, planned)
            return result
    raise AssertionError("unreachable: the last attempt returns or raises")


def _read_and_commit(
    spark: SparkSession, workspace: Workspace, planned: CapturePlan, run_id: str | None, on_progress: OnProgress | None
) -> CaptureResult:
    parallel = parallelism(spark, "spark.nats3.capture.tasks")
    tasks = [(planned.job, seqs) for seqs in planned.tasks(parallel)]
    name = f"capture {planned.archive.name} {planned.job.hour}"
    subject, total = planned.job.progress, sum(r.size for r in planned.missing)
    with Tally(workspace.link, subject, total, on_progress) if subject and tasks else nullcontext():
        finished = run_tasks(spark, name, capture_range, tasks)
    result = commit.commit(workspace, planned, finished.results, run_id)
    if finished.error:
        raise finished.error
    if on_progress:
        on_progress(Progress(result.messages, result.messages))
    return result


def _take(
    spark: SparkSession,
    workspace: Workspace,
    archive: Archive,
    hour: str,
    run_id: str | None,
    adopt: bool,
    on_progress: OnProgress | None,
) -> CaptureResult:
    """All that waits in the archive's durable, whatever its hour, round by round: tasks pull in turn, and write at the
    same time."""
    messages = 0
    parallel = parallelism(spark, "spark.nats3.capture.tasks")

    def perform(job: TakeJob) -> tuple[tuple[TakeOutcome, ...], Nats3Error | None]:
        finished = run_tasks(spark, f"capture {archive.name} {hour}", take_round, [(job, n) for n in range(job.tasks)])
        return finished.results, finished.error

    def note(done: Round) -> None:
        nonlocal messages
        messages += sum(c.messages for c in done.chunks)
        if on_progress:
            on_progress(Progress(messages, messages))

    return run_rounds(workspace, archive, hour, perform, run_id=run_id, adopt=adopt, parallel=parallel, on_round=note)


def take_round(task: tuple[TakeJob, int]) -> Iterator[TakeOutcome]:
    """One task of a round of an archive of the mode `consumer`, in a worker."""
    yield from TakeCapture(*task).outcomes()


def capture_range(task: Task) -> Iterator[Outcome]:
    """One task, in a worker."""
    job, seqs = task
    with Link(job.nats) as link:
        capturing = RangeCapture(job, seqs, link)
        with reporting(link, job.progress, seqs.first, lambda: Counts(capturing.messages)):
            yield from capturing.outcomes()
    fault_point("capture.task_returned")


def _check_complete(workspace: Workspace, planned: CapturePlan) -> None:
    """The run's own proof: the hour's window is covered now. Raises SourceError; Conflict where the archive was deleted
    after the commit, and its chunks with it."""
    if missing := commit.uncovered(workspace, planned):
        workspace.catalog.archives.settled(planned.archive)
        archive, hour = planned.archive.name, planned.job.hour
        raise SourceError(
            f"Archive {archive} still misses {', '.join(map(str, missing[:3]))} of {hour}",
            Next.CAPTURE_HOUR(archive=archive, hour=hour),
        )
