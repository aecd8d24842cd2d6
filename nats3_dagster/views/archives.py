"""Archives as JSON documents.

Keys are snake case, numbers are plain, times are RFC 3339 in UTC; they are an interface.
"""

from collections.abc import Mapping
from typing import Any

from nats3_dagster.archive.captures.capture import CaptureResult
from nats3_dagster.archive.change import Difference
from nats3_dagster.archive.condition import Condition
from nats3_dagster.archive.loss import Loss, time_to_loss
from nats3_dagster.archive.source import unmatched_filters
from nats3_dagster.archive.status import Holdings
from nats3_dagster.model import Archive, ArchiveTotals, Gap
from nats3_dagster.steps import Next
from nats3_dagster.views.chunks import chunk_meta
from nats3_dagster.views.values import ratio, stamp_of, time_of

# A face's words for the next steps of errors.
Words = Mapping[Next, str]


def archive(record: Archive) -> dict[str, Any]:
    spec = record.spec
    return {
        "name": spec.name, "stream": spec.stream, "subjects": list(spec.subjects), "bucket": spec.bucket,
        "prefix": spec.prefix, "mode": spec.mode, "durable": spec.durable, "max_messages": spec.max_messages,
        "max_bytes": spec.max_bytes, "max_age_s": spec.max_age_s, "zstd_level": spec.zstd_level,
        "paused": record.paused, "job_id": str(record.job_id), "job_name": record.job_name,
        "created_at": stamp_of(record.created_at), "updated_at": stamp_of(record.updated_at),
    }  # fmt: skip


def difference(one: Difference) -> dict[str, Any]:
    """A field that changes, or would: `refused` says why it may not."""
    old, new = (list(value) if isinstance(value, tuple) else value for value in (one.old, one.new))
    return {"field": one.field, "old": old, "new": new, "refused": one.refusal.what if one.refusal else None}


def _source(condition: Condition, words: Words) -> dict[str, Any]:
    """What the stream says now. `lag`: sequences that it still has and the archive has not; null where it is not
    known."""
    error, waiting = condition.error, condition.waiting
    return {
        "lag": waiting.behind if waiting else None,
        "source": {
            "state": condition.source, "error": error.what if error else None,
            "hint": (error.hint_in(words) or None) if error else None,
        },
    }  # fmt: skip


def totals(sums: ArchiveTotals, condition: Condition, words: Words) -> dict[str, Any]:
    return archive(sums.archive) | _source(condition, words) | {
        "chunks": sums.chunks, "messages": sums.messages, "payload_bytes": sums.payload_bytes,
        "stored_bytes": sums.stored_bytes, "ratio": ratio(sums.payload_bytes, sums.stored_bytes),
        "first_time": time_of(sums.first_ns), "last_time": time_of(sums.last_ns),
    }  # fmt: skip


def holdings(report: Holdings, condition: Condition, replayed: int, words: Words) -> dict[str, Any]:
    """An archive: what it has, what its stream still has, what was lost; `time_to_loss` says how near the stream is to
    deleting messages that are not captured: the share of the way by its nearest limit, and what is deleted already.
    `replayed`: how many hours were replayed."""
    coverages, waiting = report.coverages, condition.waiting
    payload, stored = sum(c.payload_bytes for c in coverages), sum(c.stored_bytes for c in coverages)
    loss = time_to_loss(waiting, paused=report.archive.paused) if waiting else None
    return archive(report.archive) | _source(condition, words) | {
        "oldest_uncaptured_s": round(waiting.behind_s, 3) if waiting and waiting.behind else None,
        "time_to_loss": time_to_loss_of(loss) if loss else None,
        "losses": report.losses,
        "unmatched_subjects": list(unmatched_filters(report.archive.spec, waiting.state)) if waiting else None,
        "chunks": sum(c.chunks for c in coverages), "messages": sum(c.messages for c in coverages),
        "payload_bytes": payload, "stored_bytes": stored, "ratio": ratio(payload, stored),
        "coverage": [
            {
                "stream_created": time_of(c.incarnation.created_ns),
                "stream_restored": time_of(c.incarnation.restored_ns or None), "first_seq": c.start,
                "complete_to_seq": c.frontier, "last_seq": c.last,
                "unknown_after_seq": c.unknown_after, "messages": c.messages, "chunks": c.chunks,
                "first_time": time_of(c.first_ns), "last_time": time_of(c.last_ns),
            }
            for c in coverages
        ],
        "gaps": [gap(g) for g in report.gaps], "hours": report.hours,
        "hours_covered": report.covered(nothing_waits=bool(waiting and waiting.is_empty)),
        "hours_sealed": report.sealed, "hours_replayed": replayed,
        "unswept": {
            "objects": report.unswept.objects, "bytes": report.unswept.bytes, "until": stamp_of(report.kept_until),
        },
    }  # fmt: skip


def time_to_loss_of(loss: Loss) -> dict[str, Any]:
    return {
        "level": loss.level, "used": round(loss.used, 4), "limit": loss.limit or None, "gone": loss.gone,
        "early": loss.early or None, "text": loss.text,
    }  # fmt: skip


def gap(record: Gap) -> dict[str, Any]:
    return {
        "stream_created": time_of(record.incarnation.created_ns), "reason": record.reason, "sequences": record.size,
        "ranges": [list(r) for r in record.ranges],
    }  # fmt: skip


def captured(result: CaptureResult) -> dict[str, Any]:
    return {
        "archive": result.archive, "hour": result.hour, "window": list(result.window) if result.window else None,
        "already_captured": result.found, "messages": result.messages, "payload_bytes": result.payload_bytes,
        "stored_bytes": result.stored_bytes, "ratio": ratio(result.payload_bytes, result.stored_bytes),
        "lost": result.lost, "seconds": round(result.seconds, 3),
        "messages_per_s": round(result.messages / result.seconds) if result.seconds else None,
        "chunks": [chunk_meta(c) for c in result.chunks], "gaps": [gap(g) for g in result.gaps],
    }  # fmt: skip
