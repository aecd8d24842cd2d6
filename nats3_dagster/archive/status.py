"""The state of archives, as faces show it: what they hold, what an hour and a chunk are. Only the catalog is asked."""

import hashlib
import json
import time
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta
from typing import Any

from nats3_dagster.archive.source.absence import lost_by_reason
from nats3_dagster.catalog.contents.hours import HourMarks
from nats3_dagster.catalog.removal.copies import CopyLag
from nats3_dagster.errors import OperatorError, Unknown
from nats3_dagster.hours import hour_of, hour_start
from nats3_dagster.model import (
    REMOVED,
    Archive,
    Chunk,
    Coverage,
    Gap,
    Hold,
    PlacedGap,
    Reason,
    ReplayChunk,
    Seal,
    StreamState,
    Unswept,
)
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.model.export import ExportLag
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Holdings:
    """The contents of an archive, and its missing messages with their reasons."""

    archive: Archive
    # One for each incarnation, oldest first.
    coverages: tuple[Coverage, ...]
    gaps: tuple[Gap, ...]
    # Sequences that were lost, by reason; a reason without any is left out.
    losses: dict[Reason, int]
    # Those that were removed from the archive on purpose, in the same way.
    removed: dict[Reason, int]
    # How many hours have messages.
    hours: int
    # How many are sealed, those without a message too.
    sealed: int
    # How many of these are without a message.
    empty: int
    # Whether the open hour is without a message.
    open_is_empty: bool
    # What its retired chunks still have in the store, and until when at least: None where there is nothing.
    unswept: Unswept
    kept_until: datetime | None
    # Of each copy that misses something, or has something to lose.
    copies: tuple[CopyLag, ...] = ()
    # In force, the oldest first.
    holds: tuple[Hold, ...] = ()

    def covered(self, *, nothing_waits: bool) -> int:
        """Returns the number of covered hours: those with messages, those sealed without one, and the open one if it
        has none and `nothing_waits`: all of the stream is captured. Dagster shows them as materialized."""
        return self.hours + self.empty + (nothing_waits and self.open_is_empty)


