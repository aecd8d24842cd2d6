"""Replay: which chunks a selection needs, which streams take them, and what a replay has published.

The rule kept here: a replay is a row in the catalog before its first message is published. What it put into a target is
asked of the target itself when it is resumed, so nothing is doubled however long it lay.
"""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nats3_dagster.catalog import Catalog
from nats3_dagster.errors import ObjectMissing, OperatorError, StreamChanged, TargetError
from nats3_dagster.hours import format_time, hour_start, hours_between
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.streams import create_stream, server_info, stream_state, streams_listening
from nats3_dagster.model import Archive, Chunk, ChunkResult, Incarnation, ReplaySpec, ReplayTarget, SeqRange
from nats3_dagster.objects import Bucket, StoreOptions
from nats3_dagster.steps import Next
from nats3_dagster.subjects import Transform, covers, matches, overlap

# What we add to a message: six headers with a replay id, a stream name, an incarnation and a sequence.
HEADER_ROOM = 400
# The servers that take fast-ingest batches (ADR-50), where the stream allows them.
FAST_INGEST = (2, 14)


@dataclass(frozen=True, slots=True)
class ReplayJob:
    """What every task of one replay needs; pickled into the Spark workers. `resumed` makes a task ask the targets first
    what is there. `batched`: the one target takes fast-ingest batches."""

    id: str
    attempt: int
    spec: ReplaySpec
    targets: tuple[ReplayTarget, ...]
    nats: NatsOptions
    store: StoreOptions
    batched: bool
    progress: str | None = None

    @property
    def resumed(self) -> bool:
        return self.attempt > 1


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The chunks in stream order. `messages` is an upper bound where the selection cuts chunks or subjects."""

    archive: Archive
    spec: ReplaySpec
    chunks: tuple[Chunk, ...]
    targets: tuple[ReplayTarget, ...]
    batched: bool

    @property
    def messages(self) -> int:
        return sum(c.meta.messages for c in self.chunks)

    @property
    def payload_bytes(self) -> int:
        return sum(c.meta.payload_bytes for c in self.chunks)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What one attempt did; the counts are messages (see ChunkResult)."""

    id: str
    archive: str
    attempt: int
    chunks: int
    selected: int
    published: int
    found: int
    duplicates: int
    seconds: float


def new_id() -> str:
    """Sixteen hex digits: it stands in a header of every message, and must never come twice to one target."""
    return secrets.token_hex(8)


def select(catalog: Catalog, archive: Archive, spec: ReplaySpec) -> tuple[Chunk, ...]:
    """The chunks of the selection, stream order. Raises OperatorError when it is empty, or has a gap in it."""
    window = None if spec.from_ns is None and spec.to_ns is None else (spec.from_ns, spec.to_ns)
    chunks = catalog.chunks.select(
        archive, hours=spec.hours or None, time_range=window, seqs=spec.seqs, with_subjects=True
    )
    if not chunks:
        raise OperatorError(
            f"Archive {archive.name} holds nothing of this selection",
            Next.LIST_CHUNKS(archive=archive.name),
        )
    if not spec.over_gaps and (lacking := _lacking(catalog, archive, spec, chunks)):
        raise OperatorError(
            f"The selection lacks the sequences {', '.join(map(str, lacking[:3]))}{' ...' if len(lacking) > 3 else ''}",
            Next.CAPTURE_OR_REPLAY_OVER_GAPS(),
        )
    wanted = tuple(c for c in chunks if _wanted(c, spec.read_subject))
    if not wanted:
        raise OperatorError(
            f"Archive {archive.name} has no subject that {spec.read_subject!r} takes in this selection",
            Next.GET_CHUNK(archive=archive.name, chunk=chunks[0].id),
        )
    return wanted


