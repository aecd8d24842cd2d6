"""A replay: its targets, its state, and what became of each chunk."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from nats3_dagster.model.replay_spec import ReplaySpec
from nats3_dagster.model.stream import Incarnation, SeqRange

# `paused` by a request, wherever it ran; `canceled` with the process or the Dagster run that drove it. Both go on.
ReplayState = Literal["planned", "running", "succeeded", "failed", "canceled", "paused"]


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A stream that takes what a replay publishes: nothing of it has a sequence below `since_seq`."""

    incarnation: Incarnation
    # Stream sequence: its last one when the replay began, plus 1.
    since_seq: int


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The result of a replay for one chunk. All counts are messages."""

    chunk_id: int
    selected: int
    # Of the selected ones: published now, and found in the target from an earlier attempt.
    published: int
    found: int
    # Published ones that the target refused as known.
    duplicates: int
    # Selected ones that a live replay left out, because their own time to live (`Nats-TTL`) has ended.
    expired: int = 0
    # The last archived sequence of those that the targets have; 0 if they have none.
    last_seq: int = 0
    # Store time of the last one that was published now; 0 without one.
    last_ns: int = 0


@dataclass(frozen=True, slots=True)
class DonePart:
    """Chunks of one incarnation that follow each other in the plan of a replay, which is done with them."""

    incarnation: Incarnation
    # Places in the plan, from 1.
    positions: SeqRange
    # From the first sequence of the first chunk to the last one of the last. No other chunk of the replay lies between.
    covers: SeqRange
    # Messages that the targets have acknowledged, or had already.
    messages: int
    # The last archived sequence of those; 0 if there is none.
    last_seq: int


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay and the sums over its chunks that are done."""

    id: str
    spec: ReplaySpec
    state: ReplayState
    # Counts from 1; 0 before the first.
    attempt: int
    error: str | None
    targets: tuple[ReplayTarget, ...]
    chunks: int
    chunks_done: int
    # Messages, as in ChunkResult.
    selected: int
    published: int
    found: int
    duplicates: int
    expired: int
    # Messages of chunks that are not done, by the reports of the newest attempt: at least these.
    progress_published: int
    progress_found: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    # The Dagster runs that drove it, oldest first.
    run_ids: tuple[str, ...]
    updated_at: datetime
    # Its load job: its id over HTTP, and its client's name for it.
    job_id: UUID
    job_name: str | None
    # How often a run or a process was started for it.
    launch: int
    # Whether it is running, or planned, and what runs it, or was started to run it, is gone.
    lost: bool
    # Of its archive, which may have been deleted since.
    stream: str
    bucket: str
    prefix: str
    durable: str | None

    @property
    def acknowledged(self) -> int:
        """Messages of the replay that its targets have, whichever attempt published them. While it runs, and after it
        was stopped, at least these; exact once it has succeeded."""
        return self.published + self.found + self.progress_published + self.progress_found


@dataclass(frozen=True, slots=True)
class ReplayProgress:
    """The progress of the newest attempt of a replay."""

    # Messages of the chunks that are not done, at most.
    pending: int
    # Messages that the targets had when the attempt began; 0 before the first.
    began_with: int
    # How long it has run.
    seconds: float


@dataclass(frozen=True, slots=True)
class ReplayChunk:
    """The result of a replay for one chunk, with the attempt and the run."""

    replay_id: str
    chunk_id: int
    # Of the chunk, which may have been retired since.
    hour: str
    # In the order of the plan.
    position: int
    # Messages of the chunk: no more are selected.
    planned: int
    # Messages, as in ChunkResult; 0 while it is pending.
    selected: int
    published: int
    found: int
    duplicates: int
    expired: int
    last_seq: int
    state: Literal["pending", "done"]
    attempt: int | None
    dagster_run_id: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class ReplayHour:
    """The results of a replay for the chunks of an hour."""

    hour: str
    chunks: int
    # Messages, as in ChunkResult.
    selected: int
    published: int
    found: int
    duplicates: int
    expired: int
    # Ids of the runs of Dagster that recorded them.
    runs: list[str]
