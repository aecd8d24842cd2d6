"""Store jobs as JSON documents: the fields of nats-s3-connector, and beside them those of archives."""

from typing import Any

from nats3_dagster.archive.jobs import Lag, StoreJob
from nats3_dagster.archive.remove import Deleted
from nats3_dagster.model import Archive
from nats3_dagster.views.archives import Words, time_to_loss_of
from nats3_dagster.views.values import stamp_of, time_of


def store_job(job: StoreJob, words: Words) -> dict[str, Any]:
    """`lag`: sequences that the stream still has and the archive has not; null where it is not known. `subject`: all
    filters, joined by commas."""
    spec, sums, now = job.archive.spec, job.totals, job.condition
    return {
        "id": str(job.archive.job_id), "name": job.archive.job_name, "status": job.status, "stream": spec.stream,
        "consumer": spec.durable, "subject": ",".join(spec.subjects) or ">", "bucket": spec.bucket,
        "prefix": spec.prefix or None, "batch": {"max_bytes": spec.max_bytes, "max_count": spec.max_messages},
        "encoding": {"codec": "binary"}, "created": stamp_of(job.archive.created_at),
        "updated": stamp_of(job.archive.updated_at), "archive": spec.name, "mode": spec.mode,
        "subjects": list(spec.subjects), "max_messages": spec.max_messages, "max_bytes": spec.max_bytes,
        "max_age_s": spec.max_age_s, "zstd_level": spec.zstd_level, "paused": job.archive.paused,
        "error": now.error.what if now.error else None,
        "next": (now.error.hint_in(words) or None) if now.error else None,
        "restored": time_of(now.waiting.state.incarnation.restored_ns or None) if now.waiting else None,
        "lag": now.waiting.behind if now.waiting else None, "chunks": sums.chunks, "messages": sums.messages,
        "payload_bytes": sums.payload_bytes, "stored_bytes": sums.stored_bytes, "first_time": time_of(sums.first_ns),
        "last_time": time_of(sums.last_ns),
    }  # fmt: skip


def lag(now: Lag) -> dict[str, Any]:
    """`seconds`: since the oldest uncaptured message was stored; null where none waits."""
    waiting = now.waiting
    return {
        "id": str(now.archive.job_id), "archive": now.archive.name, "paused": now.archive.paused,
        "messages": waiting.behind, "seconds": round(waiting.behind_s, 3) if waiting.behind else None,
        "ahead": waiting.ahead, "time_to_loss": time_to_loss_of(now.loss),
    }  # fmt: skip


def deleted(archive: Archive, outcome: Deleted) -> dict[str, Any]:
    return {
        "id": str(archive.job_id), "name": archive.job_name, "archive": archive.name, "deleted": True,
        "chunks": outcome.chunks, "objects_deleted": outcome.objects, "consumer_deleted": outcome.consumer,
    }  # fmt: skip
