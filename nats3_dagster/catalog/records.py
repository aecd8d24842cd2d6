"""What the catalog answers beyond the values of model.py, and how a row becomes each of them.

The rule kept here: one place for each kind of row, so that a column has one meaning.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    Chunk,
    ChunkMeta,
    Incarnation,
    Pace,
    ReplaySpec,
    ReplayState,
    ReplayTarget,
    SeqRange,
)


@dataclass(frozen=True, slots=True)
class ArchiveTotals:
    """An archive with the sums over its live chunks. Times are None where it has none; `begins_ns` is never later than
    the first message that is captured or still in the stream."""

    archive: Archive
    incarnations: int
    chunks: int
    messages: int
    payload_bytes: int
    stored_bytes: int
    first_ns: int | None
    last_ns: int | None
    begins_ns: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What an archive has of one incarnation: everything from `start` to `frontier` is in a chunk or a gap, `last` is
    the highest sequence that is; `frontier` is start - 1 where nothing is. `absent` counts sequences that chunks cover
    and have no message of."""

    incarnation: Incarnation
    start: int
    frontier: int
    last: int
    chunks: int
    messages: int
    absent: int
    payload_bytes: int
    stored_bytes: int
    first_ns: int | None
    last_ns: int | None

    @classmethod
    def of(cls, row: Any) -> "Coverage":
        return cls(
            Incarnation(row.stream, row.created_ns), row.start_seq, row.frontier, row.last_seq, row.chunks,
            row.messages, row.absent, row.payload_bytes, row.stored_bytes, row.first_ns, row.last_ns,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class HourSummary:
    """The live chunks of one hour. `spans`: the first and last sequence of each incarnation, oldest first. `revision`
    is the archive's when the hour last changed."""

    hour: str
    chunks: int
    messages: int
    absent: int
    payload_bytes: int
    stored_bytes: int
    first_ns: int
    last_ns: int
    spans: tuple[tuple[Incarnation, SeqRange], ...]
    revision: int


@dataclass(frozen=True, slots=True)
class HourWindow:
    """The sequences of one incarnation that an hour accounts for."""

    incarnation: Incarnation
    seqs: SeqRange


@dataclass(frozen=True, slots=True)
class Seal:
    """An hour that was sealed: the manifest at `key` lists `chunks` of them with `messages`, and `gaps` sequences that
    no chunk holds. `revision` and `chunks` are the hour's then; `valid` as long as they are the same. `sealed_at` is
    None until it is in the catalog."""

    hour: str
    number: int
    revision: int
    chunks: int
    messages: int
    gaps: int
    bucket: str
    key: str
    sha256: str
    stored_bytes: int
    dagster_run_id: str | None = None
    sealed_at: datetime | None = None
    valid: bool = True

    @classmethod
    def of(cls, row: Any) -> "Seal":
        return cls(
            row.hour, row.number, row.revision, row.chunks, row.messages, row.gaps, row.bucket, row.key, row.sha256,
            row.stored_bytes, row.dagster_run_id, row.sealed_at, row.valid,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay and the sums over the chunks that are done. `run_ids`: the Dagster runs that drove it, oldest first."""

    id: str
    spec: ReplaySpec
    state: ReplayState
    attempt: int
    error: str | None
    targets: tuple[ReplayTarget, ...]
    chunks: int
    chunks_done: int
    selected: int
    published: int
    found: int
    duplicates: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    run_ids: tuple[str, ...]

    @classmethod
    def of(cls, row: Any) -> "Replay":
        targets = (ReplayTarget(Incarnation(t["stream"], t["created_ns"]), t["since_seq"]) for t in row.targets)
        return cls(
            row.id, replay_spec(row.spec), row.state, row.attempt, row.error, tuple(targets), row.chunks,
            row.chunks_done, row.selected, row.published, row.found, row.duplicates, row.created_at, row.started_at,
            row.finished_at, tuple(row.run_ids),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReplayChunk:
    """What a replay did with one chunk, in which attempt and run; all counts 0 while it is pending."""

    replay_id: str
    chunk_id: int
    position: int
    planned: int
    selected: int
    published: int
    found: int
    duplicates: int
    state: Literal["pending", "done"]
    attempt: int | None
    dagster_run_id: str | None
    finished_at: datetime | None

    @classmethod
    def of(cls, row: Any) -> "ReplayChunk":
        return cls(
            row.replay_id, row.chunk_id, row.position, row.planned, row.selected, row.published, row.found,
            row.duplicates, row.state, row.attempt, row.dagster_run_id, row.finished_at,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeadObject:
    """An object of a chunk or seal that is no longer live, and that has not been removed from the store."""

    bucket: str
    key: str


def archive_of(row: Any) -> Archive:
    spec = ArchiveSpec(
        name=row.name, stream=row.stream, bucket=row.bucket, prefix=row.prefix, subjects=tuple(row.subjects),
        mode=row.mode, durable=row.durable, max_messages=row.max_messages, max_bytes=row.max_bytes,
        max_age_s=row.max_age_s, zstd_level=row.zstd_level,
    )  # fmt: skip
    return Archive(row.id, spec, row.paused, row.created_at)


def chunk_of(
    row: Any, archive: str, deleted: tuple[SeqRange, ...] | None = None, subjects: Mapping[str, int] | None = None
) -> Chunk:
    meta = ChunkMeta(
        archive=archive, incarnation=Incarnation(row.stream, row.created_ns), hour=row.hour,
        covers=SeqRange(row.first_seq, row.last_seq), messages=row.messages, first_ns=row.first_ns, last_ns=row.last_ns,
        payload_bytes=row.payload_bytes, largest_bytes=row.largest_bytes, stored_bytes=row.stored_bytes,
        sha256=row.sha256, key=row.key, bucket=row.bucket, deleted=deleted, subjects=subjects,
        minutes=None if row.minutes is None else tuple(row.minutes),
    )  # fmt: skip
    return Chunk(row.id, meta, row.committed_at, row.dagster_run_id)


def replay_spec_json(spec: ReplaySpec) -> str:
    return json.dumps(asdict(spec))


def replay_spec(fields: Mapping[str, Any]) -> ReplaySpec:
    """The spec that `replay_spec_json` wrote; a field that a later release added has its default."""
    seqs = fields.get("seqs")
    known: dict[str, Any] = dict(fields)
    known["hours"] = tuple(fields.get("hours", ()))
    known["seqs"] = SeqRange(*seqs) if seqs else None
    known["pace"] = Pace(**fields.get("pace", {}))
    return ReplaySpec(**known)
