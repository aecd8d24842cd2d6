"""Archives: an archive is a store job to clients of the HTTP API, and has one document for both."""

from collections.abc import Iterable
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field

from nats3_dagster.archive.lifecycle.change import Difference as ChangedField
from nats3_dagster.archive.lifecycle.jobs import JobStatus, StoreJob
from nats3_dagster.archive.lifecycle.remove import Deleted
from nats3_dagster.archive.source.condition import SourceState
from nats3_dagster.archive.stored.removal import Swept, SweptOrphans
from nats3_dagster.documents.base import Document, Words, ratio, stamp, time_of, with_settings
from nats3_dagster.documents.changes import Difference
from nats3_dagster.documents.drills import Drill
from nats3_dagster.model import Archive as Stored
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.spec_table import to_body

EXAMPLE = to_body(ArchiveSpec("job_1", "jobs", "bucket-1", subjects=("subject-1",))) | {
    "id": "7f0f3f0a-2d0e-4d5c-9f4e-6f1f0f6b8a11",
    "name": "job-1",
    "status": "Running",
    "subject": "subject-1",
    "prefix": None,
    "batch": {"max_bytes": 67108864, "max_count": 1000000},
    "encoding": {"codec": "binary"},
    "created": "2026-11-21T07:00:00.000Z",
    "updated": "2026-11-21T07:00:00.000Z",
    "archive": "job_1",
    "paused": False,
    "source": "ok",
    "error": None,
    "next": None,
    "restored": None,
    "lag": 12,
    "chunks": 3,
    "messages": 4000,
    "payload_bytes": 1024000,
    "stored_bytes": 400000,
    "ratio": 2.56,
    "first_time": "2026-11-21T06:00:00.000000001Z",
    "last_time": "2026-11-21T06:59:59.999999999Z",
    "drill": None,
}
_Settings = with_settings("ArchiveSettings", ArchiveSpec)


class Batch(Document):
    """The thresholds at which a capture is due."""

    max_bytes: int
    max_count: int


class Encoding(Document):
    """An encoding, always binary: payloads are kept as they came, in Parquet."""

    codec: Literal["binary"]


class Archive(_Settings):
    """An archive: the fields of nats-s3-connector, and beside them its own."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    id: str = Field(description="A UUID.")
    name: str = Field(description="As the client gave it.")
    status: JobStatus = Field(
        description="Created: nothing is captured yet. Running: its sensor captures what comes; whether Dagster's "
        "daemon runs is not asked, `lag` shows it. Paused. Failure: the source is not usable, see `error`. Never "
        "Success: a stream has no end."
    )
    subject: str = Field(description="The filter; several joined by commas.")
    prefix: str | None
    batch: Batch
    encoding: Encoding
    created: str
    updated: str = Field(description="When its settings or its pause last changed.")
    archive: str = Field(description="The archive's own name: in asset keys, object keys and on the command line.")
    paused: bool
    source: SourceState = Field(
        description="recreated: deleted and made again. shrunk: it forgot messages that are archived. unreachable: "
        "NATS did not answer. consumer_missing: the durable was deleted. buffer_missing: the buffer was "
        "deleted, or changed."
    )
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
    ratio: float | None = Field(description="How many times smaller the messages are in the store.")
    first_time: str | None
    last_time: str | None
    drill: Drill | None = Field(description="The last drill of a restore; null in lists, and where there was none.")

    @classmethod
    def of(cls, job: StoreJob, words: Words) -> "Archive":
        return Archive(**fields_of(job, words))


class CreatedArchive(Archive):
    """A new archive."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE | {"warning": None}]})

    warning: str | None = Field(description="What it will not have, by the configuration of the stream.")

    @classmethod
    def of_new(cls, job: StoreJob, words: Words, warning: str) -> Self:
        return cls(**fields_of(job, words), warning=warning or None)


class ChangedArchive(Archive):
    """An archive whose settings were changed."""

    changes: list[Difference]

    @classmethod
    def of_changes(cls, job: StoreJob, words: Words, changes: Iterable[ChangedField]) -> Self:
        return cls(**fields_of(job, words), changes=[Difference.of(one) for one in changes])


