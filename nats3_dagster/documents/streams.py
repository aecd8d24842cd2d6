"""Streams: what each has, its limits, and whether it can be archived."""

from typing import Any, Self

from pydantic import Field

from nats3_dagster.archive.source.streams import StreamReport
from nats3_dagster.documents.base import Document, Words, time_of
from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.model import StreamState
from nats3_dagster.model.archive_spec import Mode


class Stream(Document):
    """A stream of the account. A limit that it does not have is null."""

    name: str
    subjects: list[str]
    created_at: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    first_time: str | None
    last_time: str | None
    consumers: int
    leader: str | None
    storage: str | None
    replicas: int | None
    retention: str
    discard: str
    max_msgs: int | None
    max_bytes: int | None
    max_age_s: float | None
    max_msgs_per_subject: int | None
    max_msg_size: int | None
    duplicate_window_s: float | None
    mirror: str | None
    sources: list[str]
    archives: list[str] | None = Field(description="Names of its archives; null where no catalog can be asked.")
    archive_mode: Mode | None = Field(description="The mode of an archive of it; null where none is possible.")
    archive_notes: list[str]

    @classmethod
    def of(cls, report: StreamReport, words: Words) -> Self:
        state, verdict, config = report.state, report.verdict, report.state.config
        return cls(
            name=state.name,
            subjects=list(state.subjects),
            created_at=format_time(state.incarnation.created_ns),
            messages=state.messages,
            bytes=state.bytes,
            first_seq=state.first_seq,
            last_seq=state.last_seq,
            first_time=time_of(state.first_ns or None),
            last_time=time_of(state.last_ns or None),
            consumers=state.consumers,
            leader=state.leader or None,
            storage=config.get("storage"),
            replicas=config.get("num_replicas"),
            retention=config.get("retention", "limits"),
            discard=config.get("discard", "old"),
            **_limits(state),
            mirror=(config.get("mirror") or {}).get("name"),
            sources=[source["name"] for source in config.get("sources") or ()],
            archives=None if report.archives is None else list(report.archives),
            archive_mode=verdict.mode,
            archive_notes=[
                *([verdict.error.text_in(words)] if verdict.error else []),
                *([verdict.early] if verdict.early else []),
            ],
        )


class SubjectCount(Document):
    """A subject of a stream."""

    subject: str
    messages: int


def _limits(state: StreamState) -> dict[str, Any]:
    """Servers write "no limit" as 0 or -1."""

    def limit(name: str) -> int | None:
        value = int(state.config.get(name) or 0)
        return value if value > 0 else None

    def seconds(name: str) -> float | None:
        value = limit(name)
        return None if value is None else value / SECOND_NS

    return {
        "max_msgs": limit("max_msgs"),
        "max_bytes": limit("max_bytes"),
        "max_age_s": seconds("max_age"),
        "max_msgs_per_subject": limit("max_msgs_per_subject"),
        "max_msg_size": limit("max_msg_size"),
        "duplicate_window_s": seconds("duplicate_window"),
    }
