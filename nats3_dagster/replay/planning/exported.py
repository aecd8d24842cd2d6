"""Hours that a replay would delete before the archive's exports have them.

Invariant: a chunk is deleted only once every export of its archive has its hour, unless the replay was allowed to.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nats3_dagster.errors import WrongState
from nats3_dagster.model import Archive
from nats3_dagster.replay.planning.content import Content
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Missing:
    """The hours that an export does not have as they are."""

    export: str
    # Ascending, one at least.
    hours: tuple[str, ...]

    def __str__(self) -> str:
        count = f"{len(self.hours)} hour{'s' if len(self.hours) > 1 else ''}"
        names = ", ".join(self.hours[:2]) + (f" to {self.hours[-1]}" if len(self.hours) > 2 else "")
        return f"export {self.export} has not exported {count} ({names})"


def missing(workspace: Workspace, archive: Archive, hours: Collection[str]) -> tuple[Missing, ...]:
    """Returns the hours that the archive's exports have not exported, by export: hours that are not sealed as well."""
    if not hours:
        return ()
    catalog, found = workspace.catalog.exports, list[Missing]()
    for export in catalog.all(archive):
        rows = catalog.hours(archive, export, first=min(hours), last=max(hours))
        done = {row.hour for row in rows if row.state == "done"}
        if rest := sorted(set(hours) - done):
            found.append(Missing(export.name, tuple(rest)))
    return tuple(found)


def checked_deletion(content: Content) -> tuple[str, ...]:
    """Returns notes on exports that do not have chunks which the replay deletes. Raises WrongState unless it may delete
    them."""
    if not content.spec.delete_chunks:
        return ()
    workspace, archive, may_lack = content.workspace, content.archive, content.spec.delete_unexported
    if not may_lack and content.spec.poll_interval_s is not None:
        _check_follows(workspace, archive)
    lacks = missing(workspace, archive, content.chosen.extent.whole_hours)
    if lacks and not may_lack:
        raise _not_exported(archive, lacks)
    return tuple(f"Chunks are deleted although {one}" for one in lacks)


def _not_exported(archive: Archive, lacks: Sequence[Missing]) -> WrongState:
    first = lacks[0]
    more = f", and {len(lacks) - 1} more exports do not have some of them" if len(lacks) > 1 else ""
    return WrongState(
        f"The replay would delete chunks of archive {archive.name} whose messages {first}{more}",
        Next.EXPORT_BEFORE_DELETION(archive=archive.name, export=first.export),
    )


def _check_follows(workspace: Workspace, archive: Archive) -> None:
    """Raises WrongState if the archive has an export: a replay that follows it deletes chunks of hours that have not
    ended, and only whole hours are exported."""
    if exports := workspace.catalog.exports.all(archive):
        raise WrongState(
            f"The replay would delete chunks of archive {archive.name} before their hour has ended, and export "
            f"{exports[0].name} takes whole hours",
            Next.EXPORT_BEFORE_DELETION(archive=archive.name, export=exports[0].name),
        )
