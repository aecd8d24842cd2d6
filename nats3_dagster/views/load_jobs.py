"""Load jobs as JSON documents: the fields of the peer's clients, and our own beside them."""

from typing import Any

from nats3_dagster.replay.jobs import JobProgress, error_of, status_of
from nats3_dagster.replay.status import ReplayStatus
from nats3_dagster.views.replays import shared
from nats3_dagster.views.values import stamp_of

# Fields of a progress document that move with the clock alone.
_CLOCKED = {"seconds", "rate", "eta_seconds", "updated"}


def load_job(status: ReplayStatus) -> dict[str, Any]:
    """A load job. `next` is the request that goes on with it, where one does."""
    record, spec = status.replay, status.replay.spec
    return {
        "id": str(record.job_id), "name": record.job_name or f"load-{record.id}", "status": status_of(status),
        "bucket": record.bucket, "prefix": record.prefix or None, "read_stream": record.stream,
        "read_consumer": record.durable, "poll_interval": _duration(spec.poll_interval_s),
        "created": stamp_of(record.created_at), "updated": stamp_of(record.updated_at),
        "error": error_of(status), "next": _next(status), "replay": record.id,
    } | shared(status)  # fmt: skip


def progress(progress: JobProgress) -> dict[str, Any]:
    """How far a load job is. `messages` is the most that it can be; `behind` is what a following one has yet to send
    of what it has looked at."""
    status = progress.status
    record = status.replay
    follows = record.spec.poll_interval_s is not None
    return {
        "id": str(record.job_id), "status": status_of(status), "state": status.state, "error": error_of(status),
        "next": _next(status), "published": record.acknowledged, "found": record.found + record.progress_found,
        "expired": record.expired, "messages_done": progress.done, "messages": progress.total,
        "chunks_done": record.chunks_done, "chunks": record.chunks, "attempt": record.attempt,
        "seconds": round(progress.seconds, 1), "rate": None if progress.rate is None else round(progress.rate, 1),
        "eta_seconds": None if progress.eta_s is None else round(progress.eta_s, 1), "follows": follows,
        "behind_messages": progress.total - progress.done if follows else None,
        "behind_chunks": status.waiting, "updated": stamp_of(record.updated_at),
    }  # fmt: skip


def without_clock(document: dict[str, Any]) -> dict[str, Any]:
    """What changes in a progress document only when the job goes on."""
    return {name: value for name, value in document.items() if name not in _CLOCKED}


def _next(status: ReplayStatus) -> str | None:
    if status_of(status) in ("Failure", "Paused"):
        return f"POST /load/job/resume?job_id={status.replay.job_id}"
    return None


def _duration(seconds: float | None) -> dict[str, int] | None:
    if seconds is None:
        return None
    whole, nanos = divmod(round(seconds * 1_000_000_000), 1_000_000_000)
    return {"secs": whole, "nanos": nanos}
