"""Opening: a capture's first step. The stream of an archive as it is now is kept as the one that the catalog knows."""

import logging

from nats3_dagster.archive.source.observe import Source, observe_source
from nats3_dagster.archive.source.requirements import check_retention
from nats3_dagster.archive.source.stream_changes import forgotten_error
from nats3_dagster.errors import Conflict
from nats3_dagster.hours import format_time
from nats3_dagster.model import Archive, StreamState
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def open_source(workspace: Workspace, archive: Archive) -> StreamState:
    """Returns the state of the archive's stream, and records it in the catalog.

    A stream that was restored from a backup, and has all that is archived, continues its incarnation. Raises as
    `checked_state` does: `open_another` opens a stream that was deleted and made again."""
    return record_observed(workspace, archive, observe_source(workspace, archive))


def record_observed(workspace: Workspace, archive: Archive, source: Source) -> StreamState:
    """Records in the catalog what was observed of the stream. Raises as `open_source` does."""
    if source.is_restored:
        _continue(workspace, archive, source)
    if source.recreated:
        raise source.recreated
    # Before its retention is refused: what that removes is absent for this reason, also once it is changed back.
    workspace.catalog.coverage.observe(archive, source.state)
    check_retention(archive.spec, source.state)
    if changed := forgotten_error(workspace, archive, source.state):
        raise changed
    return source.state


def _continue(workspace: Workspace, archive: Archive, source: Source) -> None:
    """Record that the restored stream continues an incarnation. Raises Conflict if the archive changed meanwhile."""
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
