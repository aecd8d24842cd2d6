"""Replays: a replay is a load job to clients of the HTTP API, and has one document for both."""

from typing import Any, Literal, Self

from pydantic import Field

from nats3_dagster.documents.base import Document, Words, rate, stamp, stamp_of, with_settings
from nats3_dagster.model import ReplaySpec
from nats3_dagster.model.spec_table import to_body
from nats3_dagster.replay.job import ReplayResult
from nats3_dagster.replay.jobs import JobProgress, JobStatus, error_of, status_of
from nats3_dagster.replay.status import ReplayStatus
from nats3_dagster.steps import Next

_Settings = with_settings("ReplaySettings", ReplaySpec)


class Replay(_Settings):
    """A replay: the fields of nats-s3-connector's load jobs, and beside them its own."""

    id: str = Field(description="UUID of the load job.")
    name: str
    status: JobStatus
    bucket: str
    prefix: str | None
    read_stream: str
    read_consumer: str | None
    created: str
    updated: str
    started: str | None
    finished: str | None
    error: str | None = Field(description="Why it failed or was paused.")
    next: str | None = Field(description="What goes on with it.")
    replay: str = Field(description="Id of the replay: 16 hex digits, also in the header Nats3-Replay of its messages.")
    state: str = Field(description="planned, running, paused, succeeded, failed, canceled or interrupted.")
    archive: str
    targets: list[str] = Field(description="The streams that take its messages.")
    chunks: int
    chunks_done: int
    chunks_waiting: int | None = Field(
        description="Where it follows its archive: chunks that it has yet to publish or look at."
    )
    selected: int = Field(description="Messages of the chunks that are done, found there and expired ones included.")
    published: int = Field(description="Messages that the targets have: at least these until it has succeeded.")
    found: int = Field(description="Of those, found in the target by a later attempt.")
    duplicates: int
    expired: int = Field(description="Left out by a live replay, because their own time to live has ended.")
    attempt: int
    dagster_runs: list[str] = Field(description="Ids of the runs that drove it.")

    @classmethod
    def of(cls, status: ReplayStatus, words: Words) -> "Replay":
        return Replay(**_fields(status, words))


class Attempt(Document):
    """The result of one attempt of a replay."""

    chunks: int
    selected: int
    published: int
    found: int
    duplicates: int
    expired: int
    seconds: float
    messages_per_s: int | None


class ReplayRun(Replay):
    """A replay after an attempt."""

    this_attempt: Attempt | None = Field(description="Null where only chunks were left to delete.")
    chunks_deleted: int | None = Field(description="Null where the replay keeps its chunks.")

    @classmethod
    def of_run(
        cls, status: ReplayStatus, words: Words, result: ReplayResult | None, chunks_deleted: int | None
    ) -> Self:
        attempt = result and Attempt.by_name(
            result,
            seconds=round(result.seconds, 3),
            messages_per_s=rate(result.published, result.seconds),
        )
        return cls(**_fields(status, words), this_attempt=attempt, chunks_deleted=chunks_deleted)


class DetachedReplay(Replay):
    """A replay that runs in a process of its own."""

    pid: int
    log: str

    @classmethod
    def of_process(cls, status: ReplayStatus, words: Words, pid: int, log: str) -> Self:
        return cls(**_fields(status, words), pid=pid, log=log)


class DeletedReplay(Document):
    """A replay that was taken out of the list."""

    id: str
    replay: str
    deleted: Literal[True] = True


class ReplayProgress(Document):
    """The progress of a replay."""

    id: str
    replay: str
    status: JobStatus
    state: str
    error: str | None
    next: str | None
    published: int = Field(description="Messages that the targets have, whichever attempt published them.")
    found: int = Field(description="Of those, found in the target by a later attempt.")
    expired: int = Field(description="Left out by a live replay, because their own time to live has ended.")
    messages_done: int
    messages: int = Field(description="Upper bound: filters may exclude messages.")
    chunks_done: int
    chunks: int
    attempt: int
    seconds: float = Field(description="Of the newest attempt.")
    rate: float | None = Field(description="Messages a second in it.")
    eta_seconds: float | None = Field(description="Until what there is has been published.")
    follows: bool = Field(description="Whether it goes on with new chunks.")
    behind_messages: int | None = Field(description="Where it follows: messages that it has yet to publish.")
    behind_chunks: int | None = Field(description="Where it follows: chunks that it has yet to publish or look at.")
    updated: str

    @classmethod
    def of(cls, progress: JobProgress, words: Words) -> Self:
        status = progress.status
        record = status.replay
        follows = record.spec.poll_interval_s is not None
        return cls(
            id=str(record.job_id),
            replay=record.id,
            status=status_of(status),
            state=status.state,
            error=error_of(status),
            next=_next(status, words),
            published=record.acknowledged,
            found=record.found + record.progress_found,
            expired=record.expired,
            messages_done=progress.done,
            messages=progress.total,
            chunks_done=record.chunks_done,
            chunks=record.chunks,
            attempt=record.attempt,
            seconds=round(progress.seconds, 1),
            rate=None if progress.rate is None else round(progress.rate, 1),
            eta_seconds=None if progress.eta_s is None else round(progress.eta_s, 1),
            follows=follows,
            behind_messages=progress.total - progress.done if follows else None,
            behind_chunks=status.waiting,
            updated=stamp(record.updated_at),
        )

    def without_clock(self) -> dict[str, Any]:
        """Returns the part that changes only when the replay makes progress."""
        return self.model_dump(exclude={"seconds", "rate", "eta_seconds", "updated"})


def _fields(status: ReplayStatus, words: Words) -> dict[str, Any]:
    record, spec = status.replay, status.replay.spec
    return {
        **to_body(spec),
        "id": str(record.job_id),
        "name": record.job_name or f"load-{record.id}",
        "status": status_of(status),
        "bucket": record.bucket,
        "prefix": record.prefix or None,
        "read_stream": record.stream,
        "read_consumer": record.durable,
        "created": stamp(record.created_at),
        "updated": stamp(record.updated_at),
        "started": stamp_of(record.started_at),
        "finished": stamp_of(record.finished_at),
        "error": error_of(status),
        "next": _next(status, words),
        "replay": record.id,
        "state": status.state,
        "archive": spec.archive,
        "targets": [target.incarnation.stream for target in record.targets],
        "chunks": record.chunks,
        "chunks_done": record.chunks_done,
        "chunks_waiting": status.waiting,
        "selected": record.selected,
        "published": record.acknowledged,
        "found": record.found + record.progress_found,
        "duplicates": record.duplicates,
        "expired": record.expired,
        "attempt": record.attempt,
        "dagster_runs": list(record.run_ids),
    }


def _next(status: ReplayStatus, words: Words) -> str | None:
    if status_of(status) not in ("Failure", "Paused"):
        return None
    return Next.RESUME_JOB(replay=status.replay.id, job=status.replay.job_id).worded(words)
