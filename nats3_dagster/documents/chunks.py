"""Chunks: every fact by itself, whole and unrounded."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field

from nats3_dagster.archive.status import ChunkReport
from nats3_dagster.documents.base import Document, ratio, stamp, stamp_of, time_of
from nats3_dagster.hours import format_time
from nats3_dagster.model import Chunk as Stored
from nats3_dagster.model import ChunkMeta, Reason, ReplayChunk
from nats3_dagster.subjects import readable


class ChunkFacts(Document):
    """The facts of a chunk that its object has."""

    hour: str = Field(examples=["2026-11-21-07:00"])
    first_seq: int
    last_seq: int
    messages: int
    absent: int = Field(description="Sequences in its range that it has no message of.")
    absent_reason: Reason | None
    payload_bytes: int
    stored_bytes: int
    ratio: float | None
    first_time: str | None
    last_time: str | None
    stream: str
    stream_created: str
    bucket: str
    key: str
    sha256: str

    @classmethod
    def of_meta(cls, meta: ChunkMeta) -> Self:
        return cls(**_facts(meta))


class Chunk(ChunkFacts):
    """One immutable Parquet object: the messages of one range of sequences within one hour."""

    id: int
    archive: str
    committed_at: str
    dagster_run: str | None

    @classmethod
    def of(cls, chunk: Stored) -> "Chunk":
        return Chunk(**_committed(chunk))


class ChunkPage(Document):
    """Chunks in the order of the stream."""

    chunks: list[Chunk]
    next: str | None = Field(description="The cursor of the next page; null after the last one.")


class FetchedChunk(Document):
    """A chunk whose object was fetched into a file."""

    archive: str
    id: int
    file: str
    messages: int
    stored_bytes: int = Field(description="The size of the file.")
    sha256: str

    @classmethod
    def of(cls, chunk: Stored, file: str) -> Self:
        return cls.by_name(chunk.meta, id=chunk.id, file=file)


class ChunkReplay(Document):
    """The result of one replay for a chunk."""

    replay: str
    state: str
    selected: int | None
    published: int | None
    found: int | None
    duplicates: int | None
    expired: int | None
    attempt: int | None
    dagster_run: str | None
    dagster_run_url: str | None
    finished_at: str | None

    @classmethod
    def of(cls, replayed: ReplayChunk, dagster_url: str | None) -> Self:
        return cls.by_name(
            replayed,
            replay=replayed.replay_id,
            dagster_run=replayed.dagster_run_id,
            dagster_run_url=_run_url(dagster_url, replayed.dagster_run_id),
            finished_at=stamp_of(replayed.finished_at),
        )


class ChunkDetail(Chunk):
    """A chunk with its subjects, its absent sequences and its replays; with the addresses of runs in the Dagster UI
    where that is known."""

    dagster_run_url: str | None
    dagster_partition_url: str | None
    subjects: dict[str, int] | None = Field(description="Messages by subject; null where there are too many.")
    absent_ranges: list[list[int]] | None
    replays: list[ChunkReplay]

    @classmethod
    def of_report(cls, report: ChunkReport, dagster_url: str | None) -> Self:
        chunk = report.chunk
        subjects, absent = _readable(chunk.meta.subjects), chunk.meta.deleted
        partition = f"{dagster_url}/assets/{chunk.meta.archive}/chunks?view=partitions&partition={chunk.meta.hour}"
        return cls(
            **_committed(chunk),
            dagster_run_url=_run_url(dagster_url, chunk.dagster_run_id),
            dagster_partition_url=partition if dagster_url else None,
            subjects=None if subjects is None else dict(sorted(subjects.items(), key=lambda s: (-s[1], s[0]))),
            absent_ranges=None if absent is None else [list(r) for r in absent],
            replays=[ChunkReplay.of(replayed, dagster_url) for replayed in report.replays],
        )


def _committed(chunk: Stored) -> dict[str, Any]:
    return {
        "id": chunk.id,
        "archive": chunk.meta.archive,
        **_facts(chunk.meta),
        "committed_at": stamp(chunk.committed_at),
        "dagster_run": chunk.dagster_run_id,
    }


def _facts(meta: ChunkMeta) -> dict[str, Any]:
    return {
        "hour": meta.hour,
        "first_seq": meta.covers.first,
        "last_seq": meta.covers.last,
        "messages": meta.messages,
        "absent": meta.absent,
        "absent_reason": meta.absent_reason,
        "payload_bytes": meta.payload_bytes,
        "stored_bytes": meta.stored_bytes,
        "ratio": ratio(meta.payload_bytes, meta.stored_bytes),
        "first_time": time_of(meta.first_ns),
        "last_time": time_of(meta.last_ns),
        "stream": meta.incarnation.stream,
        "stream_created": format_time(meta.incarnation.created_ns),
        "bucket": meta.bucket,
        "key": meta.key,
        "sha256": meta.sha256,
    }


def _readable(counts: Mapping[str, int] | None) -> Mapping[str, int] | None:
    """The counts by readable text; those of two subjects that have the same text together."""
    if counts is None:
        return None
    texts = Counter[str]()
    for subject, count in counts.items():
        texts[readable(subject)] += count
    return texts


def _run_url(dagster_url: str | None, run_id: str | None) -> str | None:
    return f"{dagster_url}/runs/{run_id}" if dagster_url and run_id else None
