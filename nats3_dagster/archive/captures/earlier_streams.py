"""Earlier streams: what is left of the incarnations before the stream that an archive goes on with.

Invariant: what objects in the bucket have of an earlier incarnation is adopted, and what else was not captured of it is
recorded as lost, as far as it was ever seen.
"""

import logging

from nats3_dagster.archive.source.observe import Source
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, ChunkMeta, Coverage, Gap, SeqRange, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def adopt_earlier(workspace: Workspace, source: Source) -> bool:
    """Adopts what objects have of the incarnation that shares its history with the stream, and records no gap. False if
    there is none."""
    assert source.history is not None
    earlier = source.history.coverage
    gap = _uncaptured(workspace, source.archive, earlier, _last_seen(workspace, earlier)[1])
    return bool(gap and _adopted(workspace, source.archive, gap, with_gaps=False)[0])


def give_up_earlier(workspace: Workspace, source: Source) -> None:
    """Record as lost what was not captured of the stream's earlier incarnations, as far as they were ever seen."""
    archive, state, catalog = source.archive, source.state, workspace.catalog
    for earlier in catalog.coverage.all(archive):
        if earlier.incarnation == state.incarnation:
            continue
        seen, last = _last_seen(workspace, earlier)
        # No message can have come to a stream that was sealed.
        if earlier.unknown_after is None and not (seen and seen.config.get("sealed")):
            catalog.coverage.record_unknown_end(archive, earlier.incarnation, last)
        if gap := _uncaptured(workspace, archive, earlier, last):
            _, gaps = _adopted(workspace, archive, gap, with_gaps=True)
            log.warning(
                "%s: %d sequences of stream %s of %s went with it before they were captured",
                archive.name,
                sum(gap.size for gap in gaps),
                state.name,
                format_time(earlier.incarnation.created_ns),
            )


def _last_seen(workspace: Workspace, earlier: Coverage) -> tuple[StreamState | None, int]:
    """Returns the last state of an earlier incarnation, None if there is none, and its last sequence that was seen."""
    seen = workspace.catalog.coverage.last_state(earlier.incarnation)
    return seen, max(earlier.last, seen.last_seq if seen else 0)


def _uncaptured(workspace: Workspace, archive: Archive, earlier: Coverage, last: int) -> Gap | None:
    """Returns the sequences up to `last` of an earlier incarnation that the archive does not have."""
    if last < earlier.start:
        return None
    missing = workspace.catalog.coverage.missing(archive, earlier.incarnation, SeqRange(earlier.start, last))
    return Gap(earlier.incarnation, tuple(missing), "missing") if missing else None


def _adopted(
    workspace: Workspace, archive: Archive, gap: Gap, *, with_gaps: bool
) -> tuple[tuple[ChunkMeta, ...], tuple[Gap, ...]]:
    """Commits what objects have of the gap, with or without what remains of it. Returns both."""
    # They import pyarrow, 0.1 s, and it is rare.
    from nats3_dagster.archive.captures.adopt import adopt
    from nats3_dagster.archive.captures.orphans import Orphans

    begun = workspace.catalog.now()
    adopted, gaps = adopt(Orphans(workspace, archive), [gap])
    if adopted or with_gaps:
        workspace.catalog.chunks.commit(archive, adopted, gaps if with_gaps else (), begun=begun, what="adopted")
    return adopted, gaps
