"""Unchecked: an archive that was made again from a bucket, whose settings no person has looked at yet.

Invariant: what the settings beside the chunks make nats3 do to messages waits: the hold of the rebuild keeps all of
them (Postgres refuses what removes one), and nothing goes to a copy, which may be another hand's bucket.
"""

from nats3_dagster.errors import Conflict
from nats3_dagster.model import Archive
from nats3_dagster.model.hold import REBUILT
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def is_unchecked(workspace: Workspace, archive: Archive) -> bool:
    """True from a rebuild until its hold is ended."""
    return any(hold.name == REBUILT for hold in workspace.catalog.holds.all(archive))


def require_checked(workspace: Workspace, archive: Archive) -> None:
    """Raises Conflict while the settings of a rebuilt archive are not checked."""
    if is_unchecked(workspace, archive):
        raise Conflict(
            f"Archive {archive.name} was made again from its bucket, and its copies "
            f"({', '.join(archive.spec.copies)}) are not confirmed yet: nothing is copied",
            Next.CHECK_REBUILT(archive=archive.name, hold=REBUILT),
        )
