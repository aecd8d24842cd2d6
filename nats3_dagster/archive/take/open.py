"""Opening in the mode `consumer`: the stream, as in every capture, and then the durable. It is there, or made again."""

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.durables import make_again, observe_durable
from nats3_dagster.archive.source.observe import Source
from nats3_dagster.archive.take.deliveries import record_durable
from nats3_dagster.errors import UnknownConsumer
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace


def open_with_durable(workspace: Workspace, archive: Archive, *, adopt: bool = False) -> Source:
    """Returns the source as it is at the beginning of a run, which goes as far as the stream's last sequence. With
    `adopt` a durable that was deleted is made again; what went meanwhile is recorded as lost.

    Raises StreamChanged, UnknownStream, UnknownConsumer."""
    source = open_source(workspace, archive, adopt=adopt)
    durable = _durable(workspace, source, adopt=adopt)
    missed_seq = record_durable(workspace, source.archive, durable).missed_seq
    # What a durable missed that was made again is accounted for in this run.
    return open_source(workspace, archive) if missed_seq > source.state.last_seq else source


def _durable(workspace: Workspace, source: Source, *, adopt: bool) -> Durable:
    try:
        return observe_durable(workspace, source.archive)
    except UnknownConsumer:
        if not adopt:
            raise
    durable = make_again(workspace, source)
    fault_point("take.made_again")
    return durable
