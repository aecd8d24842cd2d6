"""The history of an archive: what happened, who did it, and the next step of what failed. Asks the catalog alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.errors import Unknown
from nats3_dagster.model import Archive, Happening
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

# The number of lines without a limit, and the most that one call answers.
LINES, MOST_LINES = 50, 10_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a history."""

    happening: Happening
    # What to do about a failure; None where nothing failed.
    next: Step | None


def archives_of(workspace: Workspace, name: str, *, deleted: bool = False) -> tuple[Archive, ...]:
    """The archive of this name; with `deleted`, and where there is none, the deleted ones that had it. Raises
    OperatorError when there never was one."""
    archives = workspace.catalog.archives
    former = archives.deleted(name)
    if former and (deleted or archives.find(name) is None):
        return former
    if deleted:
        raise Unknown(f"No archive {name} was deleted", Next.LIST_ARCHIVES())
    return (archives.get(name),)


def history(
    workspace: Workspace, archives: Sequence[Archive], limit: int = LINES, since: datetime | None = None
) -> tuple[Entry, ...]:
    """The history of these archives of one name, the newest first, `limit` at most, and with `since` nothing
    earlier."""
    found = workspace.catalog.history.newest(archives, limit, since)
    return tuple(Entry(one, _next(archives[0].name, one)) for one in found)


def _next(archive: str, one: Happening) -> Step | None:
    if one.error is None:
        return None
    if one.what == "replay_failed":
        return Next.RESUME_REPLAY(replay=one.detail["replay"])
    if one.what == "erasure_refused":
        return None
    if one.hour:
        return Next.CAPTURE_HOUR(archive=archive, hour=one.hour)
    return Next.CAPTURE(archive=archive)
