"""Rows that several statements answer with: a field for each column, and the value of the model that they make."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from nats3_dagster.model import (
    LOST_IN_CHUNKS,
    Archive,
    ArchiveSpec,
    ArchiveTotals,
    ArchiveVersion,
    Chunk,
    ChunkMeta,
    Coverage,
    FormerFilter,
    Incarnation,
    Mode,
    Reason,
    SeqRange,
    StreamState,
)  # fmt: skip


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


@dataclass(slots=True, kw_only=True)
class ArchiveRow:
    """A row of nats3.archive."""

    id: int
    name: str
    job_id: UUID
    # None: the archive's name.
    job_name: str | None
    stream: str
    bucket: str
    prefix: str
    subjects: list[str]
    former_filters: list[dict[str, Any]]
    mode: Mode
    durable: str | None
    max_messages: int
    max_bytes: int
    max_age_s: int
    zstd_level: int
    paused: bool
    # Goes up by one with each change of the archive's chunks and gaps.
    revision: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None

    def archive(self) -> Archive:
        spec = ArchiveSpec(
            name=self.name, stream=self.stream, bucket=self.bucket, prefix=self.prefix, subjects=tuple(self.subjects),
            mode=self.mode, durable=self.durable, max_messages=self.max_messages, max_bytes=self.max_bytes,
            max_age_s=self.max_age_s, zstd_level=self.zstd_level,
        )  # fmt: skip
        former = tuple(
            FormerFilter(one["created_ns"], one["last_seq"], tuple(one["subjects"])) for one in self.former_filters
        )
        return Archive(
            id=self.id, spec=spec, paused=self.paused, created_at=self.created_at, job_id=self.job_id,
            job_name=self.job_name or self.name, updated_at=self.updated_at, former_filters=former,
        )  # fmt: skip


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
        return ArchiveTotals(
            archive=self.archive(), incarnations=self.incarnations, chunks=self.chunks, messages=self.messages,
            payload_bytes=self.payload_bytes, stored_bytes=self.stored_bytes, first_ns=self.first_ns,
            last_ns=self.last_ns, begins_ns=self.begins_ns,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ArchiveVersionRow(ArchiveRow):
    """A row of nats3.archive with how far its seals, replays and exports have changed: units as in ArchiveVersion."""

    seals: int
    replays: int
    exports: int

    def version(self) -> ArchiveVersion:
        return ArchiveVersion(self.archive(), self.revision, self.seals, self.replays, self.exports)


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
        return StreamState(
            incarnation=Incarnation(self.stream, self.created_ns), first_seq=self.first_seq, last_seq=self.last_seq,
            first_ns=self.first_ns, last_ns=self.last_ns, messages=self.messages, bytes=self.bytes, config=self.config,
        )  # fmt: skip


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
        return Coverage(
            incarnation=self.incarnation, start=self.start_seq, frontier=self.frontier, last=self.last_seq,
            chunks=self.chunks, messages=self.messages, absent=self.absent, payload_bytes=self.payload_bytes,
            stored_bytes=self.stored_bytes, first_ns=self.first_ns, last_ns=self.last_ns, lost=lost_by_reason([self]),
            unknown_after=self.unknown_after,
        )  # fmt: skip


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

    def chunk(self, deleted: tuple[SeqRange, ...] | None = None, subjects: Mapping[str, int] | None = None) -> Chunk:
        meta = ChunkMeta(
            archive=self.archive, incarnation=Incarnation(self.stream, self.created_ns), hour=self.hour,
            covers=self.seqs, messages=self.messages, first_ns=self.first_ns, last_ns=self.last_ns,
            payload_bytes=self.payload_bytes, largest_bytes=self.largest_bytes, stored_bytes=self.stored_bytes,
            sha256=self.sha256, key=self.key, bucket=self.bucket, deleted=deleted, subjects=subjects,
            minutes=None if self.minutes is None else tuple(self.minutes), absent_reason=self.absent_reason,
        )  # fmt: skip
        return Chunk(id=self.id, meta=meta, committed_at=self.committed_at, dagster_run_id=self.dagster_run_id)


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
class SubjectsRow:
    """The messages of a chunk by subject: two lists of the same length."""

    chunk_id: int
    subjects: list[str]
    messages: list[int]
