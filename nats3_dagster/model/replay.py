"""A replay: what was asked for, its targets, and what became of each chunk."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import hour_start
from nats3_dagster.model.stream import Incarnation, SeqRange

Order = Literal["stream", "subject", "none"]
ORDERS: tuple[Order, ...] = get_args(Order)
ReplayState = Literal["planned", "running", "succeeded", "failed", "canceled"]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a replay goes; None for no limit. Raises OperatorError if a field is invalid."""

    messages_per_s: float | None = None
    bytes_per_s: float | None = None
    # The original timing, so many times as fast.
    speed: float | None = None

    def __post_init__(self) -> None:
        for name in ("messages_per_s", "bytes_per_s", "speed"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise OperatorError(f"{name} is {value}", "A pace must be above 0; leave it out for no limit")


@dataclass(frozen=True, slots=True)
class ReplaySpec:
    """A replay as asked for. Hours, times and sequences narrow the selection together; without any the whole archive
    is replayed. Raises OperatorError if a field is invalid (subjects are checked by subjects.Transform)."""

    archive: str
    read_subject: str = ">"
    write_subject: str = ">"
    hours: tuple[str, ...] = ()
    # Store times `[from_ns, to_ns)` in nanoseconds.
    from_ns: int | None = None
    to_ns: int | None = None
    seqs: SeqRange | None = None
    order: Order = "stream"
    pace: Pace = Pace()
    create_stream: str | None = None
    into_own_stream: bool = False
    over_gaps: bool = False
    delete_chunks: bool = False

    def __post_init__(self) -> None:
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            raise OperatorError("The selection's from is not before its to", "Give a from that is earlier than to")
        if self.seqs is not None and not 1 <= self.seqs.first <= self.seqs.last:
            raise OperatorError(
                f"{self.seqs} is not a sequence range", "Write first-last, from 1, first not above last"
            )
        if self.order not in ORDERS:
            raise OperatorError(f"{self.order!r} is not an order", "Use stream, subject or none")
        if self.order != "stream" and self.pace.speed is not None:
            raise OperatorError("The original timing needs one publisher", "Use the order stream with a speed")
        for hour in self.hours:
            hour_start(hour)


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A stream that takes what a replay publishes: nothing of it has a sequence below `since_seq`."""

    incarnation: Incarnation
    since_seq: int


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """What a replay did with one chunk. All four counts are messages."""

    chunk_id: int
    selected: int
    # Of the selected ones: published now, and found in the target from an earlier attempt.
    published: int
    found: int
    # Published ones that the target refused as known.
    duplicates: int


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
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    # The Dagster runs that drove it, oldest first.
    run_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReplayChunk:
    """What a replay did with one chunk, in which attempt and run."""

    replay_id: str
    chunk_id: int
    # In the order of the plan.
    position: int
    # Messages of the chunk: no more are selected.
    planned: int
    # Messages, as in ChunkResult; 0 while it is pending.
    selected: int
    published: int
    found: int
    duplicates: int
    state: Literal["pending", "done"]
    attempt: int | None
    dagster_run_id: str | None
    finished_at: datetime | None
