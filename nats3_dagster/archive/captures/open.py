"""Opening: a capture's first step. The stream of an archive as it is now is kept as the one that the catalog knows."""

import logging

from nats3_dagster.archive.captures.earlier_streams import adopt_earlier, give_up_earlier
from nats3_dagster.archive.source.buffers import renew
from nats3_dagster.archive.source.observe import Source, observe_source
from nats3_dagster.archive.source.requirements import check_retention
from nats3_dagster.archive.source.stream_changes import forgotten_error
from nats3_dagster.errors import Conflict
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def open_source(
    workspace: Workspace, archive: Archive, *, adopt: bool = False, state: StreamState | None = None
) -> Source:
    """Returns the archive's source as it is now, and records it in the catalog. A stream that was restored from a
    backup, and has all that is archived, continues its incarnation.

    `adopt`: a person said that the archive is to go on with a stream that was deleted and made again; it is then
    another incarnation of the archive. `state`: the stream's, where it was just listed. Raises as `checked_source`
    does, but with `adopt` not for such a stream."""
    if adopt:
        renew(workspace, archive)
    source = _observed(workspace, archive, adopt=adopt, state=state)
    if source.is_restored:
        _continue(workspace, source)
    if adopt and not source.is_restored:
        check_retention(source.archive.spec, source.state)
        _begin(workspace, source)
    elif source.recreated:
        raise source.recreated
    else:
        # Before its retention is refused: what that removes is absent for this reason, also once it is changed back.
        workspace.catalog.coverage.observe(source.archive, source.state)
        check_retention(source.archive.spec, source.state)
    if changed := forgotten_error(workspace, source.archive, source.state):
        raise changed
    return source


def _observed(workspace: Workspace, archive: Archive, *, adopt: bool, state: StreamState | None) -> Source:
    source = observe_source(workspace, archive, again=adopt, state=state)
    # A backup may have a part of what an object has that no chunk lists. Adopted first, it counts as archived where the
    # two are compared, and is not archived once more as the new stream's.
    if adopt and source.recreated and source.history and adopt_earlier(workspace, source):
        return observe_source(workspace, archive, again=True)
    return source


def _continue(workspace: Workspace, source: Source) -> None:
    """Record that the restored stream continues an incarnation. Raises Conflict if the archive changed meanwhile."""
    assert source.history is not None
    archive, state, coverage = source.archive, source.state, source.history.coverage
    if not workspace.catalog.coverage.continue_restored(archive, coverage, state.incarnation.restored_ns):
        raise Conflict(f"Archive {archive.name} was changed while its stream was compared", "Run it again")
    log.info(
        "%s: stream %s of %s was restored from a backup at %s, and has all that is archived: it goes on",
        archive.name,
        state.name,
        format_time(coverage.incarnation.created_ns),
        format_time(state.incarnation.restored_ns),
    )


def _begin(workspace: Workspace, source: Source) -> None:
    """Begin the stream as another incarnation of the archive, and account for the earlier ones."""
    archive, state, coverage = source.archive, source.state, workspace.catalog.coverage
    coverage.begin(archive, state, source.history.start if source.history else 1)
    log.info(
        "%s: goes on with stream %s of %s from sequence %d on",
        archive.name,
        state.name,
        format_time(state.incarnation.created_ns),
        coverage.start(archive, state.incarnation),
    )
    give_up_earlier(workspace, source)
