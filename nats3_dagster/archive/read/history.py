"""The history of an archive: what happened, who did it, and the next step of what failed. Asks the catalog alone."""

from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.model import Happening
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


def history(workspace: Workspace, name: str, limit: int = LINES, since: datetime | None = None) -> tuple[Entry, ...]:
    """The history of the archive, the newest first, `limit` at most, and with `since` nothing earlier. Raises
    OperatorError when there is no such archive."""
    archive = workspace.catalog.archives.get(name)
    found = workspace.catalog.history.newest(archive, limit, since)
    return tuple(Entry(one, _next(archive.name, one)) for one in found)


def _next(archive: str, one: Happening) -> Step | None:
    if one.error is None:
        return None
    if one.what == "replayed":
        return Next.RESUME_REPLAY(replay=one.detail["replay"])
    if one.hour:
        return Next.CAPTURE_HOUR(archive=archive, hour=one.hour)
    return Next.CAPTURE(archive=archive)
