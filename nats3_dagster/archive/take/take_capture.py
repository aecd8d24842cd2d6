"""The worker's side of a capture through a durable: pull messages, write chunks, put them into the store.

Invariant: nothing is acknowledged here. The receipt comes last, when every object is in the store; a failure before it
gives the messages back.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace

import pyarrow as pa

from nats3_dagster.archive.captures.rewrite import Origin
from nats3_dagster.archive.take.absent import AbsentSequences
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.pulled import PreviousTasks, Receipt, Uncaptured, uncaptured
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.take.pull import Pull
from nats3_dagster.jetstream.take.turns import Turn
from nats3_dagster.model import ChunkMeta, Gap, SeqRange
from nats3_dagster.objects import Bucket

Outcome = ChunkMeta | Gap | Receipt
# pa.array() imports pandas, which takes 0.28 s of processor time, into each process that imports this module.
_NOTHING = pa.nulls(0, pa.binary())


class TakeCapture:
    """A task of one round. `outcomes()` yields a ChunkMeta for each object that is in the store, Gaps, and last the
    Receipt."""

    def __init__(self, job: TakeJob, task: int = 0) -> None:
        """`task`: the number of the task, from 0 on."""
        self._job, self._task = job, task
        self._bucket = Bucket(job.store, job.spec.bucket)
        self._absent = AbsentSequences(job)

    def outcomes(self) -> Iterator[Outcome]:
        job = self._job
        pull = Pull(job.nats, job.state.incarnation, job.durable)
        with ExitStack() as stack:
            with Turn(job.nats, job.turns, self._task) as turn:
                if turn.state is None:
                    yield Receipt(_NOTHING, 0, turn.was_given, 0, _NOTHING)
                    return
                ahead = PreviousTasks(**turn.state)
                stack.enter_context(pull)
                room = min(job.limits.messages, job.most_held - ahead.held)
                pulled = pull.take(replace(job.limits, messages=room, held=ahead.held))
                new = uncaptured(pulled, job.covered, job.spans, ahead, job.deliveries.most)
                if pulled.full and new.ahead.held < job.most_held:
                    turn.next = asdict(new.ahead)
            fault_point("take.claimed")
            # A message that another client has not acknowledged was delivered once at least, and comes again.
            rest = job.deliveries.unaccounted(pulled.consumer_seq) - new.ahead.accounted - pulled.elsewhere
            if len(new.seqs):
                yield from self._chunks(new, ahead, pull.link, shared=rest > 0)
            replies, late = (pulled.replies.filter(pa.array(mask)) for mask in (~new.late, new.late))
            yield Receipt(
                replies,
                len(replies) - len(new.seqs),
                pulled.full or len(late) > 0,
                pulled.elsewhere,
                late,
                int(new.deliveries[~new.late].sum()),
                int(pulled.counts[~new.late].max(initial=1)),
            )

    def _chunks(self, new: Uncaptured, ahead: PreviousTasks, link: Link, *, shared: bool) -> Iterator[ChunkMeta | Gap]:
        """Chunks and gaps in the order of the stream. A chunk ends where the hour does, before something covered, and
        before a hole that it may not cover. `shared`: whether another client may have acknowledged messages."""
        unsent = self._absent.unsent(new, link)
        gaps = self._absent.gaps(new, link, unsent, shared=shared)
        cuts: dict[int, list[Gap]] = {at: [] for at in (*new.barriers, *unsent)} | gaps
        ordered = sorted({0, *cuts, *new.turns})
        first = ahead.seq + 1 if ahead.seq else int(new.seqs[0])
        for at, end in zip(ordered, [*ordered[1:], len(new.seqs)], strict=True):
            if at in cuts:
                yield from cuts[at]
                first = int(new.seqs[at])
            yield from self._write(new, at, end, first)
            first = int(new.seqs[end - 1]) + 1

    def _write(self, new: Uncaptured, at: int, end: int, first: int) -> Iterator[ChunkMeta]:
        """The messages from `at` to before `end`, of one hour, as chunks that cover the sequences from `first` on."""
        spec, state = self._job.spec, self._job.state
        hour = hour_of(int(new.hours[at]) * HOUR_NS)
        origin = Origin(spec, state.incarnation, hour, dict(state.config), spec.subjects)
        batches = new.messages.slice(at, end - at).to_batches()
        while batches:
            writer = origin.writer()
            last = first
            while batches:
                rows = writer.room(batches[0])
                if not rows:
                    break
                writer.write(batches[0].slice(0, rows))
                last = batches[0].column("seq")[rows - 1].as_py()
                rest = batches[0].slice(rows)
                batches[:1] = [rest] if rest.num_rows else []
            data, meta = writer.finish(SeqRange(first, last), self._absent.inside)
            self._bucket.put_new(meta.key, data, meta.sha256)
            fault_point("take.object_put")
            yield meta
            first = last + 1
