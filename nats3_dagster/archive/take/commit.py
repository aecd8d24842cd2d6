"""The commit of a round: what was taken becomes part of the archive, and is acknowledged then.

Invariant: a message is acknowledged only after the catalog has it.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa

from nats3_dagster.archive.captures.adopt import settle_absences
from nats3_dagster.archive.captures.commit import merged
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.take.job import Perform
from nats3_dagster.archive.take.plan import TakePlan
from nats3_dagster.archive.take.pulled import Receipt
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.take.acknowledge import acknowledge, give_back
from nats3_dagster.jetstream.take.turns import Turns
from nats3_dagster.model import Archive, ChunkMeta, Gap
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Round:
    """The additions of one round to the archive."""

    chunks: tuple[ChunkMeta, ...]
    gaps: tuple[Gap, ...]
    # Messages that came again and were in the archive already.
    known: int
    # As in `Pulled`.
    full: bool
    elsewhere: int

    @property
    def messages(self) -> int:
        return sum(chunk.messages for chunk in self.chunks)


def take_round(workspace: Workspace, planned: TakePlan, perform: Perform, report: Callable[[int], None]) -> Round:
    """Takes one round of messages, and acknowledges each; `report` is called with the messages that are archived.
    Raises Nats3Error."""
    turns = planned.job.turns
    with Turns(workspace.link, turns) if turns else nullcontext():
        outcomes, error = perform(planned.job)
    done = commit(workspace, planned, outcomes)
    if error:
        raise error
    report(done.messages)
    return done


def commit(workspace: Workspace, planned: TakePlan, outcomes: Iterable[object]) -> Round:
    """Make what the tasks brought back part of the archive, in one transaction, and what earlier runs had put into the
    store of sequences that are gone; then acknowledge it.

    Raises Conflict when another process committed some of it: the messages are given back, and come again. SourceError
    when the server does not confirm: they are in the archive, come again, and are then only acknowledged."""
    every = list(outcomes)
    chunks = tuple(o for o in every if isinstance(o, ChunkMeta))
    gaps = tuple(o for o in every if isinstance(o, Gap))
    receipts = [o for o in every if isinstance(o, Receipt)]
    replies, late = (
        pa.concat_arrays([pa.array([], pa.binary()), *some])
        for some in ([r.replies for r in receipts], [r.late for r in receipts])
    )
    nats = workspace.settings.nats
    deliveries = planned.job.deliveries
    accounted = deliveries.accounted + sum(r.accounted for r in receipts)
    most = max([deliveries.most, *(r.most for r in receipts)])
    try:
        taken = sum(c.messages for c in chunks)
        orphans = Orphans(workspace, planned.archive, (c.key for c in chunks))
        chunks, gaps = settle_absences(orphans, chunks, merged(gaps))
        # What an earlier run had taken was delivered once at least.
        accounted += sum(c.messages for c in chunks) - taken
        deliveries = replace(deliveries, accounted=accounted, most=most)
        fault_point("take.before_commit")
        if chunks or gaps:
            workspace.catalog.chunks.commit(
                planned.archive,
                chunks,
                gaps,
                begun=planned.begun,
                deliveries=deliveries,
                source=planned.job.state.incarnation,
            )
        elif len(replies):
            workspace.catalog.durables.record(planned.archive, deliveries)
    except BaseException:
        _give_back(workspace, planned.archive, pa.concat_arrays([replies, late]))
        raise
    fault_point("take.committed")
    acknowledge(nats, replies)
    fault_point("take.acknowledged")
    _give_back(workspace, planned.archive, late)
    return Round(
        chunks, gaps, sum(r.known for r in receipts), any(r.full for r in receipts), sum(r.elsewhere for r in receipts)
    )


def _give_back(workspace: Workspace, archive: Archive, replies: pa.Array) -> None:
    """Let the server deliver these messages again at once. A failure is logged alone: the messages come again in any
    case, and neither hides the error before it nor fails a round that is committed."""
    try:
        give_back(workspace.settings.nats, replies)
    except Nats3Error as error:
        log.warning(
            "%s: %d messages come again after the consumer's ack_wait, and not at once: %s",
            archive.name,
            len(replies),
            error,
        )
