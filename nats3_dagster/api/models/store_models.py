"""Answers of store jobs."""

from typing import Literal

from pydantic import ConfigDict, Field

from nats3_dagster.api.models.bodies import Answer
from nats3_dagster.archive.jobs import JobStatus
from nats3_dagster.model import Mode

_JOB = {
    "id": "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11", "name": "job-1", "status": "Running", "stream": "jobs",
    "consumer": None, "subject": "subject-1", "bucket": "bucket-1", "prefix": None,
    "batch": {"max_bytes": 67108864, "max_count": 1000000}, "encoding": {"codec": "binary"},
    "created": "2026-11-21T07:00:00.000Z", "updated": "2026-11-21T07:00:00.000Z", "archive": "job_1",
    "mode": "stream", "subjects": ["subject-1"], "max_messages": 1000000, "max_bytes": 67108864, "max_age_s": 60,
    "zstd_level": 3, "paused": False, "error": None, "next": None, "lag": 12, "chunks": 3, "messages": 4000,
    "payload_bytes": 1024000, "stored_bytes": 400000, "first_time": "2026-11-21T06:00:00.000000001Z",
    "last_time": "2026-11-21T06:59:59.999999999Z",
}  # fmt: skip


class BatchAnswer(Answer):
    """When a capture is due."""

    max_bytes: int
    max_count: int


class EncodingAnswer(Answer):
    """Always binary: payloads are kept as they came, in Parquet."""

    codec: Literal["binary"]


class StoreJob(Answer):
    """An archive: the fields of nats-s3-connector, and beside them its own."""

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB]})

    id: str = Field(description="A UUID.")
    name: str = Field(description="As the client gave it.")
    status: JobStatus = Field(
        description="Created: nothing is captured yet. Running: its sensor captures what comes; whether Dagster's "
        "daemon runs is not asked, `lag` shows it. Paused. Failure: the source is not usable, see `error`. Never "
        "Success: a stream has no end."
    )
    stream: str
    consumer: str | None = Field(description="The durable through which messages are taken (mode `consumer`).")
    subject: str = Field(description="The filter; several joined by commas.")
    bucket: str
    prefix: str | None
    batch: BatchAnswer
    encoding: EncodingAnswer
    created: str
    updated: str = Field(description="When its settings or its pause last changed.")
    archive: str = Field(description="The archive's own name: in asset keys, object keys and on the command line.")
    mode: Mode
    subjects: list[str] = Field(description="The filters; empty for all subjects.")
    max_messages: int
    max_bytes: int
    max_age_s: int
    zstd_level: int
    paused: bool
    error: str | None = Field(description="What is wrong with the source.")
    next: str | None = Field(description="What to do about it.")
    restored: str | None = Field(
        description="When the stream was made again from a backup with which the archive goes on; null: it was not."
    )
    lag: int | None = Field(description="Sequences that the stream has and the archive has not; null: not known.")
    chunks: int
    messages: int
    payload_bytes: int
    stored_bytes: int
    first_time: str | None
    last_time: str | None


class CreatedStoreJob(StoreJob):
    """A new archive."""

    model_config = ConfigDict(json_schema_extra={"examples": [_JOB | {"warning": None}]})

    warning: str | None = Field(description="What it will not have, by the configuration of the stream.")


class DeletedStoreJob(Answer):
    """What went with an archive."""

    id: str
    name: str
    archive: str
    deleted: Literal[True]
    chunks: int = Field(description="Chunks that were live.")
    objects_deleted: int = Field(description="Objects removed from the store; 0 without purge.")
    consumer_deleted: str | None = Field(description="The durable that the archive had made.")


class TimeToLoss(Answer):
    """How near the stream is to deleting what is not captured."""

    level: Literal["ok", "paused", "warn", "error"]
    used: float = Field(description="The share of the way to deletion that the oldest uncaptured message has gone.")
    limit: str | None = Field(description="By this limit: max_age, max_msgs or max_bytes; null: none deletes.")
    gone: int = Field(description="Sequences that were deleted before they were captured, and are in no gap yet.")
    early: str | None = Field(description="What the stream removes however little its limits are used.")
    text: str


class StoreLag(Answer):
    """What an archive has not captured yet."""

    id: str
    archive: str
    paused: bool
    messages: int = Field(description="Sequences that the stream still has and the archive has not.")
    seconds: float | None = Field(description="Since the oldest of them was stored; null where there is none.")
    ahead: int = Field(description="Those of hours that have not begun by our clock.")
    time_to_loss: TimeToLoss