def plan(
    catalog: Catalog, link: Link, archive: Archive, spec: ReplaySpec, store: StoreOptions, *, create: bool = False
) -> ReplayPlan:
    """Everything that can be known before the first message goes out. Publishes nothing and writes nothing; only with
    `create` it makes the stream that `create_stream` asks for, when all else is well: without, a plan for a stream yet
    to be made has no targets. Raises OperatorError, ObjectMissing or TargetError."""
    transform = Transform(spec.read_subject, spec.write_subject)
    chunks = select(catalog, archive, spec)
    check_objects(chunks, store)
    info = server_info(link)
    largest = max((c.meta.largest_bytes for c in chunks), default=0)
    if largest + HEADER_ROOM > info.max_payload:
        raise TargetError(
            f"The largest message takes {largest} bytes with its headers, {HEADER_ROOM} more when replayed; "
            f"the server's max_payload is {info.max_payload}",
            f"Set max_payload of the target server to at least {largest + HEADER_ROOM}",
        )
    batches = info.version >= FAST_INGEST
    listening = streams_listening(link, transform.pattern)
    for state in listening:
        if state.name == archive.spec.stream and not spec.into_own_stream:
            raise OperatorError(
                f"{transform.pattern} is captured by {state.name}, the stream that archive {archive.name} archives",
                Next.CHOOSE_OTHER_TARGET(),
            )
    missing = bool(spec.create_stream) and not any(s.name == spec.create_stream for s in listening)
    if missing and create:
        config: dict[str, object] = {"name": spec.create_stream, "subjects": [transform.pattern], "storage": "file"}
        listening = [create_stream(link, config | ({"allow_batched": True} if batches else {}))]
    if not missing:
        _check_targets(transform, chunks, [(s.name, s.subjects) for s in listening])
    return ReplayPlan(
        archive=archive, spec=spec, chunks=chunks,
        targets=tuple(ReplayTarget(s.incarnation, s.last_seq + 1) for s in listening),
        batched=batches and len(listening) == 1 and bool(listening[0].config.get("allow_batched")),
    )  # fmt: skip


def check_resumable(link: Link, targets: Sequence[ReplayTarget]) -> bool:
    """Whether the targets are still the streams they were when the replay began, and the one target takes batches.
    Raises StreamChanged when one is not: what the replay put there cannot be known any more."""
    states = [stream_state(link, target.incarnation.stream) for target in targets]
    for target, state in zip(targets, states, strict=True):
        if state.incarnation != target.incarnation:
            raise StreamChanged(
                f"Stream {state.name} was deleted and made again after this replay began",
                "What was published is gone with it: create a new replay",
            )
    return len(states) == 1 and bool(states[0].config.get("allow_batched")) and server_info(link).version >= FAST_INGEST


def check_objects(chunks: Iterable[Chunk], store: StoreOptions) -> None:
    """Every object is there with its size, asked before anything is published. Raises ObjectMissing or StoreError."""
    buckets: dict[str, Bucket] = {}
    for chunk in chunks:
        bucket = buckets.setdefault(chunk.meta.bucket, Bucket(store, chunk.meta.bucket))
        head = bucket.head(chunk.meta.key)
        if head.size != chunk.meta.stored_bytes:
            raise ObjectMissing(
                f"{chunk.meta.key} has {head.size} bytes and not {chunk.meta.stored_bytes}",
                "It was truncated or replaced: restore it from a copy, or capture the hour again",
            )


