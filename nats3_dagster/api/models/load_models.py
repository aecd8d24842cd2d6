"""Answers of load jobs."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from nats3_dagster.api.models.bodies import Answer
from nats3_dagster.bodies.load_jobs import Duration
from nats3_dagster.model import Order
from nats3_dagster.replay.jobs import JobStatus


class LoadJob(Answer):
    """A replay as a job."""

    id: str = Field(description="UUID.")
    name: str
    status: JobStatus
    bucket: str
    prefix: str | None
    read_stream: str
    read_consumer: str | None
    read_subject: str
    write_subject: str
    poll_interval: Duration | None
    delete_chunks: bool
    delete_unexported: bool
    from_time: str | None
    to_time: str | None
    created: str
    updated: str
    error: str | None = Field(description="Why it failed or was paused.")
    next: str | None = Field(description="The request that goes on with it.")
    replay: str = Field(description="Id of the replay: 16 hex digits, also in the header Nats3-Replay of its messages.")
    state: str = Field(description="planned, running, paused, succeeded, failed, canceled or interrupted.")
    archive: str
    hours: list[str]
    sequences: list[int] | None
    order: Order
    rate: float | None
    byte_rate: float | None
    speed: float | None
    create_stream: str | None
    into_own_stream: bool
    over_gaps: bool
    live: bool
    marks: bool
    like_source: bool
    targets: list[str] = Field(description="The streams that take its messages.")
    chunks: int
    chunks_done: int
    published: int = Field(description="Messages that the targets have: at least these until it has succeeded.")
    attempt: int
    dagster_runs: list[str] = Field(description="Ids of the runs that drove it.")


class LoadPlan(BaseModel):
    """What a load job would do."""

    model_config = ConfigDict(extra="allow")

    archive: str
    chunks: int
    messages: int = Field(description="At most; exactly so many where messages_exact.")
    messages_exact: bool
    payload_bytes: int
    targets: list[str]
    creates_stream: str | None
    notes: list[str]
    mode: Literal["batch", "window"]
    deletes_chunks: int


class LoadProgress(Answer):
    """How far a load job is."""

    id: str
    status: JobStatus
    state: str
    error: str | None
    next: str | None
    published: int = Field(description="Messages that the targets have, whichever attempt published them.")
    found: int = Field(description="Of those, found in the target by a later attempt.")
    expired: int = Field(description="Left out by a live replay, because their own time to live has ended.")
    messages_done: int
    messages: int = Field(description="Of so many, at most: a filter may leave some out.")
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
