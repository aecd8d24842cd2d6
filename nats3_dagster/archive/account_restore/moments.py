"""Moments: which incarnation of an archived stream was there at a time."""

from datetime import datetime

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.model import Archive, Incarnation
from nats3_dagster.model.account_rule import DerivedStream
from nats3_dagster.workspace import Workspace


def incarnation_at(workspace: Workspace, archive: Archive, to_ns: int | None, ended_at: datetime | None) -> Incarnation:
    """The incarnation of the archive's stream that was there right before this time; None for the newest one.
    `ended_at`: when the stream was found to be deleted. Raises OperatorError if there was none."""
    coverages = workspace.catalog.coverage.all(archive)
    if not coverages:
        raise OperatorError("nothing of it was captured yet")
    newest = coverages[-1].incarnation
    if to_ns is None:
        return newest
    # A stream that was restored has messages from before it was made.
    made = [c.incarnation for c in coverages if min(c.incarnation.created_ns, c.first_ns or to_ns) < to_ns]
    if not made:
        raise OperatorError(f"it was made at {format_time(coverages[0].incarnation.created_ns)}")
    if made[-1] == newest:
        check_not_gone(ended_at, to_ns)
    return made[-1]


def check_there(one: DerivedStream, to_ns: int | None) -> None:
    """Raises OperatorError if a stream that has no archive was not there right before this time."""
    if to_ns is not None and one.created_ns >= to_ns:
        raise OperatorError(f"it was made at {format_time(one.created_ns)}")
    check_not_gone(one.gone_at, to_ns)


def check_not_gone(gone_at: datetime | None, to_ns: int | None) -> None:
    """Raises OperatorError if a stream was found to be deleted before this time."""
    if to_ns is not None and gone_at is not None and gone_at.timestamp() * SECOND_NS < to_ns:
        raise OperatorError(f"it was deleted before {format_time(int(gone_at.timestamp()) * SECOND_NS)}")