class DeletedArchive(Document):
    """The objects and rows that were deleted with an archive."""

    id: str | None = Field(description="Null where it had been deleted before, and was given by its name.")
    name: str
    archive: str
    deleted: Literal[True]
    chunks: int = Field(description="Chunks that were live.")
    objects_deleted: int = Field(description="Objects removed from the store; 0 without purge.")
    consumer_deleted: str | None = Field(description="The durable that the archive had made.")
    buffer_deleted: str | None = Field(description="The mirror of its stream that the archive had made.")

    @classmethod
    def of(cls, name: str, archive: Stored | None, outcome: Deleted) -> Self:
        """`name`: its own. `archive`: None where it had been deleted before."""
        return cls(
            id=str(archive.job_id) if archive else None,
            name=archive.job_name if archive else name,
            archive=name,
            deleted=True,
            chunks=outcome.chunks,
            objects_deleted=outcome.objects,
            consumer_deleted=outcome.consumer,
            buffer_deleted=outcome.buffer,
        )


class ClaimedFolder(Document):
    """The folder in a bucket that an archive owns now."""

    archive: str
    bucket: str
    prefix: str
    id: str = Field(description="Of the archive's store job; the folder's owner object has it.")

    @classmethod
    def of(cls, archive: Stored) -> Self:
        spec = archive.spec
        return cls(archive=spec.name, bucket=spec.bucket, prefix=spec.prefix, id=str(archive.job_id))


class Orphan(Document):
    """An object in an archive's folder that no row of the catalog names."""

    archive: str
    key: str
    stored_bytes: int
    kept: str | None = Field(description="Why it stays; null where it was removed, or would be.")


class UnseenPart(Document):
    """A part of an archive that the sweep of orphans could not look at."""

    archive: str
    part: str
    problem: str


class SweptObjects(Document):
    """Objects of deleted chunks that were removed after the time of grace."""

    objects: int
    bytes: int
    delete_grace_s: int
    rows_forgotten: int = Field(description="Rows of the catalog that nothing has needed for history_keep.")
    dry_run: bool = Field(description="True if nothing was removed: these objects would be.")
    orphans: list[Orphan] | None = Field(description="Null unless they were asked for.")
    unseen: list[UnseenPart] = Field(description="What could not be looked at for orphans.")

    @classmethod
    def of(
        cls,
        swept: Swept,
        delete_grace_s: int,
        rows_forgotten: int,
        found: SweptOrphans | None,
        words: Words,
        *,
        dry_run: bool,
    ) -> Self:
        named = None if found is None else [Orphan.by_name(one, kept=one.kept or None) for one in found.orphans]
        unseen = [
            UnseenPart(archive=one.archive, part=one.part, problem=one.problem.text_in(words))
            for one in (found.unseen if found else ())
        ]
        return cls(
            objects=swept.objects,
            bytes=swept.bytes,
            delete_grace_s=delete_grace_s,
            rows_forgotten=rows_forgotten,
            dry_run=dry_run,
            orphans=named,
            unseen=unseen,
        )


def fields_of(job: StoreJob, words: Words) -> dict[str, Any]:
    """The fields of Archive, for documents that have more."""
    record, spec, sums, now = job.archive, job.archive.spec, job.totals, job.condition
    return {
        **to_body(spec),
        "id": str(record.job_id),
        "name": record.job_name,
        "status": job.status,
        "subject": ",".join(spec.subjects) or ">",
        "prefix": spec.prefix or None,
        "batch": Batch(max_bytes=spec.max_bytes, max_count=spec.max_messages),
        "encoding": Encoding(codec="binary"),
        "created": stamp(record.created_at),
        "updated": stamp(record.updated_at),
        "archive": spec.name,
        "paused": record.paused,
        "source": now.source,
        "error": now.error.what if now.error else None,
        "next": (now.error.hint_in(words) or None) if now.error else None,
        "restored": time_of(now.waiting.state.incarnation.restored_ns or None) if now.waiting else None,
        "lag": now.waiting.behind if now.waiting else None,
        "chunks": sums.chunks,
        "messages": sums.messages,
        "payload_bytes": sums.payload_bytes,
        "stored_bytes": sums.stored_bytes,
        "ratio": ratio(sums.payload_bytes, sums.stored_bytes),
        "first_time": time_of(sums.first_ns),
        "last_time": time_of(sums.last_ns),
        "drill": Drill.of(job.drill, sums.messages, sums.payload_bytes) if job.drill else None,
    }
