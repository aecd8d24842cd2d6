"""Seal: put a manifest beside the chunks of each hour that has ended and is complete, and keep that in the catalog.

An hour is complete when every sequence between its neighbours is accounted for: in a chunk, or in a gap with its
reason. What was lost stands in the manifest of each hour that it may belong to. The stream is asked only where its
newest closed hour ends.
"""

import hashlib
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nats3_dagster import objects
from nats3_dagster.archive.captures.windows import first_at
from nats3_dagster.archive.source import observe_source
from nats3_dagster.chunks.manifest import Manifest, ManifestChunk, ManifestGap, ManifestOther, ManifestPart
from nats3_dagster.errors import Conflict, Nats3Error, OperatorError, StoreError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import CLOCKS_S, HOUR_NS, SECOND_NS, hour_bounds, hour_of, hour_start
from nats3_dagster.model import Archive, HourPart, Incarnation, Seal
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Position:
    """What decides which hours can be sealed, apart from the stream: while it stands still, so do they."""

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


def newest_closed(now_ns: int) -> str:
    """The last hour that has ended by every clock."""
    return hour_of(now_ns - CLOCKS_S * SECOND_NS - HOUR_NS)


def ended_hours(workspace: Workspace, archive: Archive) -> tuple[str, int]:
    """The archive's first hour, and how many have ended since."""
    first = next(hour_of(t.begins_ns) for t in workspace.catalog.archives.totals() if t.archive.id == archive.id)
    closed = newest_closed(time.time_ns())
    return first, max(0, (hour_start(closed) - hour_start(first)) // HOUR_NS + 1)


def complete_hours(workspace: Workspace, archive: Archive, hours: Collection[str]) -> set[str]:
    """Those of the hours that have ended, can be sealed now, and are not. The stream is asked; what it does not answer
    is not complete."""
    first, _ = ended_hours(workspace, archive)
    own = {hour for hour in hours if hour >= first}
    return own.intersection(sealable(workspace, archive, min(own)).hours) if own else set()


def position(workspace: Workspace, archive: Archive) -> Position:
    """Asked of the catalog and the clock."""
    return Position(archive.id, workspace.catalog.hours.revision(archive), newest_closed(time.time_ns()))


def sealable(workspace: Workspace, archive: Archive, first: str, limit: int = 1_000_000) -> Sealable:
    """The complete hours from `first` on that have no valid seal, `limit` at most."""
    at = position(workspace, archive)
    if first > at.closed:
        return Sealable(at, ())
    try:
        bound = _last_sequence(workspace, archive, at.closed)
    except Nats3Error as error:
        # Nothing says where the newest hours end: what was stored behind the last chunk may belong to any of them.
        hours = workspace.catalog.seals.unsealed(archive, first, at.closed, limit=limit)
        with_chunks = workspace.catalog.hours.select(archive, first=first, last=at.closed)
        return Sealable(at, tuple(h for h in hours if with_chunks and h < with_chunks[-1].hour), error)
    return Sealable(at, workspace.catalog.seals.unsealed(archive, first, at.closed, bound=bound, limit=limit))


def seal_hours(
    workspace: Workspace, archive: Archive, hours: Iterable[str], run_id: str | None = None
) -> Iterator[Seal]:
    """Seal each of the hours, which the caller knows to be complete (see `sealable`). One that fails does not stop the
    others: at the end the first error is raised, naming each hour that failed.

    Raises ChunkError when an hour does not add up, Conflict when it changes meanwhile, StoreError for an object; and at
    once when the store or the catalog does not answer."""
    failed: list[tuple[str, Nats3Error]] = []
    for hour in hours:
        try:
            seal = _seal(workspace, archive, hour, run_id)
        except (StoreError, Conflict) as error:
            if not objects.bucket_exists(workspace.settings.store, archive.spec.bucket):
                raise
            failed.append((hour, error))
        else:
            yield seal
    if failed:
        raise _not_sealed(archive, failed)


def seal_asked(workspace: Workspace, name: str, hours: Sequence[str], run_id: str | None = None) -> Iterator[Seal]:
    """Seal those of the hours (ascending) that are complete; then, if one is not, raise OperatorError.

    Raises as `seal_hours` does, and Nats3Error when the stream cannot say where the hours end."""
    archive = workspace.catalog.archives.get(name)
    closed = newest_closed(time.time_ns())
    bound = _last_sequence(workspace, archive, closed)
    seals = workspace.catalog.seals
    complete = seals.unsealed(archive, hours[0], min(hours[-1], closed), bound=bound, limit=len(hours))
    sealed_before = {seal.hour for seal in seals.select(archive, hours=hours) if seal.valid}
    yield from seal_hours(workspace, archive, complete, run_id)
    check_sealed(hours, {*complete, *sealed_before}, name, closed)


def check_sealed(hours: Iterable[str], sealed: Iterable[str], archive: str, closed: str) -> None:
    """Raises OperatorError unless all hours are sealed; `closed` is the last that has ended."""
    rest = sorted(set(hours) - set(sealed))
    if not rest:
        return
    if rest[0] > closed:
        raise OperatorError(f"Hour {rest[0]} has not ended", f"Seal it {CLOCKS_S} s after its end; the sensor does")
    raise OperatorError(
        f"Archive {archive} is not complete in {', '.join(rest[:5])}{' and more' if len(rest) > 5 else ''}",
        Next.CAPTURE_LACKING(archive=archive),
    )


def _last_sequence(workspace: Workspace, archive: Archive, hour: str) -> tuple[Incarnation, int]:
    """The last sequence of the stream that was stored before the hour ended: so far an archive must be complete. Raises
    Nats3Error when the stream is gone or another one."""
    state = observe_source(workspace, archive)
    return state.incarnation, first_at(workspace.link, archive.spec, hour_bounds(hour)[1]) - 1


def _seal(workspace: Workspace, archive: Archive, hour: str, run_id: str | None) -> Seal:
    catalog, bucket = workspace.catalog, archive.spec.bucket
    begun = catalog.now()
    row, parts = catalog.seals.next(archive, hour)
    manifest = _manifest(workspace, archive, hour, row.number, parts)
    data, key = manifest.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    fault_point("seal.planned")
    workspace.bucket(bucket).put_new(key, data, sha256)
    fault_point("seal.object_put")
    seal = Seal(
        hour=hour, number=row.number, revision=row.revision, chunks=row.chunks, losses=manifest.losses,
        messages=manifest.messages, gaps=manifest.gap_size, bucket=bucket, key=key, sha256=sha256,
        stored_bytes=len(data), dagster_run_id=run_id,
    )  # fmt: skip
    catalog.seals.add(archive, seal, begun=begun)
    fault_point("seal.added")
    return seal


def _not_sealed(archive: Archive, failed: Sequence[tuple[str, Nats3Error]]) -> Nats3Error:
    """The first error, with each hour that failed."""
    hour, first = failed[0]
    if len(failed) == 1:
        what = f"Hour {hour} of archive {archive.name} was not sealed: {first.what}"
    else:
        hours = ", ".join(hour for hour, _ in failed[:5]) + (" and more" if len(failed) > 5 else "")
        what = f"{len(failed)} hours of archive {archive.name} were not sealed: {hours}. The first: {first.what}"
    return type(first)(what, first.hint)


def _manifest(workspace: Workspace, archive: Archive, hour: str, number: int, parts: Iterable[HourPart]) -> Manifest:
    spec = archive.spec
    made = tuple(_part(workspace, archive, hour, part) for part in parts)
    return Manifest(spec.name, spec.stream, spec.bucket, spec.prefix, hour, number, made)


def _part(workspace: Workspace, archive: Archive, hour: str, part: HourPart) -> ManifestPart:
    chunks = workspace.catalog.chunks.of_hour(archive, hour, part.incarnation)
    return ManifestPart(
        part.incarnation.created_ns, part.seqs.first, part.seqs.last,
        tuple(
            ManifestChunk(
                key=m.key, sha256=m.sha256, stored_bytes=m.stored_bytes, first_seq=m.covers.first,
                last_seq=m.covers.last, messages=m.messages, payload_bytes=m.payload_bytes,
                first_ns=m.first_ns, last_ns=m.last_ns, absent_reason=m.absent_reason,
            ) for m in (c.meta for c in chunks)
        ),
        tuple(
            ManifestGap(*gap.seqs, gap.reason, gap.first_hour, gap.last_hour, gap.after_ns, gap.before_ns)
            for gap in part.gaps
        ),
        tuple(ManifestOther(*other.seqs, other.hour) for other in part.others),
    )  # fmt: skip
