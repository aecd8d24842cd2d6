"""The deliveries of an archive's durable that the archive accounts for.

Invariant: a durable that was made again, or counts from an earlier number on, is recorded before its count is used.
"""

import logging

from nats3_dagster.hours import CLOCKS_S, SECOND_NS, format_time
from nats3_dagster.jetstream.read.times import first_held_at
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.model import Archive, Deliveries
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def record_durable(workspace: Workspace, archive: Archive, durable: Durable) -> Deliveries:
    """Returns the deliveries of the durable that the archive accounts for, and records them if it is not the one that
    the catalog knows. One that was made again since counts from its acknowledged ones on, and what was stored before it
    was made may be lost. Raises SourceError."""
    deliveries = workspace.catalog.durables.deliveries(archive)
    if deliveries and deliveries.created_ns == durable.created_ns:
        if durable.session == deliveries.session and durable.consumer_seq >= deliveries.consumer_seq:
            return deliveries
        # Its server forgot deliveries, a client set it back, or it had sessions that this catalog does not know: its
        # numbers say nothing of what it delivered before.
        # What was delivered and not acknowledged comes again, in the next session or after its ack_wait.
        missed_seq = durable.floor_seq if durable.acks_by_flow else durable.delivered_seq
        log.warning("%s: consumer %s counts its deliveries from another number on", archive.name, durable.name)
    else:
        missed_seq = _last_before(workspace, durable)
        log.warning(
            "%s: consumer %s was made again at %s: what no consumer kept meanwhile is lost",
            archive.name,
            durable.name,
            format_time(durable.created_ns),
        )
    deliveries = Deliveries(
        durable.created_ns,
        durable.floor_consumer_seq,
        missed_seq=max(missed_seq, durable.floor_seq),
        session=durable.session,
    )
    workspace.catalog.durables.record(archive, deliveries)
    return deliveries


def _last_before(workspace: Workspace, durable: Durable) -> int:
    """Returns the last sequence that may have been stored before the durable was made."""
    client = workspace.link.client
    # The clocks of several servers differ.
    margin_ns = CLOCKS_S * SECOND_NS if client.info.get("cluster") or not client.is_own_jetstream else 0
    return first_held_at(workspace.link, durable.stream, durable.created_ns + margin_ns) - 1
