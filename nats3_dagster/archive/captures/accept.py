"""Acceptance: the stream of an archive as it is now becomes the one that the catalog knows.

Invariant: a stream that was deleted and made again is accepted only where a person said so, and then what was not
captured of the earlier one is adopted from the bucket or recorded as lost.
"""

import logging

from nats3_dagster.archive.source.observe import observe_source
from nats3_dagster.archive.source.requirements import check_retention, check_sequences
from nats3_dagster.archive.source.restored import History, continuing
from nats3_dagster.archive.source.stream_changes import forgotten_error
from nats3_dagster.errors import Conflict
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.server import check_version, server_info
from nats3_dagster.model import Archive, ChunkMeta, Coverage, Gap, SeqRange, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def accept_source(workspace: Workspace, archive: Archive, *, adopt: bool = False) -> StreamState:
    """Returns the archive's stream as it is now, and records it in the catalog.

    A stream that was restored from a backup, and has all that is archived, continues its incarnation. Raises
    StreamChanged when the stream was deleted and made again since the last capture, unless `adopt` says to go on with
    the new one; and when it forgot messages that are archived of it. UnknownStream if it is gone, OperatorError if it
    has another retention than an archive needs, or its server is too old."""
    check_version(server_info(workspace.link))
    coverage = workspace.catalog.coverage
    observed = observe_source(workspace, archive, again=adopt)
    older = observed.history if adopt and not observed.is_restored else None
    # A backup may have a part of what an object has that no chunk lists. Adopted first, it counts as archived where the
    # two are compared, and is not archived once more as the new stream's.
    if older and _adopt_earlier(workspace, archive, older.coverage):
        observed = observe_source(workspace, archive, again=True)
    state, history = observed.state, observed.history
    check_sequences(state)
    if history and observed.is_restored:
        state = _continued(workspace, archive, history, state)
        adopt = False
    if not adopt:
        if observed.recreated:
            raise observed.recreated
        # Before its retention is refused: what that removes is absent for this reason, also once it is changed back.
        coverage.observe(archive, state)
    check_retention(archive.spec, state)
    if adopt:
        coverage.adopt(archive, state, history.start if history else 1)
        log.info(
            "%s: goes on with stream %s of %s from sequence %d on",
            archive.name,
            state.name,
            format_time(state.incarnation.created_ns),
            coverage.start(archive, state.incarnation),
        )
        _give_up_earlier(workspace, archive, state)
    if changed := forgotten_error(workspace, archive, state):
        raise changed
    return state


def _continued(workspace: Workspace, archive: Archive, history: History, state: StreamState) -> StreamState:
    """The state of a restored stream that continues an incarnation, kept as such. Raises Conflict if the archive
    changed meanwhile."""
    incarnation = history.coverage.incarnation
    if not workspace.catalog.coverage.continue_restored(archive, history.coverage, state.incarnation.created_ns):
        raise Conflict(f"Archive {archive.name} was changed while its stream was compared", "Run it again")
    log.info(
        "%s: stream %s of %s was restored from a backup at %s, and has all that is archived: it goes on",
        archive.name,
        state.name,
        format_time(incarnation.created_ns),
        format_time(state.incarnation.created_ns),
    )
    return continuing(state, incarnation)


def _adopt_earlier(workspace: Workspace, archive: Archive, earlier: Coverage) -> bool:
    """Adopts what objects have of an earlier incarnation, and records no gap. False if there is none."""
    gap = _uncaptured(workspace, archive, earlier)
    return bool(gap and _adopted(workspace, archive, gap, with_gaps=False)[0])


def _give_up_earlier(workspace: Workspace, archive: Archive, state: StreamState) -> None:
    """Record as lost what was not captured of the stream's earlier incarnations, as far as they were ever seen."""
    catalog = workspace.catalog
    for earlier in catalog.coverage.all(archive):
        if earlier.incarnation == state.incarnation:
            continue
        seen = catalog.coverage.last_state(earlier.incarnation)
        # No message can have come to a stream that was sealed.
        if earlier.unknown_after is None and not (seen and seen.config.get("sealed")):
            last = max(earlier.last, seen.last_seq if seen else 0)
            catalog.coverage.record_unknown_end(archive, earlier.incarnation, last)
        if gap := _uncaptured(workspace, archive, earlier):
            _, gaps = _adopted(workspace, archive, gap, with_gaps=True)
            log.warning(
                "%s: %d sequences of stream %s of %s went with it before they were captured",
                archive.name,
                sum(gap.size for gap in gaps),
                state.name,
                format_time(earlier.incarnation.created_ns),
            )


def _uncaptured(workspace: Workspace, archive: Archive, earlier: Coverage) -> Gap | None:
    """Returns the sequences of an earlier incarnation that the archive does not have, as far as it was ever seen."""
    seen = workspace.catalog.coverage.last_state(earlier.incarnation)
    last = max(earlier.last, seen.last_seq if seen else 0)
    if last < earlier.start:
        return None
    missing = workspace.catalog.coverage.missing(archive, earlier.incarnation, SeqRange(earlier.start, last))
    return Gap(earlier.incarnation, tuple(missing), "missing") if missing else None


def _adopted(
    workspace: Workspace, archive: Archive, gap: Gap, *, with_gaps: bool
) -> tuple[tuple[ChunkMeta, ...], tuple[Gap, ...]]:
    """Commits what objects have of the gap, with or without what remains of it. Returns both."""
    # It imports pyarrow, 0.1 s, and is rare.
    from nats3_dagster.archive.captures.adopt import adopt

    begun = workspace.catalog.now()
    adopted, gaps = adopt(workspace, archive, [gap])
    if adopted or with_gaps:
        workspace.catalog.chunks.commit(archive, adopted, gaps if with_gaps else (), begun=begun, what="adopted")
    return adopted, gaps
