"""Capture: which sequences of an hour an archive still lacks, and how what was read becomes part of the archive.

The rule kept here: the plan is the hour's sequence bounds minus coverage, so a run is idempotent; and only `commit`
makes a chunk exist, in one Postgres transaction, after its object is safe in the store.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from nats3_dagster.archive.source import source_state
from nats3_dagster.catalog import Catalog
from nats3_dagster.hours import hour_bounds
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.streams import first_seq_at
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, Gap, SeqRange, StreamState
from nats3_dagster.objects import StoreOptions

log = logging.getLogger(__name__)
# Below this many sequences a second task costs more than it saves: it opens a connection and a consumer of its own.
TASK_SEQS = 100_000


@dataclass(frozen=True, slots=True)
class CaptureJob:
    """What every task of one capture needs; pickled into the Spark workers."""

    spec: ArchiveSpec
    state: StreamState
    hour: str
    nats: NatsOptions
    store: StoreOptions
    progress: str | None = None


@dataclass(frozen=True, slots=True)
class CapturePlan:
    """`window`: the hour's sequences (None: the stream has none of it). `missing`: those to read, disjoint, ascending.
    `gaps`: sequences that are already gone. `begun`: the catalog's time before the first object is put."""

    archive: Archive
    job: CaptureJob
    window: SeqRange | None
    missing: tuple[SeqRange, ...]
    gaps: tuple[Gap, ...]
    begun: datetime

    def tasks(self, parallel: int) -> tuple[SeqRange, ...]:
        """`missing` cut for about `parallel` tasks of like size, none below TASK_SEQS unless a range is."""
        total = sum(r.size for r in self.missing)
        size = max(TASK_SEQS, -(-total // max(parallel, 1)))
        return tuple(
            SeqRange(first, min(first + size - 1, r.last))
            for r in self.missing
            for first in range(r.first, r.last + 1, size)
        )


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """What one run added to the archive. `found` counts the hour's sequences that were covered before it."""

    archive: str
    hour: str
    window: SeqRange | None
    found: int
    chunks: tuple[ChunkMeta, ...] = ()
    gaps: tuple[Gap, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def messages(self) -> int:
        return sum(c.messages for c in self.chunks)

    @property
    def payload_bytes(self) -> int:
        return sum(c.payload_bytes for c in self.chunks)

    @property
    def stored_bytes(self) -> int:
        return sum(c.stored_bytes for c in self.chunks)

    @property
    def lost(self) -> int:
        """Sequences that went from the stream before they were captured."""
        return sum(g.size for g in self.gaps if g.reason in ("expired", "missing"))


def plan(
    catalog: Catalog,
    link: Link,
    archive: Archive,
    hour: str,
    nats: NatsOptions,
    store: StoreOptions,
    *,
    adopt: bool = False,
    progress: str | None = None,
) -> CapturePlan:
    """What a capture of this hour has to read. Raises OperatorError for a bad hour, StreamChanged for a stream made
    again."""
    start_ns, end_ns = hour_bounds(hour)
    begun = catalog.now()
    state = source_state(catalog, link, archive, adopt)
    expected = catalog.coverage.start(archive, state.incarnation)
    # Both bounds come from the one function of time that the server has, so that hours tile the sequences whatever the
    # clock did; the end is asked for last, so that an open hour takes all that is there.
    first = max(first_seq_at(link, state.name, start_ns), expected)
    last = first_seq_at(link, state.name, end_ns) - 1
    window = SeqRange(first, last) if first <= last else None
    gone = SeqRange(expected, state.first_seq - 1) if expected < state.first_seq else None
    expired = tuple(catalog.coverage.missing(archive, state.incarnation, gone)) if gone else ()
    return CapturePlan(
        archive=archive,
        job=CaptureJob(archive.spec, state, hour, nats, store, progress),
        window=window,
        missing=tuple(catalog.coverage.missing(archive, state.incarnation, window)) if window else (),
        gaps=(Gap(state.incarnation, expired, "expired"),) if expired else (),
        begun=begun,
    )


def commit(
    catalog: Catalog, planned: CapturePlan, outcomes: Iterable[ChunkMeta | Gap], run_id: str | None = None
) -> CaptureResult:
    """Make what the tasks brought back part of the archive, in one transaction. Raises Conflict when another capture
    committed some of it first: plan again, its coverage counts then."""
    chunks: list[ChunkMeta] = []
    gaps = list(planned.gaps)
    for outcome in outcomes:
        (chunks if isinstance(outcome, ChunkMeta) else gaps).append(outcome)  # type: ignore[arg-type]
    merged = _merge(gaps)
    catalog.chunks.commit(planned.archive, chunks, merged, run_id=run_id, begun=planned.begun)
    result = CaptureResult(
        archive=planned.archive.name,
        hour=planned.job.hour,
        window=planned.window,
        found=(planned.window.size if planned.window else 0) - sum(r.size for r in planned.missing),
        chunks=tuple(sorted(chunks, key=lambda c: c.covers)),
        gaps=merged,
    )
    if result.lost:
        log.warning(
            "%s: %d sequences of stream %s were gone before they were captured (%s)",
            result.archive,
            result.lost,
            planned.job.state.name,
            ", ".join(str(r) for g in merged if g.reason == "expired" for r in g.ranges[:5]),
        )
    return result


def _merge(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """One gap for each reason and incarnation, its ranges ascending."""
    by: dict[tuple[object, str], list[Gap]] = {}
    for gap in gaps:
        by.setdefault((gap.incarnation, gap.reason), []).append(gap)
    return tuple(
        Gap(found[0].incarnation, tuple(sorted(r for g in found for r in g.ranges)), found[0].reason)
        for found in by.values()
    )
