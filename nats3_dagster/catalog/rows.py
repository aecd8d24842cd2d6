"""Rows of statements and views, a field for each column, and the values of the model that they make."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    ArchiveTotals,
    Chunk,
    ChunkMeta,
    Coverage,
    HourWindow,
    Incarnation,
    Mode,
    Pace,
    Reason,
    Replay,
    ReplaySpec,
    ReplayState,
    ReplayTarget,
    Selection,
    SeqRange,
    StreamState,
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ArchiveRow:
    """A row of nats3.archive."""

    id: int
    name: str
    stream: str
    bucket: str
    prefix: str
    subjects: list[str]
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
    deleted_at: datetime | None

    def archive(self) -> Archive:
        spec = ArchiveSpec(
            name=self.name, stream=self.stream, bucket=self.bucket, prefix=self.prefix, subjects=tuple(self.subjects),
            mode=self.mode, durable=self.durable, max_messages=self.max_messages, max_bytes=self.max_bytes,
            max_age_s=self.max_age_s, zstd_level=self.zstd_level,
        )  # fmt: skip
        return Archive(id=self.id, spec=spec, paused=self.paused, created_at=self.created_at)


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

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.stream, self.created_ns)

    def coverage(self) -> Coverage:
        return Coverage(
            incarnation=self.incarnation, start=self.start_seq, frontier=self.frontier, last=self.last_seq,
            chunks=self.chunks, messages=self.messages, absent=self.absent, payload_bytes=self.payload_bytes,
            stored_bytes=self.stored_bytes, first_ns=self.first_ns, last_ns=self.last_ns,
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

    def chunk(self, deleted: tuple[SeqRange, ...] | None = None, subjects: Mapping[str, int] | None = None) -> Chunk:
        meta = ChunkMeta(
            archive=self.archive, incarnation=Incarnation(self.stream, self.created_ns), hour=self.hour,
            covers=self.seqs, messages=self.messages, first_ns=self.first_ns, last_ns=self.last_ns,
            payload_bytes=self.payload_bytes, largest_bytes=self.largest_bytes, stored_bytes=self.stored_bytes,
            sha256=self.sha256, key=self.key, bucket=self.bucket, deleted=deleted, subjects=subjects,
            minutes=None if self.minutes is None else tuple(self.minutes),
        )  # fmt: skip
        return Chunk(id=self.id, meta=meta, committed_at=self.committed_at, dagster_run_id=self.dagster_run_id)


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


@dataclass(slots=True, kw_only=True)
class SubjectRow:
    """The messages of a subject."""

    subject: str
    messages: int


@dataclass(slots=True, kw_only=True)
class GapRow:
    """One range of a gap."""

    stream: str
    created_ns: int
    reason: Reason
    seqs: SeqRange


@dataclass(slots=True, kw_only=True)
class HourRow:
    """The live chunks of one hour and incarnation: a row of nats3.hour, units as in HourSummary."""

    archive_id: int
    incarnation_id: int
    stream: str
    created_ns: int
    hour: str
    chunks: int
    messages: int
    absent: int
    payload_bytes: int
    stored_bytes: int
    first_seq: int
    last_seq: int
    first_ns: int
    last_ns: int
    revision: int

    @property
    def span(self) -> tuple[Incarnation, SeqRange]:
        """From the first sequence of its chunks to the last."""
        return Incarnation(self.stream, self.created_ns), SeqRange(self.first_seq, self.last_seq)


@dataclass(slots=True, kw_only=True)
class WindowRow:
    """The sequences of one incarnation that an hour accounts for."""

    stream: str
    created_ns: int
    first_seq: int
    last_seq: int

    def window(self) -> HourWindow:
        return HourWindow(Incarnation(self.stream, self.created_ns), SeqRange(self.first_seq, self.last_seq))


@dataclass(slots=True, kw_only=True)
class UnsealedRow:
    """An hour as its next seal has to have it: units as in Seal."""

    revision: int
    chunks: int
    number: int


@dataclass(slots=True, kw_only=True)
class ReplayRow:
    """A replay with its targets and runs: units as in Replay."""

    id: str
    spec: dict[str, Any]
    state: ReplayState
    attempt: int
    error: str | None
    # Each with stream, created_ns and since_seq.
    targets: list[dict[str, Any]]
    chunks: int
    chunks_done: int
    selected: int
    published: int
    found: int
    duplicates: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    run_ids: list[str]

    def replay(self) -> Replay:
        targets = (ReplayTarget(Incarnation(t["stream"], t["created_ns"]), t["since_seq"]) for t in self.targets)
        return Replay(
            id=self.id, spec=replay_spec(self.spec), state=self.state, attempt=self.attempt, error=self.error,
            targets=tuple(targets), chunks=self.chunks, chunks_done=self.chunks_done, selected=self.selected,
            published=self.published, found=self.found, duplicates=self.duplicates, created_at=self.created_at,
            started_at=self.started_at, finished_at=self.finished_at, run_ids=tuple(self.run_ids),
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class AttemptRow:
    """How far a replay is: its state and the number of its newest attempt, 0 before the first."""

    state: ReplayState
    attempt: int


@dataclass(slots=True, kw_only=True)
class StateRow:
    """How many replays are in a state."""

    state: ReplayState
    replays: int


def replay_spec_json(spec: ReplaySpec) -> str:
    return json.dumps(asdict(spec))


def replay_spec(fields: Mapping[str, Any]) -> ReplaySpec:
    """The spec that `replay_spec_json` wrote; a field that a later release added has its default."""
    typed: dict[str, Any] = dict(fields)
    typed["selection"] = _selection(fields.get("selection", {}))
    typed["pace"] = Pace(**fields.get("pace", {}))
    return ReplaySpec(**typed)


def _selection(fields: Mapping[str, Any]) -> Selection:
    typed: dict[str, Any] = dict(fields)
    sequences = fields.get("sequences")
    typed["hours"] = tuple(fields.get("hours", ()))
    typed["sequences"] = SeqRange(*sequences) if sequences else None
    typed["subjects"] = tuple(fields.get("subjects", ()))
    return Selection(**typed)
