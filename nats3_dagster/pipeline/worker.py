"""The tasks of captures, compactions, replays and exports, as Spark's Python workers run them.

A worker imports this module and what its own task needs: no catalog, no driver, which take 0.4 s of processor time.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext

from nats3_dagster.errors import EngineError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.steps import Next

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.job import CaptureJob
    from nats3_dagster.archive.captures.read import Outcome
    from nats3_dagster.archive.captures.task import HourFailure
    from nats3_dagster.archive.keep.merge_task import HourMerged, MergeTask
    from nats3_dagster.archive.take.flow_capture import SessionEnd
    from nats3_dagster.archive.take.job import TakeJob
    from nats3_dagster.archive.take.take_capture import Outcome as TakeOutcome
    from nats3_dagster.exports.job import ExportJob, Group, GroupResult
    from nats3_dagster.model import ChunkResult, SeqRange
    from nats3_dagster.replay.job import Reached, Share


def capture_task(task: "tuple[CaptureJob, tuple[SeqRange, ...]]") -> "Iterator[Outcome | HourFailure]":
    """The ranges of one task of a capture."""
    from nats3_dagster.archive.captures.task import CaptureTask
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.jetstream.task_progress import Counts, reporting

    job, ranges = task
    with Link(job.nats) as link:
        capturing = CaptureTask(job, ranges, link)
        with reporting(link, job.progress, ranges[0].first, lambda: Counts(capturing.messages)):
            yield from capturing.outcomes()
    fault_point("capture.task_returned")


def take_task(task: "tuple[TakeJob, int]") -> "Iterator[TakeOutcome | SessionEnd]":
    """One task of a round of an archive of the mode `consumer`, or the one of a session."""
    from nats3_dagster.archive.take.flow_capture import FlowCapture
    from nats3_dagster.archive.take.take_capture import TakeCapture

    job, number = task
    yield from FlowCapture(job).outcomes() if job.channel else TakeCapture(job, number).outcomes()


def merge_hour(task: "MergeTask") -> "Iterator[HourMerged]":
    """The chunks of an hour that become fewer."""
    from nats3_dagster.archive.keep import merge_task

    yield merge_task.merge_hour(task)


def publish_share(share: "Share") -> "Iterator[ChunkResult | Reached]":
    """The share of one task of a replay. Raises EngineError where Spark starts it again by itself: the worker of the
    first try may have lost its executor and still publish, and only a new attempt of the replay raises the fence
    against it."""
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.jetstream.task_progress import reporting
    from nats3_dagster.replay.messages.republish import Republisher

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise EngineError(
            f"Spark lost a task of replay {share.job.id} while it published",
            Next.RESUME_REPLAY(replay=share.job.id),
        )
    with Link(share.job.nats) as link:
        republisher = Republisher(share, link)
        with reporting(link, share.job.progress, share.index, republisher.counts):
            yield from republisher.results()


def export_group(task: "tuple[ExportJob, Group]") -> "Iterator[GroupResult]":
    """A group of chunks of one hour's export."""
    from nats3_dagster.exports.group_export import GroupExport

    yield GroupExport(*task).run()
