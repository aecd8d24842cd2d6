"""A capture in this process, step by step, and what it left."""

from collections.abc import Sequence

from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures import plan as planning
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.captures.read import Outcome, RangeCapture
from nats3_dagster.model import Archive, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.wire import Wire


def plan(workspace: Workspace, archive: Archive, wire: Wire) -> planning.CapturePlan:
    """Of the hour that has the newest message."""
    return plan_hours(workspace, archive, hours_of(wire, "EV")[-1:])


def plan_hours(
    workspace: Workspace, archive: Archive, hours: Sequence[str], *, adopt: bool = False
) -> planning.CapturePlan:
    """Open the source, and plan."""
    return planning.plan(workspace, open_source(workspace, archive, adopt=adopt), hours)


def read(workspace: Workspace, planned: planning.CapturePlan) -> list[Outcome]:
    """Read what the plan asks for, and put its chunks, in this process."""
    return [o for seqs in planned.missing for o in RangeCapture(planned.job, seqs, workspace.link).outcomes()]


def capture(workspace: Workspace, archive: Archive, wire: Wire) -> commit.CaptureResult:
    """A whole capture in this process."""
    planned = plan(workspace, archive, wire)
    (result,) = commit.commit(workspace, planned, read(workspace, planned))
    return result


def archived(workspace: Workspace, archive: Archive) -> tuple[list[SeqRange], int, list[tuple[str, int]]]:
    """What chunks cover, their messages, and the gaps."""
    live = [c.meta for c in workspace.catalog.chunks.select(archive)]
    gaps = [(g.reason, g.size) for g in workspace.catalog.gaps.select(archive)]
    return [m.covers for m in live], sum(m.messages for m in live), gaps