@dataclass(frozen=True, slots=True)
class HourReport:
    """One hour of an archive."""

    archive: Archive
    hour: str
    # The archive's revision when the hour last changed, 0 without chunks. What follows is that, or newer.
    revision: int
    # In the order of the stream.
    chunks: tuple[Chunk, ...]
    # Beside its chunks: the hour may have losses without having chunks.
    gaps: tuple[PlacedGap, ...]
    # The version of what it holds: see contents.
    content: str
    # Messages of the whole archive.
    total: int
    marks: HourMarks

    @property
    def losses(self) -> int:
        """Sequences in gaps that were lost or removed, and may belong to the hour."""
        return sum(gap.seqs.size for gap in self.gaps if gap.first_hour)

    @property
    def missing(self) -> int:
        """Sequences that were lost or removed, and may belong to the hour: in gaps, and between messages of chunks."""
        return self.losses + sum(chunk.meta.missing for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """One chunk with its subjects and deleted sequences, and what replays did with it, newest first."""

    chunk: Chunk
    replays: tuple[ReplayChunk, ...]


@dataclass(frozen=True, slots=True)
class StreamLag:
    """A stream as it was last observed."""

    state: StreamState
    # Sequences between what is complete in the archive and the stream's end.
    behind: int


@dataclass(frozen=True, slots=True)
class Outputs:
    """The tables and exports of archives, and the lag of each."""

    tables: tuple[ArchiveTable, ...] = ()  # those of deleted archives too
    exports: tuple[ExportLag, ...] = ()


def pause(workspace: Workspace, name: str) -> Archive:
    """Stop its sensors. Raises OperatorError when there is none."""
    return workspace.catalog.archives.pause(name)


def resume(workspace: Workspace, name: str) -> Archive:
    """Start its sensors. Raises OperatorError when there is none."""
    return workspace.catalog.archives.resume(name)


def holdings(workspace: Workspace, name: str) -> Holdings:
    """Raises OperatorError when there is no such archive."""
    catalog = workspace.catalog
    archive = catalog.archives.get(name)
    unswept = catalog.removals.unswept(archive)
    until = unswept.newest and unswept.newest + timedelta(seconds=workspace.settings.delete_grace)
    sums, erased = catalog.gaps.sums(archive), catalog.gaps.erased_in_chunks(archive)
    removed: dict[Reason, int] = {reason: sums.get(reason, 0) for reason in REMOVED}
    removed["erased"] += erased
    coverages, counts, open_hour = catalog.coverage.all(archive), catalog.hours.counts(archive), hour_of(time.time_ns())
    return Holdings(
        archive,
        coverages,
        catalog.gaps.select(archive),
        lost_by_reason(sums, coverages),
        {reason: count for reason, count in removed.items() if count},
        counts.hours,
        counts.sealed,
        counts.empty,
        not catalog.hours.select(archive, first=open_hour, last=open_hour),
        unswept,
        until,
        tuple(catalog.copies.lags(archive).values()),
        catalog.holds.all(archive),
    )


def messages(workspace: Workspace, archive: Archive) -> int:
    """The messages of an archive."""
    return sum(coverage.messages for coverage in workspace.catalog.coverage.all(archive))


def hour(workspace: Workspace, archive: Archive, key: str, total: int | None = None) -> HourReport:
    """One hour by its key; it may have nothing. `total`: the messages of the archive, asked for by default."""
    catalog = workspace.catalog
    revision = max((h.revision for h in catalog.hours.select(archive, first=key, last=key)), default=0)
    gaps = tuple(gap for part in catalog.hours.parts(archive, key) for gap in part.gaps)
    chunks = catalog.chunks.of_hour(archive, key)
    content = contents(workspace, archive, [key])[key]
    total = messages(workspace, archive) if total is None else total
    return HourReport(archive, key, revision, chunks, gaps, content, total, catalog.hours.marks(archive, key))


def contents(workspace: Workspace, archive: Archive, keys: Collection[str]) -> dict[str, str]:
    """Returns for each hour the version of what it holds: 16 hex digits that change with its messages and its losses,
    and with nothing else. Chunks that are cut, stored or written differently do not change it; nor does what was
    deleted or not selected."""
    found: dict[str, list[Any]] = {key: [] for key in keys}
    for row in workspace.catalog.hours.contents(archive, keys):
        found[row.hour].append([*astuple(row)[1:-1], json.loads(row.lost)])
    texts = {key: json.dumps(rows, sort_keys=True) for key, rows in found.items()}
    return {key: hashlib.sha256(text.encode()).hexdigest()[:16] for key, text in texts.items()}


def seals(workspace: Workspace, archive: Archive, hours: Sequence[str] | None = None) -> tuple[Seal, ...]:
    """The seals that hold, ascending; with `hours` those of them."""
    return tuple(s for s in workspace.catalog.seals.select(archive, hours=hours or None) if s.valid)


def chunks(workspace: Workspace, name: str, hours: Sequence[str] | None = None) -> tuple[Chunk, ...]:
    """The chunks of an archive, or of some of its hours, in the order of the stream. Raises OperatorError for an hour
    that has none."""
    archive = workspace.catalog.archives.get(name)
    for key in hours or ():
        hour_start(key)
    chosen = workspace.catalog.chunks.select(archive, hours=hours or None)
    if unknown := sorted({*(hours or ())} - {c.meta.hour for c in chosen}):
        raise OperatorError(
            f"Archive {archive.name} has nothing of the hour {', '.join(unknown[:3])}",
            Next.CAPTURE_OR_LIST_CHUNKS(archive=archive.name),
        )
    return chosen


def chunk(workspace: Workspace, name: str, id_or_key: str) -> ChunkReport:
    """One chunk by its id or object key. Raises OperatorError when the archive has none."""
    catalog = workspace.catalog
    archive = catalog.archives.get(name)
    by_id = id_or_key.isdecimal()
    stored = catalog.chunks.find(int(id_or_key)) if by_id else catalog.chunks.by_key(archive.spec.bucket, id_or_key)
    if stored is None or stored.meta.archive != archive.name:
        raise Unknown(f"Archive {archive.name} has no chunk {id_or_key}", Next.SEE_CHUNKS(archive=archive.name))
    return ChunkReport(stored, catalog.replay_chunks.of_chunk(stored.id))


def stream_lag(workspace: Workspace, archive: Archive) -> StreamLag | None:
    """The stream that is captured now, as it was last observed; None before that."""
    coverage = workspace.catalog.coverage.all(archive)[-1]
    state = workspace.catalog.coverage.last_state(coverage.incarnation)
    return None if state is None else StreamLag(state, max(0, state.last_seq - coverage.frontier))


def outputs(workspace: Workspace) -> Outputs:
    """The outputs of all archives. Raises CatalogError."""
    return Outputs(tuple(workspace.catalog.tables.all()), workspace.catalog.exports.lags())
