"""Streams as JSON documents. Keys are an interface: snake case, plain numbers, times in RFC 3339 in UTC."""

from typing import Any

from nats3_dagster.archive.streams import StreamReport
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import StreamState
from nats3_dagster.views.archives import Words
from nats3_dagster.views.values import time_of


def stream(report: StreamReport, words: Words) -> dict[str, Any]:
    """A stream: what it has, its limits (null: none), and whether it can be archived. `archives` is null where no
    catalog can be asked."""
    state, verdict, config = report.state, report.verdict, report.state.config
    return {
        "name": state.name, "subjects": list(state.subjects), "created_at": time_of(state.incarnation.created_ns),
        "messages": state.messages, "bytes": state.bytes, "first_seq": state.first_seq, "last_seq": state.last_seq,
        "first_time": time_of(state.first_ns or None), "last_time": time_of(state.last_ns or None),
        "consumers": state.consumers, "leader": state.leader or None, "storage": config.get("storage"),
        "replicas": config.get("num_replicas"), "retention": config.get("retention", "limits"),
        "discard": config.get("discard", "old"), **_limits(state),
        "mirror": (config.get("mirror") or {}).get("name"),
        "sources": [source["name"] for source in config.get("sources") or ()],
        "archives": None if report.archives is None else list(report.archives),
        "archive_mode": verdict.mode,
        "archive_notes": [
            *([verdict.error.text_in(words)] if verdict.error else []), *([verdict.early] if verdict.early else []),
        ],
    }  # fmt: skip


def _limits(state: StreamState) -> dict[str, Any]:
    """Servers write "no limit" as 0 or -1."""

    def limit(name: str) -> int | None:
        value = int(state.config.get(name) or 0)
        return value if value > 0 else None

    def seconds(name: str) -> float | None:
        value = limit(name)
        return None if value is None else value / SECOND_NS

    return {
        "max_msgs": limit("max_msgs"), "max_bytes": limit("max_bytes"), "max_age_s": seconds("max_age"),
        "max_msgs_per_subject": limit("max_msgs_per_subject"), "max_msg_size": limit("max_msg_size"),
        "duplicate_window_s": seconds("duplicate_window"),
    }  # fmt: skip
