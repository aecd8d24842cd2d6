"""Rows that several statements answer with: a field for each column, and the value of the model that they make."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, make_dataclass
from datetime import datetime
from functools import cache, lru_cache
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import UUID

from nats3_dagster.model import (
    LOST_IN_CHUNKS,
    Archive,
    ArchiveSpec,
    ArchiveTotals,
    Chunk,
    ChunkMeta,
    Coverage,
    FormerFilter,
    Incarnation,
    Reason,
    ReplayPreset,
    SeqRange,
    StreamState,
)

T = TypeVar("T")


class LostColumns(Protocol):
    """Absent sequences of chunks that were lost: a column for each reason."""

    expired: int
    superseded: int
    ttl: int
    superseded_or_ttl: int
    damaged: int
    undelivered: int


def lost_by_reason(rows: Iterable[LostColumns]) -> dict[Reason, int]:
    """The sums of the rows by reason; a reason without any is left out."""
    lost: dict[Reason, int] = dict.fromkeys(LOST_IN_CHUNKS, 0)
    for row in rows:
        for reason in lost:
            lost[reason] += getattr(row, reason)
    return {reason: count for reason, count in lost.items() if count}


def record(kind: type[T], row: object, /, **others: object) -> T:
    """The record of a row: each field is the column of its name, a list as a tuple. `others`: the fields that are made
    in another way. A field that the catalog does not keep has its default."""
    names, columns = _shared(kind, type(row), tuple(others))
    values: list[Any] = [tuple(value) if isinstance(value, list) else value for value in columns(row)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return kind(**dict(zip(names, values, strict=True)), **others)


@cache
def _shared(
    kind: type[Any], row: type[Any], others: tuple[str, ...]
) -> tuple[tuple[str, ...], Callable[[object], tuple[Any, ...]]]:
    """The fields of a record that a row has, but for `others`, and their values of a row: asked for once, because a
    replay of all makes a record of a million rows."""
    names = tuple(one.name for one in fields(kind) if hasattr(row, one.name) and one.name not in others)
    # With one name it would give the value alone.
    return names, attrgetter(*names) if len(names) > 1 else lambda of: tuple(getattr(of, name) for name in names)


if TYPE_CHECKING:
    _SpecColumns = object
else:
    # A column for each field of the spec.
    _SpecColumns = make_dataclass("_SpecColumns", [one.name for one in fields(ArchiveSpec)], kw_only=True, slots=True)


@dataclass(slots=True, kw_only=True)
class ArchiveRow(_SpecColumns):
    """A row of nats3.archive."""

    id: int
    job_id: UUID
    # None: the archive's name.
    job_name: str | None
    former_filters: list[dict[str, Any]]
    presets: list[dict[str, Any]]
    paused: bool
    # Goes up by one with each change of the archive's chunks and gaps.
    revision: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None

    def archive(self) -> Archive:
        spec = record(ArchiveSpec, self)
        former = tuple(
            FormerFilter(one["created_ns"], one["last_seq"], tuple(one["subjects"])) for one in self.former_filters
        )
        presets = tuple(map(ReplayPreset.of, self.presets))
        return record(
            Archive, self, spec=spec, job_name=self.job_name or spec.name, former_filters=former, presets=presets
        )


@dataclass(slots=True, kw_only=True)
class ArchiveTotalsRow(ArchiveRow):
    """A row of nats3.archive with the sums over its coverage: units as in ArchiveTotals."""

    incarnations: int
    chunks: int
    messages: int
    payload_bytes: int
    stored_bytes: int
    first_ns: int | None
    last_ns: int | None
    begins_ns: int

    def totals(self) -> ArchiveTotals:
        return record(ArchiveTotals, self, archive=self.archive())


@dataclass(slots=True, kw_only=True)
class StreamRow:
    """A row of nats3.incarnation: units as in StreamState."""

    id: int
    stream: str
    created_ns: int
    config: dict[str, Any]
    first_seq: int
    last_seq: int
    first_ns: int
    last_ns: int
    messages: int
    bytes: int
    observed_at: datetime
    # The settings that remove messages and that were ever seen, as in its configuration.
    removing: dict[str, Any]

    def state(self) -> StreamState:
        return record(StreamState, self, incarnation=Incarnation(self.stream, self.created_ns))


@dataclass(slots=True, kw_only=True)
class CoverageRow:
    """A row of nats3.coverage_view: units as in Coverage."""

    archive_id: int
    incarnation_id: int
    stream: str
    created_ns: int
    start_seq: int
    frontier: int
    last_seq: int
    chunks: int
    messages: int
    absent: int
    payload_bytes: int
    stored_bytes: int
    first_ns: int | None
    last_ns: int | None
    # Of `absent`, what was lost, by reason.
    expired: int
    superseded: int
    ttl: int
    superseded_or_ttl: int
    damaged: int
    undelivered: int
    # When the server made the stream again from a backup that continues the incarnation.
    restored_ns: int | None
    unknown_after: int | None

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.stream, self.created_ns, self.restored_ns or 0)

    def coverage(self) -> Coverage:
        return record(Coverage, self, start=self.start_seq, last=self.last_seq, lost=lost_by_reason([self]))


@lru_cache(64)
def _incarnation(stream: str, created_ns: int) -> Incarnation:
    """The same value for all chunks of it."""
    return Incarnation(stream, created_ns)


@dataclass(slots=True, kw_only=True)
class ChunkRow:
    """A row of nats3.chunk_view: units as in ChunkMeta."""

    id: int
    archive_id: int
    # The archive's name.
    archive: str
    incarnation_id: int
    stream: str
    created_ns: int
    hour: str
    seqs: SeqRange
    messages: int
    first_ns: int
    last_ns: int
    payload_bytes: int
    largest_bytes: int
    stored_bytes: int
    sha256: str
    bucket: str
    key: str
    minutes: list[int] | None
    dagster_run_id: str | None
    committed_at: datetime
    # None while the chunk is live.
    deleted_at: datetime | None
    absent_reason: Reason | None
    # The archive's.
    copies: list[str]

    def chunk(self, deleted: tuple[SeqRange, ...] | None = None, subjects: Mapping[str, int] | None = None) -> Chunk:
        meta = record(
            ChunkMeta,
            self,
            # One of each for all chunks that have it: a replay of all holds a million chunks.
            archive=intern(self.archive),
            hour=intern(self.hour),
            bucket=intern(self.bucket),
            incarnation=_incarnation(self.stream, self.created_ns),
            covers=self.seqs,
            deleted=deleted,
            subjects=subjects,
        )
        return record(Chunk, self, meta=meta)


@dataclass(slots=True, kw_only=True)
class SweepRow:
    """An object that nothing needs any more."""

    bucket: str
    key: str
    # As stored.
    bytes: int
    dead_at: datetime


@dataclass(slots=True, kw_only=True)
class ObjectRow:
    """A chunk or a seal by the object that it has in the store."""

    id: int
    bucket: str
    key: str


@dataclass(slots=True, kw_only=True)
class DeletedRow:
    """The absent sequences of a chunk."""

    id: int
    # An int8multirange as text; None where they are not known.
    deleted: str | None


@dataclass(slots=True, kw_only=True)
class StoredSizeRow:
    """An object of a chunk."""

    key: str
    stored_bytes: int


@dataclass(slots=True, kw_only=True)
class SubjectsRow:
    """The messages of a chunk by subject: two lists of the same length."""

    chunk_id: int
    subjects: list[str]
    messages: list[int]
