"""Retention: hours that an archive does not keep any longer expire.

Invariants: only whole hours expire that have ended, by every clock, and are as they were sealed. The catalog lets go
first, then the hour is sealed again, then the objects go, after the time of grace (`removal.sweep`). What a hold
covers stays, and so does what a replay that runs has yet to publish. What was kept of consumers goes with its
hours, but for the last before the oldest hour.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.stored.unchecked import is_unchecked
from nats3_dagster.catalog.removal.expiry import ExpiredHour, Unkept
from nats3_dagster.catalog.removal.holds import HeldRow
from nats3_dagster.errors import Conflict, Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import SECOND_NS, hour_of
from nats3_dagster.model import Archive
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Hours that one transaction takes out: it holds the archive's row, and captures wait for it.
AT_ONCE = 100
# Hours that one tick of a sensor takes out of an archive.
TICK_HOURS = 500
# How long after its time an hour may still be there before the check `kept_as_promised` warns: a sealing and a tick of
# the sensor. Each may fail for a while.
TOLERANCE_S = 6 * 3600


@dataclass(frozen=True, slots=True)
class Expired:
    """Hours of an archive that expired, or would."""

    archive: str
    hours: int = 0
    # The oldest and the newest of them; None where there are none.
    first: str | None = None
    last: str | None = None
    chunks: int = 0
    messages: int = 0
    # As stored.
    bytes: int = 0
    # Live chunks that stay because of a hold, and their bytes.
    held_chunks: int = 0
    held_bytes: int = 0
    # Why hours were not sealed again; their objects stay until they are. None where all were.
    problem: Nats3Error | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of an archive to keep and to remove: what is there and should not be, and what is gone."""

    unkept: Unkept
    held: HeldRow
    # Sequences that went although a hold covered them.
    held_absences: int
    # Holds that are in force.
    holds: int
    # Whether the archive was made again from a bucket, and its settings are not confirmed.
    is_unchecked: bool = False

    @property
    def is_kept(self) -> bool:
        return not self.unkept.hours and not self.held_absences and not self.is_unchecked


def end_of_kept(archive: Archive, now_ns: int, tolerance_s: int = 0) -> str:
    """The first hour that is kept at this time: those before it ended `keep` ago or earlier. Empty where all are."""
    keep_s = archive.spec.keep_s
    return hour_of(max(0, now_ns - (keep_s + tolerance_s) * SECOND_NS)) if keep_s else ""


def expire(workspace: Workspace, name: str, *, dry_run: bool = False, limit: int | None = None) -> Expired:
    """Take hours out of the archive that it does not keep any longer, `limit` at most, and seal them again; with
    `dry_run` say which. Safe to run again after it was killed, and by two at once.

    Raises OperatorError when there is no such archive, Conflict when it was deleted."""
    archive = workspace.catalog.archives.get(name)
    held = workspace.catalog.holds.held(archive)
    found = Expired(archive.name, held_chunks=held.chunks, held_bytes=held.bytes)
    if dry_run:
        end_hour, keep_bytes = _bounds(workspace, archive)
        return _sum(found, workspace.catalog.expiry.find(archive, end_hour, keep_bytes, limit))
    for hours in _expire(workspace, archive, limit):
        found = _sum(found, hours)
    workspace.catalog.consumers.expire(archive)
    return replace(found, problem=seal_again(workspace, archive))


def expire_each(workspace: Workspace, *, limit: int = TICK_HOURS) -> Iterator[Expired]:
    """`expire` for each archive that does not keep all, or has hours that are to be sealed again. One that fails does
    not stop the others, and has its error."""
    for name in workspace.catalog.expiry.due_archives():
        try:
            yield expire(workspace, name, limit=limit)
        except Nats3Error as error:
            yield Expired(name, problem=error)


def seal_again(workspace: Workspace, archive: Archive) -> Nats3Error | None:
    """Seal the hours that have expired messages: until then their manifests name what is gone. The error where that
    does not succeed; the next call does the rest."""
    try:
        while hours := workspace.catalog.expiry.unsealed(archive, AT_ONCE):
            for _ in seal_hours(workspace, archive, hours):
                fault_point("expire.sealed")
    except Nats3Error as error:
        return error
    return None


def promise(workspace: Workspace, archive: Archive, tolerance_s: int = TOLERANCE_S) -> Promise:
    """Returns what the archive's promise to keep and to remove is worth now. Asks the catalog alone."""
    catalog = workspace.catalog
    end_hour = end_of_kept(archive, ask_clocks(workspace).earliest_ns, tolerance_s)
    return Promise(
        catalog.expiry.unkept(archive, end_hour),
        catalog.holds.held(archive),
        catalog.holds.absences(archive),
        len(catalog.holds.all(archive)),
        is_unchecked(workspace, archive),
    )


def _bounds(workspace: Workspace, archive: Archive) -> tuple[str, int | None]:
    return end_of_kept(archive, ask_clocks(workspace).earliest_ns), archive.spec.keep_bytes or None


def _expire(workspace: Workspace, archive: Archive, limit: int | None) -> Iterator[list[ExpiredHour]]:
    done = 0
    while limit is None or done < limit:
        # Asked again: the archive may have other settings now.
        current = workspace.catalog.archives.of_job(archive.job_id)
        if current is None or not current[1]:
            raise Conflict(f"Archive {archive.name} was deleted", Next.LIST_ARCHIVES())
        end_hour, keep_bytes = _bounds(workspace, current[0])
        if not end_hour and keep_bytes is None:
            return
        at_once = AT_ONCE if limit is None else min(AT_ONCE, limit - done)
        hours = workspace.catalog.expiry.expire(current[0], end_hour, keep_bytes, at_once)
        fault_point("expire.committed")
        if not hours:
            return
        done += len(hours)
        yield hours


def _sum(found: Expired, hours: list[ExpiredHour]) -> Expired:
    if not hours:
        return found
    return replace(
        found,
        hours=found.hours + len(hours),
        first=found.first or hours[0].hour,
        last=hours[-1].hour,
        chunks=found.chunks + sum(len(hour.ids) for hour in hours),
        messages=found.messages + sum(hour.messages for hour in hours),
        bytes=found.bytes + sum(hour.bytes for hour in hours),
    )
