"""A replay as a job of Spark's: what its tasks are given, and what comes back."""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.model import Chunk, ChunkResult, DonePart, Replay, ReplaySpec, ReplayTarget, SeqRange
from nats3_dagster.objects import StoreOptions


@dataclass(frozen=True, slots=True)
class DoneRange:
    """Sequences of an archived stream that a replay is done with."""

    # Of the incarnation.
    token: str
    covers: SeqRange
    # How many of their messages the targets acknowledged.
    messages: int
    # The last sequence of those; 0 if there is none.
    last_seq: int


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """The input of every task of one replay; pickled into the Spark workers."""

    # 16 hex digits.
    id: str
    # Counts from 1.
    attempt: int
    spec: ReplaySpec
    # The streams that listened when the replay began.
    targets: tuple[ReplayTarget, ...]
    nats: NatsOptions
    store: StoreOptions
    # Whether the one target takes fast-ingest batches.
    batched: bool
    # Subject on which tasks report their progress; None for no reports.
    progress: str | None = None
    # What the replay is done with.
    done: tuple[DoneRange, ...] = ()
    # Whether no attempt before this one had any of the chunks; None where only the number of this one tells.
    fresh: bool | None = None
    # Token and sequence of the end of these chunks; None where the replay has none after them.
    until: tuple[str, int] | None = None
    # How far the original timing is: a time of the host's clock in seconds, and the store time of the message that went
    # out then. None at the beginning of an attempt.
    timing: tuple[float, int] | None = None

    @property
    def resumed(self) -> bool:
        """True if the tasks must first ask the targets for messages of an earlier attempt."""
        return self.attempt > 1 if self.fresh is None else not self.fresh


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a replay; pickled into the Spark workers."""

    job: ReplayJob
    # In the order of the plan, without their counts by subject and deleted sequences.
    chunks: tuple[Chunk, ...]
    # The task is number `index`, from 0, of `count`. With the order `subject` it is also the hash partition of the
    # subjects that the task publishes.
    index: int
    count: int


@dataclass(frozen=True, slots=True, order=True)
class Reached:
    """A task's answer when the targets have messages of an earlier attempt after the chunks of this job: up to this
    one. It has published nothing since it asked them."""

    # Of the incarnation. Tokens are times: a later incarnation has a later one.
    token: str
    seq: int


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of one attempt; the counts are messages (see ChunkResult)."""

    # Id of the replay, and name of its archive.
    id: str
    archive: str
    # Counts from 1.
    attempt: int
    # Chunks that this attempt finished.
    chunks: int
    selected: int
    published: int
    found: int
    duplicates: int
    expired: int
    seconds: float
    # The whole replay after it.
    replay: Replay


def new_id() -> str:
    """Sixteen hex digits: it stands in a header of every message, and must never come twice to one target."""
    return secrets.token_hex(8)


def shares(job: ReplayJob, chunks: Sequence[Chunk], parallel: int) -> list[Share]:
    """One share for each task: a single one for the order `stream`, all chunks to each of `parallel` for `subject`,
    consecutive chunks for `none`."""
    slim = tuple(replace(c, meta=replace(c.meta, subjects=None, deleted=None)) for c in chunks)
    parts: list[tuple[Chunk, ...]] = []
    if job.spec.order == "stream" or not slim:
        parts = [slim] if slim else []
    elif job.spec.order == "subject":
        parts = [slim] * parallel
    else:
        size = -(-len(slim) // parallel)
        parts = [slim[at : at + size] for at in range(0, len(slim), size)]
    return [Share(job, part, index, len(parts)) for index, part in enumerate(parts)]


def joined(parts: Iterable[DonePart]) -> tuple[DonePart, ...]:
    """The same chunks, in the order of the plan: those that follow each other are one part."""
    together: list[DonePart] = []
    for part in sorted(parts, key=lambda part: part.positions.first):
        last = together[-1] if together else None
        if last and last.incarnation == part.incarnation and last.positions.last + 1 == part.positions.first:
            part = DonePart(
                part.incarnation,
                SeqRange(last.positions.first, part.positions.last),
                SeqRange(last.covers.first, part.covers.last),
                last.messages + part.messages,
                max(last.last_seq, part.last_seq),
            )
            together.pop()
        together.append(part)
    return tuple(together)


def done_ranges(parts: Iterable[DonePart]) -> tuple[DoneRange, ...]:
    """The same parts as tasks are given them."""
    return tuple(DoneRange(part.incarnation.token, part.covers, part.messages, part.last_seq) for part in parts)


def combine(results: Iterable[ChunkResult]) -> tuple[ChunkResult, ...]:
    """One result for each chunk: those of tasks that shared one by subject are added up."""
    sums: dict[int, ChunkResult] = {}
    for result in results:
        old = sums.get(result.chunk_id, ChunkResult(result.chunk_id, 0, 0, 0, 0, 0))
        sums[result.chunk_id] = ChunkResult(
            result.chunk_id,
            old.selected + result.selected,
            old.published + result.published,
            old.found + result.found,
            old.duplicates + result.duplicates,
            old.expired + result.expired,
            max(old.last_seq, result.last_seq),
            max(old.last_ns, result.last_ns),
        )
    return tuple(sums.values())
