"""Absent sequences between the messages that a durable delivered: which the leader has all the same, and the reasons of
the others.

Invariant: a sequence is called absent only where the durable's own numbers prove it, on the leader's server, or where
the leader was asked.
"""

from nats3_dagster.archive.source.absence import Absences
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.pulled import Uncaptured, absence
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import Gap, Reason

# With more lost ranges than this in a pull its chunks have them inside, and every absent sequence counts as lost: a
# chunk a message would be worse.
MOST_CUTS = 100


class AbsentSequences:
    """Looks at the holes of one task. `inside` is why sequences within its chunks are absent."""

    def __init__(self, job: TakeJob) -> None:
        self._job = job
        self.inside: Reason = Absences(job.state, job.removing, filtered=bool(job.spec.subjects)).inside
        # On another server than the stream's leader the durable delivers that server's copy, which may miss messages
        # that the stream has: then its numbers prove nothing.
        self._of_leader = job.durable.server in ("", job.state.leader)

    def unsent(self, new: Uncaptured, link: Link) -> dict[int, int]:
        """Messages that the leader holds and the durable did not deliver: the first of each hole, by the index of the
        message after it. Raises SourceError."""
        unproven = [hole for hole in new.holes if not (hole.proven and self._of_leader)]
        job = self._job
        held = held_ranges(link, job.state.incarnation, [hole.seqs for hole in unproven], job.spec.subjects)
        return {hole.at: seq for hole, seq in zip(unproven, held, strict=True) if seq is not None}

    def gaps(self, new: Uncaptured, link: Link, unsent: dict[int, int], *, shared: bool) -> dict[int, list[Gap]]:
        """The gaps in the place of holes that no chunk may cover, by the index of the message after each. `shared`:
        whether another client may have acknowledged messages. Raises SourceError."""
        job = self._job
        absent = [hole for hole in new.holes if hole.at not in unsent]
        if not absent:
            return {}
        now = same_stream(link, job.state.incarnation)
        absences = Absences(job.state, job.removing, filtered=bool(job.spec.subjects))
        absences.look(now)
        self.inside = absences.inside
        gaps: dict[int, list[Gap]] = {}
        for hole in absent:
            shared_seq = hole.seqs.last if shared and not (hole.proven and self._of_leader) else 0
            missed_seq = job.deliveries.missed_seq
            parts = list(absence(job.spec, job.state, job.removing, hole.seqs, now, missed_seq, shared_seq))
            if any(part.reason != self.inside for part in parts):
                gaps[hole.at] = parts
        reasons = {gap.reason for parts in gaps.values() for gap in parts} - {self.inside}
        if len(gaps) > MOST_CUTS and reasons == {"undelivered"}:
            self.inside = "undelivered"
            return {}
        return gaps
