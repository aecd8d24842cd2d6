"""Opening: a capture's first step. The stream of an archive as it is now is kept as the one that the catalog knows.

Invariant: a stream that was deleted and made again is opened only where a person said so, and then what was not
captured of the earlier one is adopted from the bucket or recorded as lost.
"""

import logging

from nats3_dagster.archive.captures.earlier import adopt_earlier, give_up_earlier
from nats3_dagster.archive.source.observe import Source, observe_source
from nats3_dagster.archive.source.requirements import check_retention
from nats3_dagster.archive.source.stream_changes import forgotten_error
from nats3_dagster.errors import Conflict
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def open_source(workspace: Workspace, archive: Archive, *, adopt: bool = False) -> StreamState:
    """Returns the state of the archive's stream, and keeps it in the catalog.

    A stream that was restored from a backup, and has all that is archived, continues its incarnation. Raises as
    `checked_state` does; with `adopt` a stream that was deleted and made again is archived from here on."""
    source = observe_source(workspace, archive, again=adopt)
    # A backup may have a part of what an object has that no chunk lists. Adopted first, it counts as archived where the
    # two are compared, and is not archived once more as the new stream's.
    if adopt and source.recreated and source.history and adopt_earlier(workspace, archive, source.history.coverage):
        source = observe_source(workspace, archive, again=True)
    if source.is_restored:
        _continue(workspace, archive, source)
    if source.recreated and not adopt:
        raise source.recreated
    state, begins_another = source.state, adopt and not source.is_restored
    if not begins_another:
        # Before its retention is refused: what that removes is absent for this reason, also once it is changed back.
        workspace.catalog.coverage.observe(archive, state)
    check_retention(archive.spec, state)
    if begins_another:
        _begin(workspace, archive, source)
    if changed := forgotten_error(workspace, archive, state):
        raise changed
    return state


def _continue(workspace: Workspace, archive: Archive, source: Source) -> None:
    """Keep that the restored stream continues an incarnation. Raises Conflict if the archive changed meanwhile."""
    assert source.history is not None
    coverage, restored_ns = source.history.coverage, source.state.incarnation.restored_ns
    if not workspace.catalog.coverage.continue_restored(archive, coverage, restored_ns):
        raise Conflict(f"Archive {archive.name} was changed while its stream was compared", "Run it again")
    log.info(
        "%s: stream %s of %s was restored from a backup at %s, and has all that is archived: it goes on",
        archive.name,
        source.state.name,
        format_time(coverage.incarnation.created_ns),
        format_time(restored_ns),
    )


def _begin(workspace: Workspace, archive: Archive, source: Source) -> None:
    """Begin the stream as another incarnation of the archive, and account for the earlier ones."""
    coverage, state = workspace.catalog.coverage, source.state
    coverage.adopt(archive, state, source.history.start if source.history else 1)
    log.info(
        "%s: goes on with stream %s of %s from sequence %d on",
        archive.name,
        state.name,
        format_time(state.incarnation.created_ns),
        coverage.start(archive, state.incarnation),
    )
    give_up_earlier(workspace, archive, state)
