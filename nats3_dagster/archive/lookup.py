"""Lookup: which chunks of an archive a selection takes, and which of its sequences no chunk holds."""

from collections.abc import Iterable, Iterator, Sequence

from nats3_dagster.hours import hour_start, hours_between
from nats3_dagster.model import Archive, Chunk, Incarnation, Selection, SeqRange, clipped
from nats3_dagster.workspace import Workspace


def chunks_of(workspace: Workspace, archive: Archive, selection: Selection) -> tuple[Chunk, ...]:
    """The live chunks in the hours, times and sequences of the selection, in stream order, with their counts by
    subject. Those of other subjects are among them, because `uncovered` needs them: see `with_subjects`."""
    return workspace.catalog.chunks.select(
        archive, hours=selection.hours or None, time_range=selection.times, seqs=selection.sequences, with_subjects=True
    )


def with_subjects(chunks: Iterable[Chunk], selection: Selection) -> tuple[Chunk, ...]:
    """The chunks that have, or may have, a message of the selected subjects."""
    return tuple(
        c for c in chunks if c.meta.subjects is None or any(selection.takes_subject(s) for s in c.meta.subjects)
    )


def uncovered(workspace: Workspace, archive: Archive, selection: Selection, chunks: Sequence[Chunk]) -> list[SeqRange]:
    """Sequences of the selection that `chunks` (see `chunks_of`) do not hold and that may have been lost, ascending. A
    loss right before or after a run of chunks counts: nothing tells on which side of the boundary those messages
    were."""
    losses = [gap for gap in workspace.catalog.gaps.select(archive) if gap.is_loss]
    ranges: set[SeqRange] = set()
    for incarnation, run in _runs(selection, chunks):
        ranges.update(workspace.catalog.coverage.missing(archive, incarnation, run))
        lost = (r for gap in losses if gap.incarnation == incarnation for r in gap.ranges)
        ranges.update(r for r in lost if r.first <= run.last + 1 and run.first <= r.last + 1)
    every = selection.sequences or SeqRange(0, 2**63)
    for absent in workspace.catalog.chunks.absent_ranges([c.id for c in chunks if c.meta.lost]):
        ranges.update(clipped(absent, every))
    return sorted(ranges)


def _runs(selection: Selection, chunks: Sequence[Chunk]) -> Iterator[tuple[Incarnation, SeqRange]]:
    """The sequence ranges that the selection spans: one for each incarnation, or one for each run of selected hours. An
    hour that was selected and has no chunk joins its neighbours: what lies between them must be covered."""
    hours = set(selection.hours)
    previous: Chunk | None = None
    first = last = 0
    for chunk in chunks:
        meta = chunk.meta
        joined = previous is not None and previous.meta.incarnation == meta.incarnation
        if joined and previous is not None and hours:
            joined = hours.issuperset(hours_between(hour_start(previous.meta.hour), hour_start(meta.hour)))
        if previous is not None and not joined:
            yield previous.meta.incarnation, SeqRange(first, last)
        first, last = (first if joined else meta.covers.first), meta.covers.last
        previous = chunk
    if previous is not None:
        yield previous.meta.incarnation, SeqRange(first, last)
