"""Rows to values: one function for each kind of row, so that a column has one meaning."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nats3_dagster.model import (
    Archive,
    ArchiveSpec,
    Chunk,
    ChunkMeta,
    Coverage,
    Incarnation,
    Pace,
    Replay,
    ReplayChunk,
    ReplaySpec,
    ReplayTarget,
    Seal,
    Selection,
    SeqRange,
)  # fmt: skip


def coverage_of(row: Any) -> Coverage:
    return Coverage(
        Incarnation(row.stream, row.created_ns), row.start_seq, row.frontier, row.last_seq, row.chunks,
        row.messages, row.absent, row.payload_bytes, row.stored_bytes, row.first_ns, row.last_ns,
    )  # fmt: skip


def seal_of(row: Any) -> Seal:
    return Seal(
        row.hour, row.number, row.revision, row.chunks, row.messages, row.gaps, row.bucket, row.key, row.sha256,
        row.stored_bytes, row.dagster_run_id, row.sealed_at, row.valid,
    )  # fmt: skip


def replay_of(row: Any) -> Replay:
    targets = (ReplayTarget(Incarnation(t["stream"], t["created_ns"]), t["since_seq"]) for t in row.targets)
    return Replay(
        row.id, replay_spec(row.spec), row.state, row.attempt, row.error, tuple(targets), row.chunks,
        row.chunks_done, row.selected, row.published, row.found, row.duplicates, row.created_at, row.started_at,
        row.finished_at, tuple(row.run_ids),
    )  # fmt: skip


def replay_chunk_of(row: Any) -> ReplayChunk:
    return ReplayChunk(
        row.replay_id, row.chunk_id, row.position, row.planned, row.selected, row.published, row.found,
        row.duplicates, row.state, row.attempt, row.dagster_run_id, row.finished_at,
    )  # fmt: skip


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
    known: dict[str, Any] = dict(fields)
    known["selection"] = _selection(fields.get("selection", {}))
    known["pace"] = Pace(**fields.get("pace", {}))
    return ReplaySpec(**known)


def _selection(fields: Mapping[str, Any]) -> Selection:
    known: dict[str, Any] = dict(fields)
    sequences = fields.get("sequences")
    known["hours"] = tuple(fields.get("hours", ()))
    known["sequences"] = SeqRange(*sequences) if sequences else None
    known["subjects"] = tuple(fields.get("subjects", ()))
    return Selection(**known)
