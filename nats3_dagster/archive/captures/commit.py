"""The commit of a capture: what was read becomes part of the archive.

Invariant: only `commit` makes a chunk exist, in one Postgres transaction, after its object is safe in the store.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nats3_dagster.archive.captures.hour_windows import by_hour
from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.source.stream_changes import ends_before_error, rewritten_error
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.streams import confirm_origin, stream_state
from nats3_dagster.model import ChunkMeta, Gap, SeqRange, clipped, listed_ranges
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The additions of one run to the archive."""

    archive: str
    hour: str
    window: SeqRange | None
    # The hour's sequences that were covered before.
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
        return sum(g.size for g in self.gaps if g.is_loss) + sum(c.lost for c in self.chunks)


def commit(
    workspace: Workspace, planned: CapturePlan, outcomes: Iterable[ChunkMeta | Gap]
) -> tuple[CaptureResult, ...]:
    """Make what the tasks brought back part of the archive, in one transaction, and what earlier captures had put into
    the store of sequences that are gone from the stream. Returns what it added to each hour of the plan.

    Raises Conflict when another capture committed some of it first: plan again, its coverage counts then.
    StreamChanged, and nothing is committed, when the stream forgot messages of the windows since they were planned:
    what was read may be of two histories."""
    chunks: list[ChunkMeta] = []
    gaps = list(planned.gaps)
    for outcome in outcomes:
        if isinstance(outcome, ChunkMeta):
            chunks.append(outcome)
        else:
            gaps.append(outcome)
    _check_history(workspace, planned)
    # They import pyarrow, 0.1 s: commands that only ask what is missing do without.
    from nats3_dagster.archive.captures.adopt import settle_absences
    from nats3_dagster.archive.captures.orphans import Orphans

    orphans = Orphans(workspace, planned.archive, (meta.key for meta in chunks))
    settled, remaining = settle_absences(orphans, chunks, merged(gaps))
    fault_point("capture.before_commit")
    workspace.catalog.chunks.commit(
        planned.archive, settled, remaining, begun=planned.begun, source=planned.job.state.incarnation
    )
    fault_point("capture.after_commit")
    _record_witness(workspace, planned)
    results = _results(planned, settled, remaining)
    if lost := sum(result.lost for result in results):
        log.warning(
            "%s: %d sequences of stream %s were gone before they were captured (%s)",
            planned.archive.name,
            lost,
            planned.job.state.name,
            listed_ranges(_lost(settled, remaining)),
        )
    return results


def _lost(chunks: Iterable[ChunkMeta], gaps: Iterable[Gap]) -> list[SeqRange]:
    """Returns the lost sequences; under a filter, those of a chunk are somewhere among all that it covers."""
    lost = [r for gap in gaps if gap.is_loss for r in gap.ranges]
    lost += [r for meta in chunks if meta.lost for r in meta.deleted or [meta.covers]]
    return sorted(lost)


def _results(planned: CapturePlan, chunks: Iterable[ChunkMeta], gaps: Iterable[Gap]) -> tuple[CaptureResult, ...]:
    """The additions to each hour. What lies in no window is the first hour's: sequences that went before this job."""
    windows, first = planned.windows, planned.windows[0].hour
    of_chunks: dict[str, list[ChunkMeta]] = {}
    for meta in sorted(chunks, key=lambda meta: meta.covers):
        # An adopted chunk may have been captured as one of another hour.
        hour = next(iter(by_hour(windows, [meta.covers])), first)
        of_chunks.setdefault(hour, []).append(meta)
    of_gaps: dict[str, list[Gap]] = {}
    for gap in gaps:
        parts = by_hour(windows, gap.ranges)
        if outside := [part for hole in _outside(planned.spans) for part in clipped(gap.ranges, hole)]:
            parts[first] = sorted([*outside, *parts.get(first, ())])
        for hour, ranges in parts.items():
            of_gaps.setdefault(hour, []).append(replace(gap, ranges=tuple(ranges)))
    missing = by_hour(windows, planned.missing)
    return tuple(
        CaptureResult(
            archive=planned.archive.name,
            hour=hour,
            window=seqs,
            found=(seqs.size if seqs else 0) - sum(r.size for r in missing.get(hour, ())),
            chunks=tuple(of_chunks.get(hour, ())),
            gaps=tuple(of_gaps.get(hour, ())),
        )
        for hour, seqs in ((window.hour, window.seqs) for window in windows)
    )


def _outside(spans: Sequence[SeqRange]) -> list[SeqRange]:
    """The sequences before, between and after these spans."""
    firsts, lasts = [0, *(span.last + 1 for span in spans)], [*(span.first - 1 for span in spans), MAX_SEQUENCE]
    return [SeqRange(first, last) for first, last in zip(firsts, lasts, strict=True)]


def _check_history(workspace: Workspace, planned: CapturePlan) -> None:
    """Raises StreamChanged if the stream ends before the last planned window, or has another message at the end of the
    last one that had a message there; for a stream that is read from a buffer also if one of both is another one, or
    gone. SourceError if these do not answer."""
    if not planned.spans:
        return
    planned_state = planned.job.state
    confirm_origin(workspace.link, planned_state.incarnation)
    try:
        state = stream_state(workspace.link, planned_state.name)
        if state.incarnation.created_ns != planned_state.incarnation.server_created_ns:
            return  # what was read of the earlier one is good, and may be all that is left of it
        changed = ends_before_error(planned.archive, state, planned.spans[-1].last)
        if changed is None and planned.witness:
            changed = rewritten_error(workspace.link, planned.archive, state, planned.witness)
    except Nats3Error as error:
        log.info("%s: whether the stream kept its messages is asked next time: %s", planned.archive.name, error)
        return
    if changed:
        raise changed


def _record_witness(workspace: Workspace, planned: CapturePlan) -> None:
    """Record the plan's witness as the one of what is captured, if it is captured."""
    if planned.witness:
        coverage, incarnation = workspace.catalog.coverage, planned.job.state.incarnation
        seq = planned.witness.seq
        if not coverage.missing(planned.archive, incarnation, SeqRange(seq, seq)):
            coverage.record_witness(planned.archive, incarnation, planned.witness)


def merged(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """One gap for each reason and incarnation, its ranges ascending."""
    by_reason: dict[tuple[object, str], list[Gap]] = {}
    for gap in gaps:
        by_reason.setdefault((gap.incarnation, gap.reason), []).append(gap)
    return tuple(
        Gap(same[0].incarnation, tuple(sorted(r for g in same for r in g.ranges)), same[0].reason)
        for same in by_reason.values()
    )
