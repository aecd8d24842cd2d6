"""Chunks as JSON documents: every fact by itself, whole and unrounded. Keys are an interface."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nats3_dagster.archive.status import ChunkReport
from nats3_dagster.model import Chunk, ChunkMeta, ReplayChunk
from nats3_dagster.subjects import readable
from nats3_dagster.views.values import ratio, stamp_of, time_of


def chunk_meta(meta: ChunkMeta) -> dict[str, Any]:
    return {
        "hour": meta.hour, "first_seq": meta.covers.first, "last_seq": meta.covers.last, "messages": meta.messages,
        "absent": meta.absent, "absent_reason": meta.absent_reason,
        "payload_bytes": meta.payload_bytes, "stored_bytes": meta.stored_bytes,
        "ratio": ratio(meta.payload_bytes, meta.stored_bytes), "first_time": time_of(meta.first_ns),
        "last_time": time_of(meta.last_ns), "stream": meta.incarnation.stream,
        "stream_created": time_of(meta.incarnation.created_ns), "bucket": meta.bucket, "key": meta.key,
        "sha256": meta.sha256,
    }  # fmt: skip


def summary(chunk: Chunk) -> dict[str, Any]:
    committed = {"committed_at": stamp_of(chunk.committed_at), "dagster_run": chunk.dagster_run_id}
    return {"id": chunk.id, "archive": chunk.meta.archive} | chunk_meta(chunk.meta) | committed


def chunk(report: ChunkReport, dagster_url: str | None) -> dict[str, Any]:
    """All of a chunk: the run that captured it, the partition it is in, the replays that published it and their runs;
    with the address of each in the Dagster UI where that is known."""
    chunk = report.chunk
    subjects, absent = _readable(chunk.meta.subjects), chunk.meta.deleted
    partition = f"{dagster_url}/assets/{chunk.meta.archive}/chunks?view=partitions&partition={chunk.meta.hour}"
    return summary(chunk) | {
        "dagster_run_url": _run_url(dagster_url, chunk.dagster_run_id),
        "dagster_partition_url": partition if dagster_url else None,
        "subjects": None if subjects is None else dict(sorted(subjects.items(), key=lambda s: (-s[1], s[0]))),
        "absent_ranges": None if absent is None else [list(r) for r in absent],
        "replays": [_replay(r) | {"dagster_run_url": _run_url(dagster_url, r.dagster_run_id)} for r in report.replays],
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


def _replay(replayed: ReplayChunk) -> dict[str, Any]:
    return {
        "replay": replayed.replay_id, "state": replayed.state, "selected": replayed.selected,
        "published": replayed.published,
        "found": replayed.found, "duplicates": replayed.duplicates, "expired": replayed.expired,
        "attempt": replayed.attempt,
        "dagster_run": replayed.dagster_run_id,
        "finished_at": stamp_of(replayed.finished_at),
    }  # fmt: skip
