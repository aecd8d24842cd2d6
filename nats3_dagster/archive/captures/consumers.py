"""The consumers of the stream, kept beside the chunks at the end of a capture and of a seal.

Invariant: the object is put first, then the catalog has it. A process that dies in between leaves an orphan: the next
capture asks the stream again, and a sweep removes the orphan once something later is kept. What fails here fails no
capture: it is logged, and the catalog has it for everybody to see until it succeeds.
"""

import logging
import time

from nats3_dagster.archive.source.observe import source_state
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.archive_folder import ArchiveFolder, folder_of
from nats3_dagster.chunks.consumers import ConsumersDocument
from nats3_dagster.errors import CatalogError, Nats3Error, StreamChanged
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.consumers.positions import Positions, durables_of
from nats3_dagster.model import Archive, StreamState
from nats3_dagster.model.consumer import KeptConsumers
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def record_consumers(workspace: Workspace, archive: Archive, state: StreamState | None = None) -> KeptConsumers | None:
    """Keep the durables of the archive's stream as they are now, if they changed since they were kept last; what was
    kept. `state`: of the stream, where it was asked a moment ago. An error is recorded and not raised."""
    try:
        kept, problem = _keep(workspace, folder_of(workspace, archive), state)
    except Nats3Error as error:
        kept, problem = None, error
    try:
        if problem:
            log.warning("%s: the positions of consumers are not kept as they are: %s", archive.name, problem)
            workspace.catalog.consumers.record_problem(archive, problem)
        else:
            workspace.catalog.consumers.forget_problem(archive)
    except CatalogError as error:
        log.warning("%s: %s", archive.name, error)
    return kept


def record_where_complete(workspace: Workspace, archive: Archive) -> KeptConsumers | None:
    """`record_consumers` where there is nothing to capture. A folder that is not the archive's own is left as it is:
    the next capture says so."""
    try:
        folder.require(workspace, archive)
    except Nats3Error as error:
        log.warning("%s: the positions of consumers are not kept: %s", archive.name, error)
        return None
    return record_consumers(workspace, archive)


def _keep(
    workspace: Workspace, own_folder: ArchiveFolder, state: StreamState | None
) -> tuple[KeptConsumers | None, Nats3Error | None]:
    """Returns the object, and why its positions are not exact where they could be. Raises Nats3Error."""
    archive, catalog = own_folder.archive, workspace.catalog
    # Its own: consumers are not those of a buffer.
    state = (state or source_state(workspace, archive)).own
    if state.config.get("retention") == "workqueue":
        # Its consumers take messages out of it: in a stream with all of them no position means the same.
        return None, None
    if state.incarnation not in catalog.coverage.incarnations(archive):
        # Restored or made again since the last capture, which alone decides what it is.
        return None, None
    begun = catalog.now()
    positions = Positions(())
    # One may be the archive's own.
    if state.consumers > (archive.spec.mode == "consumer"):
        positions = durables_of(workspace.link, state.name, _own(workspace, archive))
        again = source_state(workspace, archive).own
        if again.incarnation != state.incarnation:
            raise StreamChanged(f"Stream {state.name} was made again while its consumers were asked for")
        state = again
    spec = archive.spec
    # By the server's clock, as the times of messages are.
    observed_ns = state.answered_ns or time.time_ns()
    document = ConsumersDocument(
        spec.name,
        state.name,
        spec.prefix,
        state.incarnation.created_ns,
        observed_ns,
        state.last_seq,
        positions.consumers,
    )
    newest = catalog.consumers.newest(archive, state.incarnation)
    if (newest.content if newest else _NONE) == document.content or (newest and newest.observed_ns >= observed_ns):
        return None, positions.problem
    kept = _put(own_folder, document)
    fault_point("consumers.object_put")
    if not catalog.consumers.add(archive, state.incarnation, kept, begun=begun):
        return None, positions.problem
    fault_point("consumers.added")
    return kept, positions.problem


# The content where nothing is kept: no consumer.
_NONE = ConsumersDocument("", "", "", 0, 0, 0, ()).content


def _own(workspace: Workspace, archive: Archive) -> list[str]:
    """The durables through which archives take messages of this stream."""
    return [
        one.spec.durable
        for one in workspace.catalog.archives.all()
        if one.spec.stream == archive.spec.stream and one.spec.durable
    ]


def _put(own_folder: ArchiveFolder, document: ConsumersDocument) -> KeptConsumers:
    """Put the document beside the chunks of its hour. Raises StoreError, ChunkError for one that is too large."""
    data, key = document.encode()
    kept = document.kept(own_folder.bucket.name, key, data)
    own_folder.bucket.put_new(key, data, kept.sha256)
    return kept
