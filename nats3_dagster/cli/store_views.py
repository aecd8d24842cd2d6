"""What `nats3 store` shows of an archive: the JSON, and the table's columns.

JSON keys are snake case, numbers are plain, times are RFC 3339 in UTC; they are an interface.
"""

from typing import Any

from nats3_dagster.archive.capture import CaptureResult
from nats3_dagster.archive.status import Holdings
from nats3_dagster.cli.output import Columns, Size, ratio, stamp_of, text_of, time_of, when
from nats3_dagster.model import Archive, ArchiveTotals, ChunkMeta, Gap


def archive(record: Archive) -> dict[str, Any]:
    spec = record.spec
    return {
        "name": spec.name, "stream": spec.stream, "subjects": list(spec.subjects), "bucket": spec.bucket,
        "prefix": spec.prefix, "mode": spec.mode, "durable": spec.durable, "max_messages": spec.max_messages,
        "max_bytes": spec.max_bytes, "max_age_s": spec.max_age_s, "zstd_level": spec.zstd_level,
        "paused": record.paused,
        "created_at": stamp_of(record.created_at),
    }  # fmt: skip


def totals(sums: ArchiveTotals) -> dict[str, Any]:
    return archive(sums.archive) | {
        "chunks": sums.chunks, "messages": sums.messages, "payload_bytes": sums.payload_bytes,
        "stored_bytes": sums.stored_bytes, "ratio": ratio(sums.payload_bytes, sums.stored_bytes),
        "first_time": time_of(sums.first_ns), "last_time": time_of(sums.last_ns),
    }  # fmt: skip


LIST: Columns = {
    "NAME": lambda a: a["name"],
    "STREAM": lambda a: a["stream"],
    "SUBJECTS": lambda a: a["subjects"] or ">",
    "BUCKET": lambda a: "/".join(part for part in (a["bucket"], a["prefix"]) if part),
    "MESSAGES": lambda a: a["messages"],
    "SIZE": lambda a: Size(a["payload_bytes"]),
    "STORED": lambda a: Size(a["stored_bytes"]),
    "CHUNKS": lambda a: a["chunks"],
    "LAST MESSAGE": lambda a: when(a["last_time"]),
    "STATE": lambda a: "paused" if a["paused"] else "active",
}


def holdings(report: Holdings) -> dict[str, Any]:
    """An archive, what it has, and lacks with its reasons."""
    coverages = report.coverages
    payload, stored = sum(c.payload_bytes for c in coverages), sum(c.stored_bytes for c in coverages)
    return archive(report.archive) | {
        "chunks": sum(c.chunks for c in coverages), "messages": sum(c.messages for c in coverages),
        "payload_bytes": payload, "stored_bytes": stored, "ratio": ratio(payload, stored),
        "coverage": [
            {
                "stream_created": time_of(c.incarnation.created_ns), "first_seq": c.start,
                "complete_to_seq": c.frontier, "last_seq": c.last, "messages": c.messages, "chunks": c.chunks,
                "first_time": time_of(c.first_ns), "last_time": time_of(c.last_ns),
            }
            for c in coverages
        ],
        "gaps": [gap(g) for g in report.gaps], "hours": report.hours,
    }  # fmt: skip


def gap(record: Gap) -> dict[str, Any]:
    return {
        "stream_created": time_of(record.incarnation.created_ns), "reason": record.reason, "sequences": record.size,
        "ranges": [list(r) for r in record.ranges],
    }  # fmt: skip


def archive_lines(view: dict[str, Any]) -> dict[str, object]:
    """An archive, with its holdings where they are in it."""
    lines: dict[str, object] = {
        "archive": view["name"], "stream": view["stream"], "subjects": view["subjects"] or ">",
        "bucket": "/".join(part for part in (view["bucket"], view["prefix"]) if part),
        "capture due at": f"{view['max_messages']:,} messages, {view['max_bytes']:,} bytes or {view['max_age_s']:,} s",
        "zstd level": view["zstd_level"], "state": "paused" if view["paused"] else "active",
        "created": when(view["created_at"]),
    }  # fmt: skip
    if "coverage" not in view:
        return lines
    lines |= {
        "messages": view["messages"], "size": Size(view["payload_bytes"]), "stored": Size(view["stored_bytes"]),
        "ratio": view["ratio"], "chunks": view["chunks"], "hours": view["hours"],
    }  # fmt: skip
    for c in view["coverage"]:
        span = (
            f"{text_of(when(c['first_time']))} to {text_of(when(c['last_time']))}"
            if c["first_time"]
            else "no message yet"
        )
        holes = "" if c["complete_to_seq"] >= c["last_seq"] else f", holes up to {c['last_seq']:,}"
        lines[f"stream of {text_of(when(c['stream_created']))}"] = (
            f"complete from sequence {c['first_seq']:,} to {c['complete_to_seq']:,}{holes}; {span}"
        )
    for number, g in enumerate(view["gaps"]):
        some = ", ".join(f"{a}-{b}" for a, b in g["ranges"][:5]) + (" ..." if len(g["ranges"]) > 5 else "")
        lines[f"gap {number + 1}"] = f"{g['sequences']:,} {g['reason']}: {some}"
    return lines


def chunk_meta(meta: ChunkMeta) -> dict[str, Any]:
    return {
        "hour": meta.hour, "first_seq": meta.covers.first, "last_seq": meta.covers.last, "messages": meta.messages,
        "absent": meta.absent, "payload_bytes": meta.payload_bytes, "stored_bytes": meta.stored_bytes,
        "ratio": ratio(meta.payload_bytes, meta.stored_bytes), "first_time": time_of(meta.first_ns),
        "last_time": time_of(meta.last_ns), "stream": meta.incarnation.stream,
        "stream_created": time_of(meta.incarnation.created_ns), "bucket": meta.bucket, "key": meta.key,
        "sha256": meta.sha256,
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


RUN: Columns = {
    "HOUR": lambda r: r["hour"],
    "MESSAGES": lambda r: r["messages"],
    "CHUNKS": lambda r: len(r["chunks"]),
    "SIZE": lambda r: Size(r["payload_bytes"]),
    "STORED": lambda r: Size(r["stored_bytes"]),
    "RATIO": lambda r: r["ratio"],
    "MSG/S": lambda r: r["messages_per_s"],
    "SECONDS": lambda r: r["seconds"],
    "THERE BEFORE": lambda r: r["already_captured"],
    "GAPS": lambda r: ", ".join(f"{g['sequences']:,} {g['reason']}" for g in r["gaps"]) or "none",
}
