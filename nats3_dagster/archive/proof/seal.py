"""Seal: put a manifest beside the chunks of each hour that has ended and is complete, and keep that in the catalog.

An hour is complete when every sequence between its neighbours is accounted for: in a chunk, or in a gap with its
reason. What was lost stands in the manifest of each hour that it may belong to. The stream is asked only where its
newest closed hour ends.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nats3_dagster import objects
from nats3_dagster.actor import current_run
from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.archive.proof.failed_hours import FailedHours
from nats3_dagster.archive.proof.manifests import build_manifest, highest_manifests
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.source.observe import checked_source
from nats3_dagster.archive.source.windows import end_of
from nats3_dagster.archive.status import contents
from nats3_dagster.archive.stored import copies, folder
from nats3_dagster.archive.stored.archive_folder import ArchiveFolder
from nats3_dagster.chunks.manifest import manifest_number
from nats3_dagster.errors import ChunkError, Conflict, Nats3Error, OperatorError, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import CLOCKS_S, HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.model import Archive, Incarnation, Seal, StreamState
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Position:
    """The facts that decide which hours can be sealed, apart from the stream: while they do not change, neither do the
    hours."""

    # An archive that is made again under its name has another id.
    archive: int
    # The archive's, in the catalog.
    revision: int
    # The last hour that has ended by every clock.
    closed: str


@dataclass(frozen=True, slots=True)
class Sealable:
    """Hours that can be sealed now."""

    position: Position
    # Ascending.
    hours: tuple[str, ...]
    # Why the stream could not say where the newest hours end: then `hours` stops before them.
    problem: Nats3Error | None = None
    # Which clocks differ by more than they may; empty if none do.
    clocks: str = ""


def newest_closed(now_ns: int) -> str:
    """The last hour that has ended by every clock."""
    return hour_of(now_ns - CLOCKS_S * SECOND_NS - HOUR_NS)


def ended_hours(workspace: Workspace, archive: Archive) -> tuple[str, int]:
    """The archive's first hour, and how many have ended since."""
    totals = workspace.catalog.archives.totals_of(archive)
    if totals is None:
        raise Conflict(f"Archive {archive.name} was deleted", Next.LIST_ARCHIVES())
    first = hour_of(totals.begins_ns)
    closed = newest_closed(ask_clocks(workspace).earliest_ns)
    return first, max(0, (hour_start(closed) - hour_start(first)) // HOUR_NS + 1)


def complete_hours(
    workspace: Workspace, archive: Archive, hours: Collection[str]
) -> tuple[set[str], Nats3Error | None]:
    """Returns the hours that have ended, can be sealed now, and are not; and the reason why the stream could not say
    where the newest hours end, which are then left out."""
    first, _ = ended_hours(workspace, archive)
    own = {hour for hour in hours if hour >= first}
    if not own:
        return set(), None
    found = sealable(workspace, archive, min(own))
    return own.intersection(found.hours), found.problem


def position(workspace: Workspace, archive: Archive) -> Position:
    """Returns the position, from the catalog and two clocks."""
    closed = newest_closed(ask_clocks(workspace).earliest_ns)
    return Position(archive.id, workspace.catalog.hours.revision(archive), closed)


def sealable(workspace: Workspace, archive: Archive, first: str, limit: int = 1_000_000) -> Sealable:
    """The complete hours from `first` on that have no valid seal, `limit` at most."""
    at = position(workspace, archive)
    if first > at.closed:
        return Sealable(at, (), clocks=ask_clocks(workspace).difference)
    try:
        state = checked_source(workspace, archive).state
        clocks = ask_clocks(workspace, state)
        at = replace(at, closed=min(at.closed, newest_closed(clocks.earliest_ns)))
        bound = _last_sequence(workspace, archive, state, at.closed)
    except Nats3Error as error:
        # Nothing says where the newest hours end: what was stored after the last chunk may belong to any of them.
        hours = workspace.catalog.seals.unsealed(archive, first, at.closed, limit=limit)
        with_chunks = workspace.catalog.hours.select(archive, first=first, last=at.closed)
        return Sealable(at, tuple(h for h in hours if with_chunks and h < with_chunks[-1].hour), error)
    hours = workspace.catalog.seals.unsealed(archive, first, at.closed, bound=bound, limit=limit)
    return Sealable(at, hours, clocks=clocks.difference)


def seal_hours(workspace: Workspace, archive: Archive, hours: Iterable[str]) -> Iterator[Seal]:
    """Seal each of the hours, which the caller knows to be complete (see `sealable`). One that fails does not stop the
    others: at the end the first error is raised, naming each hour that failed.

    Before an hour is sealed its chunks are copied: it waits for a copy that is away.

    Raises ChunkError when an hour does not add up, Conflict when it changes meanwhile, StoreError for an object; and at
    once when the store or the catalog does not answer, or the archive does not own its folder."""
    failures = FailedHours(archive.name, "sealed")
    hours = tuple(hours)
    if not hours:
        return
    own_folder = folder.require(workspace, archive)
    for hour in hours:
        try:
            seal = _seal(workspace, own_folder, hour)
        except (StoreError, Conflict) as error:
            if not objects.bucket_exists(workspace.settings.store, archive.spec.bucket):
                raise
            failures.add(hour, error)
        else:
            yield seal
    failures.raise_first()


def seal_complete(workspace: Workspace, archive: Archive, hours: Sequence[str]) -> Iterator[Seal]:
    """`seal_hours` for hours that the stream itself was asked about; then its consumers are kept. Raises as that
    does."""
    yield from seal_hours(workspace, archive, hours)
    if hours:
        record_consumers(workspace, archive)


def seal_asked(workspace: Workspace, name: str, hours: Sequence[str]) -> Iterator[Seal]:
    """Seal those of the hours (ascending) that are complete. Yields the seals of all that are sealed then: first of
    those that were before. Then, if one is not complete, raise OperatorError.

    Raises as `seal_hours` does, and Nats3Error when the stream cannot say where the hours end."""
    archive = workspace.catalog.archives.get(name)
    state = checked_source(workspace, archive).state
    clocks = ask_clocks(workspace, state)
    closed = newest_closed(clocks.earliest_ns)
    bound = _last_sequence(workspace, archive, state, closed)
    seals = workspace.catalog.seals
    complete = seals.unsealed(archive, hours[0], min(hours[-1], closed), bound=bound, limit=len(hours))
    # An hour that changed and is again as it was sealed is due like any other: nothing else knows it as sealed.
    found = [seal for seal in seals.select(archive, hours=hours) if seal.valid]
    before = {seal.hour: seal for seal in found if seal.hour not in complete}
    yield from before.values()
    yield from seal_complete(workspace, archive, complete)
    check_sealed(hours, {*complete, *before}, name, closed, clocks.difference)


def require_sealed(workspace: Workspace, archive: Archive, hours: Collection[str]) -> None:
    """Raises OperatorError unless each of the hours is as it was sealed, or before the archive's first one. Asks the
    catalog alone."""
    sealed = {seal.hour for seal in workspace.catalog.seals.select(archive, hours=sorted(hours)) if seal.valid}
    totals = workspace.catalog.archives.totals_of(archive)
    first = hour_of(totals.begins_ns) if totals else ""
    if rest := sorted(hour for hour in {*hours} - sealed if hour >= first):
        raise OperatorError(
            f"Archive {archive.name} has hours that are not sealed: {', '.join(rest[:5])}"
            f"{f' and {len(rest) - 5:,} more' if len(rest) > 5 else ''}",
            Next.SEAL_HOURS(archive=archive.name),
        )


def check_sealed(hours: Iterable[str], sealed: Iterable[str], archive: str, closed: str, clocks: str = "") -> None:
    """Raises OperatorError unless all hours are sealed; `closed` is the last that has ended, and `clocks` says which
    clocks differ."""
    rest = sorted(set(hours) - set(sealed))
    if not rest:
        return
    if rest[0] > closed:
        what = f"Hour {rest[0]} has not ended" + (f". {clocks}" if clocks else "")
        later = f"Seal it {CLOCKS_S} s after its end; the sensor does"
        raise OperatorError(what, "Set the clocks right" if clocks else later)
    raise OperatorError(
        f"Archive {archive} is not complete in {', '.join(rest[:5])}{' and more' if len(rest) > 5 else ''}",
        Next.CAPTURE_LACKING(archive=archive),
    )


def _last_sequence(workspace: Workspace, archive: Archive, state: StreamState, hour: str) -> tuple[Incarnation, int]:
    """The last sequence of the stream that was stored before the hour ended: so far an archive must be complete. Raises
    SourceError."""
    return state.incarnation, end_of(workspace, archive, state, hour)


def _seal(workspace: Workspace, own_folder: ArchiveFolder, hour: str) -> Seal:
    catalog, archive = workspace.catalog, own_folder.archive
    begun = catalog.now()
    row, parts = catalog.seals.next(archive, hour)
    # After the hour was read: a chunk that comes later changes it, and the catalog refuses this seal.
    copies.copy(workspace, archive, hour)
    try:
        manifest = build_manifest(workspace, archive, hour, row.number, parts)
        data, key = manifest.encode()
    except ChunkError:
        if catalog.seals.next(archive, hour)[0].revision == row.revision:
            raise
        # Chunks of before and after a change do not add up.
        raise Conflict(
            f"Hour {hour} of archive {archive.name} changed meanwhile", "It is sealed as it is then"
        ) from None
    if highest := highest_manifests(own_folder, hour, at_least=row.number):
        # The catalog does not know it: sealing was killed, or the catalog is an older one. One with the same bytes is
        # this seal's; above any other it gets the next number, because the highest one is valid.
        manifest = replace(manifest, number=manifest_number(highest[0]))
        data, key = manifest.encode()
        if highest != [key]:
            manifest = replace(manifest, number=manifest.number + 1)
            data, key = manifest.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    fault_point("seal.planned")
    own_folder.bucket.put_new(key, data, sha256)
    fault_point("seal.object_put")
    for copy_bucket in archive.spec.copies:
        workspace.bucket(copy_bucket).put_new(key, data, sha256)
    seal = Seal(
        hour=hour,
        number=manifest.number,
        revision=row.revision,
        chunks=row.chunks,
        losses=manifest.losses,
        messages=manifest.messages,
        gaps=manifest.gap_size,
        # The catalog refuses the seal if the hour has changed since `row`.
        content=contents(workspace, archive, [hour])[hour],
        bucket=own_folder.bucket.name,
        key=key,
        sha256=sha256,
        stored_bytes=len(data),
        dagster_run_id=current_run(),
    )
    catalog.seals.add(archive, seal, begun=begun)
    fault_point("seal.added")
    catalog.copies.put(archive, key)
    return seal
