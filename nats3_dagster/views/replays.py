"""Replays as JSON documents. Keys are an interface: snake case, plain numbers, times in RFC 3339 in UTC."""

from typing import Any

from nats3_dagster.replay.job import ReplayResult
from nats3_dagster.replay.status import ReplayStatus
from nats3_dagster.views.values import stamp_of, time_of


def replay(status: ReplayStatus) -> dict[str, Any]:
    record, spec, selection = status.replay, status.replay.spec, status.replay.spec.selection
    return {
        "id": record.id, "archive": spec.archive, "state": status.state, "error": record.error,
        "read_subject": spec.read_subject, "write_subject": spec.write_subject, "hours": list(selection.hours),
        "from_time": time_of(selection.from_ns), "to_time": time_of(selection.to_ns),
        "sequences": list(selection.sequences) if selection.sequences else None, "order": spec.order,
        "rate": spec.pace.rate, "byte_rate": spec.pace.byte_rate, "speed": spec.pace.speed,
        "over_gaps": spec.over_gaps, "delete_chunks": spec.delete_chunks,
        "delete_unexported": spec.delete_unexported, "live": spec.live, "marks": spec.marks,
        "poll_interval_s": spec.poll_interval_s, "chunks_waiting": status.waiting,
        "targets": [t.incarnation.stream for t in record.targets], "attempt": record.attempt, "chunks": record.chunks,
        "chunks_done": record.chunks_done, "selected": record.selected,
        "published": record.acknowledged, "found": record.found + record.progress_found,
        "duplicates": record.duplicates, "expired": record.expired, "dagster_runs": list(record.run_ids),
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