def shares(planned: Sequence[Chunk], order: str, parallel: int) -> list[tuple[Chunk, ...]]:
    """The chunks of each task: one task for `stream`, all chunks to each for `subject`, contiguous runs for `none`."""
    if order == "stream" or not planned:
        return [tuple(planned)] if planned else []
    if order == "subject":
        return [tuple(planned)] * parallel
    size = -(-len(planned) // parallel)
    return [tuple(planned[at : at + size]) for at in range(0, len(planned), size)]


def combine(results: Iterable[ChunkResult]) -> dict[int, ChunkResult]:
    """One result a chunk: tasks that shared one by subject are added up."""
    by: dict[int, ChunkResult] = {}
    for r in results:
        old = by.get(r.chunk_id, ChunkResult(r.chunk_id, 0, 0, 0, 0))
        by[r.chunk_id] = ChunkResult(
            r.chunk_id, old.selected + r.selected, old.published + r.published, old.found + r.found,
            old.duplicates + r.duplicates,
        )  # fmt: skip
    return by


def describe(planned: ReplayPlan) -> dict[str, object]:
    """The plan as a dry run prints it."""
    metas = [c.meta for c in planned.chunks]
    targets = [t.incarnation.stream for t in planned.targets] or [f"{planned.spec.create_stream} (new)"]
    return {
        "archive": planned.archive.name,
        "chunks": len(metas),
        "messages_at_most": planned.messages,
        "payload_bytes_at_most": planned.payload_bytes,
        "first": f"{metas[0].covers.first} at {format_time(metas[0].first_ns)}" if metas else None,
        "last": f"{metas[-1].covers.last} at {format_time(metas[-1].last_ns)}" if metas else None,
        "subjects": f"{planned.spec.read_subject} to {planned.spec.write_subject}",
        "targets": targets,
        "order": planned.spec.order,
        "mode": "batch" if planned.batched else "window",
    }


def _lacking(catalog: Catalog, archive: Archive, spec: ReplaySpec, chunks: Sequence[Chunk]) -> list[SeqRange]:
    """Sequences of the selection that no chunk holds and that were not deleted at the source. A loss right before or
    after a run of chunks counts: nothing tells on which side of the boundary those messages were."""
    lost = [g for g in catalog.gaps.select(archive) if g.reason in ("expired", "missing")]
    lacking: list[SeqRange] = []
    for incarnation, run in _runs(spec, chunks):
        lacking += catalog.coverage.missing(archive, incarnation, run)
        ranges = (r for g in lost if g.incarnation == incarnation for r in g.ranges)
        lacking += [r for r in ranges if r.first <= run.last + 1 and run.first <= r.last + 1]
    return sorted(set(lacking))


def _runs(spec: ReplaySpec, chunks: Sequence[Chunk]) -> Iterator[tuple[Incarnation, SeqRange]]:
    """The sequence ranges that the selection spans: one an incarnation, or one for each run of selected hours. An hour
    that was selected and has no chunk joins its neighbours: what lies between them must be covered."""
    selected = set(spec.hours)
    open_: Chunk | None = None
    first = last = 0
    for chunk in chunks:
        meta = chunk.meta
        joined = open_ is not None and open_.meta.incarnation == meta.incarnation
        if joined and open_ is not None and selected:
            between = hours_between(hour_start(open_.meta.hour), hour_start(meta.hour))
            joined = selected.issuperset(between)
        if open_ is not None and not joined:
            yield open_.meta.incarnation, SeqRange(first, last)
        first, last = (first if joined else meta.covers.first), meta.covers.last
        open_ = chunk
    if open_ is not None:
        yield open_.meta.incarnation, SeqRange(first, last)


def _wanted(chunk: Chunk, filter_: str) -> bool:
    subjects = chunk.meta.subjects
    return subjects is None or any(matches(filter_, subject) for subject in subjects)


def _check_targets(
    transform: Transform, chunks: Sequence[Chunk], listening: Sequence[tuple[str, Sequence[str]]]
) -> None:
    """Some stream takes every subject that the replay will publish."""
    taken = [subject for _, subjects in listening for subject in subjects]
    hint = Next.CREATE_TARGET()
    if not any(overlap(transform.pattern, subject) for subject in taken):
        raise OperatorError(f"No stream listens on {transform.pattern}", hint)
    if any(covers(subject, transform.pattern) for subject in taken):
        return
    for source in {s for c in chunks for s in c.meta.subjects or ()}:
        target = transform(source)
        if target is not None and not any(matches(subject, target) for subject in taken):
            raise OperatorError(f"No stream listens on {target}, to which {source} would go", hint)
