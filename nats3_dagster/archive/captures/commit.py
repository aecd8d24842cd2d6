"""The commit of a capture: what was read becomes part of the archive.

Invariant: only `commit` makes a chunk exist, in one Postgres transaction, after its object is safe in the store.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.source.stream_changes import ends_before_error, rewritten_error
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ChunkMeta, Gap, SeqRange
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
    workspace: Workspace, planned: CapturePlan, outcomes: Iterable[ChunkMeta | Gap], run_id: str | None = None
) -> CaptureResult:
    """Make what the tasks brought back part of the archive, in one transaction, and what earlier captures had put into
    the store of sequences that are gone from the stream. Raises Conflict when another capture committed some of it
    first: plan again, its coverage counts then. StreamChanged, and nothing is committed, when the stream forgot
    messages of the window since it was planned: what was read may be of two histories."""
    chunks: list[ChunkMeta] = []
    gaps = list(planned.gaps)
    for outcome in outcomes:
        if isinstance(outcome, ChunkMeta):
            chunks.append(outcome)
        else:
            gaps.append(outcome)
    _check_history(workspace, planned)
    # It imports pyarrow, 0.1 s: commands that only ask what is missing do without.
    from nats3_dagster.archive.captures.adopt import adopt, fill

    adopted, remaining = adopt(workspace, planned.archive, merged(gaps))
    chunks = [*fill(workspace, planned.archive, chunks), *adopted]
    fault_point("capture.before_commit")
    workspace.catalog.chunks.commit(
        planned.archive,
        chunks,
        remaining,
        run_id=run_id,
        begun=planned.begun,
        source=planned.job.state.incarnation,
    )
    fault_point("capture.after_commit")
    _keep_witness(workspace, planned)
    result = CaptureResult(
        archive=planned.archive.name,
        hour=planned.job.hour,
        window=planned.window,
        found=(planned.window.size if planned.window else 0) - sum(r.size for r in planned.missing),
        chunks=tuple(sorted(chunks, key=lambda c: c.covers)),
        gaps=remaining,
    )
    if result.lost:
        log.warning(
            "%s: %d sequences of stream %s were gone before they were captured (%s)",
            result.archive,
            result.lost,
            planned.job.state.name,
            ", ".join(str(r) for g in remaining if g.is_loss for r in g.ranges[:5]),
        )
    return result


def uncovered(workspace: Workspace, planned: CapturePlan) -> tuple[SeqRange, ...]:
    """Sequences of the plan's window that are still in no chunk and no gap: none after a complete capture."""
    if not planned.window:
        return ()
    return workspace.catalog.coverage.missing(planned.archive, planned.job.state.incarnation, planned.window)


def _check_history(workspace: Workspace, planned: CapturePlan) -> None:
    """Raises StreamChanged if the stream ends before the planned window, or has another message at its end."""
    if planned.window is None:
        return
    planned_state = planned.job.state
    try:
        state = stream_state(workspace.link, planned_state.name)
        if state.incarnation.created_ns != planned_state.incarnation.server_created_ns:
            return  # what was read of the earlier one is good, and may be all that is left of it
        changed = ends_before_error(planned.archive, state, planned.window.last)
        if changed is None and planned.witness:
            changed = rewritten_error(workspace.link, planned.archive, state, planned.witness)
    except Nats3Error as error:
        log.info("%s: whether the stream kept its messages is asked next time: %s", planned.archive.name, error)
        return
    if changed:
        raise changed


def _keep_witness(workspace: Workspace, planned: CapturePlan) -> None:
    """Keep the window's last message as the witness of what is captured, if it is."""
    if planned.witness:
        coverage, incarnation = workspace.catalog.coverage, planned.job.state.incarnation
        seq = planned.witness.seq
        if not coverage.missing(planned.archive, incarnation, SeqRange(seq, seq)):
            coverage.keep_witness(planned.archive, incarnation, planned.witness)


def merged(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """One gap for each reason and incarnation, its ranges ascending."""
    by_reason: dict[tuple[object, str], list[Gap]] = {}
    for gap in gaps:
        by_reason.setdefault((gap.incarnation, gap.reason), []).append(gap)
    return tuple(
        Gap(same[0].incarnation, tuple(sorted(r for g in same for r in g.ranges)), same[0].reason)
        for same in by_reason.values()
    )
