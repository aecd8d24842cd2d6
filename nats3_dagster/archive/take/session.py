"""A session with a durable whose flow control acknowledges: the driver's side. It begins at the acknowledgement floor,
and what the task hands over is committed while the task goes on.

Invariants: the task may acknowledge up to a message only once the catalog has all that the stream's leader holds up to
there. Sessions are one after the other, and what an earlier one did not acknowledge comes again.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from nats3_dagster.archive.captures.adopt import settle_absences
from nats3_dagster.archive.captures.commit import merged
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.source.durables import may_have_lost, observe_durable
from nats3_dagster.archive.take.commit import Round
from nats3_dagster.archive.take.flow_capture import Handed, SessionEnd
from nats3_dagster.archive.take.job import Perform
from nats3_dagster.archive.take.plan import TakePlan
from nats3_dagster.errors import Nats3Error
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.read.breaks import left_out
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.jetstream.take.flow_session import begin_session, end_session
from nats3_dagster.jetstream.take.handover import Channel, Handovers
from nats3_dagster.model import ChunkMeta, Deliveries, Gap, SeqRange
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def take_session(workspace: Workspace, planned: TakePlan, perform: Perform, report: Callable[[int], None]) -> Round:
    """Takes what waits in the durable, up to the last sequence of the plan; `report` is called with the messages that
    are archived. `full` of what comes back: another session is needed. Raises Nats3Error; what was committed before is
    then in the archive."""
    session = _Session(workspace, planned, report)
    outcomes, error = session.run(perform)
    if error:
        raise error
    ends = [outcome for outcome in outcomes if isinstance(outcome, SessionEnd)]
    known, broke_off = sum(e.known for e in ends), any(e.broke_off for e in ends)
    return Round(tuple(session.chunks), tuple(session.gaps), known, full=broke_off, elsewhere=0)


@dataclass
class _Session:
    """The state of one session."""

    workspace: Workspace
    planned: TakePlan
    report: Callable[[int], None]
    chunks: list[ChunkMeta] = field(default_factory=list[ChunkMeta])
    gaps: list[Gap] = field(default_factory=list[Gap])

    def run(self, perform: Perform) -> tuple[Iterable[object], Nats3Error | None]:
        workspace, planned = self.workspace, self.planned
        archive, link = planned.archive, workspace.link
        durable = planned.job.durable
        self._deliveries = self._accounted(durable, planned.job.deliveries)
        durable = begin_session(link, durable)
        self._floor = durable.floor_seq
        self._record(durable)
        job = replace(planned.job, durable=durable, deliveries=self._deliveries, channel=Channel())
        assert job.channel
        with Handovers(link, job.channel, self._commit) as handovers:
            outcomes, error = perform(job)
        handovers.check()
        if error is None:
            now = observe_durable(workspace, archive)
            self._deliveries = self._accounted(now, self._deliveries)
            self._record(end_session(link, now))
        return outcomes, error

    def _commit(self, handed: Handed) -> None:
        """Make it part of the archive. Raises Conflict when another process committed some of it, SourceError where the
        stream's leader holds a message before its end that no chunk has: then nothing more is acknowledged."""
        workspace, planned = self.workspace, self.planned
        archive, incarnation = planned.archive, planned.job.state.incarnation
        chunks = tuple(o for o in handed.outcomes if isinstance(o, ChunkMeta))
        gaps = tuple(o for o in handed.outcomes if isinstance(o, Gap))
        chunks, gaps = settle_absences(Orphans(workspace, archive, (c.key for c in chunks)), chunks, merged(gaps))
        self._deliveries = replace(self._deliveries, consumer_seq=handed.upto.number)
        fault_point("take.before_commit")
        if chunks or gaps:
            workspace.catalog.chunks.commit(
                archive, chunks, gaps, begun=planned.begun, deliveries=self._deliveries, source=incarnation
            )
        else:
            workspace.catalog.durables.record(archive, self._deliveries)
        fault_point("take.committed")
        self._check_held(SeqRange(self._floor + 1, handed.upto.seq))
        self._floor = handed.upto.seq
        self.chunks += chunks
        self.gaps += gaps
        self.report(sum(chunk.messages for chunk in self.chunks))

    def _check_held(self, seqs: SeqRange) -> None:
        """Raises SourceError if the leader holds a message of these sequences that the catalog does not account for. To
        acknowledge a later one would remove it."""
        job, archive = self.planned.job, self.planned.archive
        if seqs.size <= 0:
            return
        missing = self.workspace.catalog.coverage.missing(archive, job.state.incarnation, seqs)
        for held in held_ranges(self.workspace.link, job.state.incarnation, missing, archive.spec.subjects):
            if held is not None:
                raise left_out(job.state.name, job.durable.server, held)

    def _accounted(self, durable: Durable, deliveries: Deliveries) -> Deliveries:
        """The deliveries, with what may have been acknowledged by another hand: it is up to the floor, and in no
        chunk."""
        if not may_have_lost(deliveries, durable):
            return deliveries
        log.warning("%s: consumer %s has acknowledged what was not archived", self.planned.archive.name, durable.name)
        return replace(deliveries, missed_seq=max(deliveries.missed_seq, durable.floor_seq))

    def _record(self, durable: Durable) -> None:
        """The durable counts from here on: its floor is where it is, and its numbers begin again."""
        self._deliveries = Deliveries(
            durable.created_ns, 0, missed_seq=self._deliveries.missed_seq, session=durable.session
        )
        self.workspace.catalog.durables.record(self.planned.archive, self._deliveries)
