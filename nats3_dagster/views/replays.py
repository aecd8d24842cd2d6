"""Replays as JSON documents. Keys are an interface: snake case, plain numbers, times in RFC 3339 in UTC."""

from collections.abc import Callable, Mapping
from typing import Any

from nats3_dagster.replay.job import ReplayResult
from nats3_dagster.replay.status import ReplayStatus
from nats3_dagster.views.values import stamp_of, time_of

# What a replay and its load job have in common, by name: each field of ReplaySpec belongs here.
SHARED: Mapping[str, Callable[[ReplayStatus], Any]] = {
    "archive": lambda status: status.replay.spec.archive,
    "state": lambda status: status.state,
    "read_subject": lambda status: status.replay.spec.read_subject,
    "write_subject": lambda status: status.replay.spec.write_subject,
    "hours": lambda status: list(status.replay.spec.selection.hours),
    "from_time": lambda status: time_of(status.replay.spec.selection.from_ns),
    "to_time": lambda status: time_of(status.replay.spec.selection.to_ns),
    "sequences": lambda status: list(status.replay.spec.selection.sequences or ()) or None,
    "order": lambda status: status.replay.spec.order,
    "rate": lambda status: status.replay.spec.pace.rate,
    "byte_rate": lambda status: status.replay.spec.pace.byte_rate,
    "speed": lambda status: status.replay.spec.pace.speed,
    "create_stream": lambda status: status.replay.spec.create_stream,
    "like_source": lambda status: status.replay.spec.like_source,
    "into_own_stream": lambda status: status.replay.spec.into_own_stream,
    "over_gaps": lambda status: status.replay.spec.over_gaps,
    "delete_chunks": lambda status: status.replay.spec.delete_chunks,
    "delete_unexported": lambda status: status.replay.spec.delete_unexported,
    "live": lambda status: status.replay.spec.live,
    "marks": lambda status: status.replay.spec.marks,
    "targets": lambda status: [target.incarnation.stream for target in status.replay.targets],
    "attempt": lambda status: status.replay.attempt,
    "chunks": lambda status: status.replay.chunks,
    "chunks_done": lambda status: status.replay.chunks_done,
    "published": lambda status: status.replay.acknowledged,
    "dagster_runs": lambda status: list(status.replay.run_ids),
}


def shared(status: ReplayStatus) -> dict[str, Any]:
    """The fields of SHARED."""
    return {name: value(status) for name, value in SHARED.items()}


def replay(status: ReplayStatus) -> dict[str, Any]:
    """A replay as commands show it."""
    record, spec = status.replay, status.replay.spec
    return {"id": record.id, "error": record.error} | shared(status) | {
        "poll_interval_s": spec.poll_interval_s, "chunks_waiting": status.waiting, "selected": record.selected,
        "found": record.found + record.progress_found, "duplicates": record.duplicates, "expired": record.expired,
        "created_at": stamp_of(record.created_at),
        "started_at": stamp_of(record.started_at), "finished_at": stamp_of(record.finished_at),
    }  # fmt: skip


def result(outcome: ReplayResult) -> dict[str, Any]:
    """The whole replay, and apart from it what this attempt did."""
    whole = outcome.replay
    return {
        "id": outcome.id, "archive": outcome.archive, "state": whole.state, "attempt": outcome.attempt,
        "chunks": whole.chunks_done, "selected": whole.selected, "published": whole.acknowledged, "found": whole.found,
        "duplicates": whole.duplicates, "expired": whole.expired,
        "this_attempt": {
            "chunks": outcome.chunks, "selected": outcome.selected, "published": outcome.published,
            "found": outcome.found, "duplicates": outcome.duplicates, "expired": outcome.expired,
            "seconds": round(outcome.seconds, 3),
            "messages_per_s": round(outcome.published / outcome.seconds) if outcome.seconds else None,
        },
    }  # fmt: skip
