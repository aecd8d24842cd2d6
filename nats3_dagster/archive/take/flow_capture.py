"""The worker's side of a capture through a durable whose flow control acknowledges: receive, write chunks, put them
into the store, hand them to the driver, and acknowledge what it has committed, all at one time.

Invariant: an acknowledgement names nothing that the driver did not take before; what it takes is in the catalog.
"""

import logging
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.captures.rewrite import Origin
from nats3_dagster.archive.captures.upload import Uploads
from nats3_dagster.archive.take.absent import AbsentSequences
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.pulled import PreviousTasks, Uncaptured, uncaptured
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.chunks.columns import CHUNK_BYTES, CHUNK_MESSAGES
from nats3_dagster.errors import SourceError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.breaks import Lost, left_out
from nats3_dagster.jetstream.read.scan import FrameError
from nats3_dagster.jetstream.take.flow import Delivered, Flow, FlowBatch
from nats3_dagster.jetstream.take.handover import Handover
from nats3_dagster.jetstream.take.pull import Pulled
from nats3_dagster.model import ChunkMeta, Gap, SeqRange
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.objects import Bucket

log = logging.getLogger(__name__)
# Handovers that wait for the driver at a time, each of one chunk.
WAITING = 3
_NO_REPLIES = pa.nulls(0, pa.binary())


@dataclass(frozen=True, slots=True)
class Handed:
    """A part of a session: it becomes part of the archive in one transaction."""

    # In the order of the stream.
    outcomes: tuple[ChunkMeta | Gap, ...]
    # All that was delivered up to this message is in the outcomes of the session so far, or was in the catalog before.
    upto: Delivered


@dataclass(frozen=True, slots=True)
class SessionEnd:
    """The last outcome of a session."""

    # Messages that came again and were in the archive already.
    known: int
    # Whether the session was over before its last message came, so that another one is needed.
    broke_off: bool


class FlowCapture:
    """The one task of a session. What it archives goes to the driver by handovers; `outcomes()` yields the
    SessionEnd."""

    def __init__(self, job: TakeJob) -> None:
        self._job = job
        self._absent = AbsentSequences(job)
        self._uploads = Uploads(Bucket(job.store, job.spec.bucket))
        floor = Delivered(0, job.durable.floor_seq)
        # The durable counts from its floor on: what is absent right after it is a hole like any other.
        self._ahead = PreviousTasks(floor.seq, floor.number)
        self._writer: ChunkWriter | None = None
        self._hour = ""
        self._first = floor.seq + 1 if floor.seq else 0  # the first sequence of the open chunk; 0: its first message's
        # The last message of the open chunk, of all batches that were looked at, and of what was given to the driver.
        self._written = self._last = self._handed = floor
        self._known = 0
        # The last message of each chunk that is being put, in their order.
        self._under_way: deque[Delivered] = deque()
        self._waiting: deque[Future[None]] = deque()

    def outcomes(self) -> Iterator[SessionEnd]:
        job, broken_by = self._job, None
        assert job.channel is not None
        with ExitStack() as stack:
            self._handover = Handover(stack.enter_context(Link(job.nats)), job.channel)
            self._flow = stack.enter_context(Flow(job.nats, job.state.incarnation, job.durable, job.limits.last_seq))
            stack.enter_context(self._uploads)
            self._handing = stack.enter_context(ThreadPoolExecutor(1, "handover"))
            try:
                for batch in self._flow.batches():
                    self._add(batch)
            except (Lost, FrameError) as error:
                broken_by = error
                if not self._last.number:
                    raise
                log.info("%s: %s; what came before is archived", job.spec.name, error.what)
            self._finish()
            self._acknowledge_last(broken_by)
        fault_point("take.acknowledged")
        yield SessionEnd(self._known, broken_by is not None)

    def _add(self, batch: FlowBatch) -> None:
        job = self._job
        last = Delivered(int(batch.numbers[-1]), batch.messages.column("seq")[-1].as_py())
        ones = np.ones(len(batch.numbers), np.int64)
        pulled = Pulled(
            pa.Table.from_batches([batch.messages]), _NO_REPLIES, batch.numbers, ones, False, 0, last.number
        )
        fault_point("take.claimed")
        new = uncaptured(pulled, job.covered, job.spans, self._ahead)
        self._ahead = new.ahead
        if len(new.seqs):
            self._write_all(new, batch)
        self._known += len(batch.numbers) - len(new.seqs)
        self._last = last
        if 2 * (last.number - self._flow.acknowledged.number) >= job.durable.max_ack_pending:
            # The durable stops soon, until something is acknowledged.
            self._finish()

    def _write_all(self, new: Uncaptured, batch: FlowBatch) -> None:
        """Chunks and gaps in the order of the stream. A chunk ends where the hour does, before something covered, and
        before a hole that it may not cover. Raises Lost where the durable passed over a message."""
        link = self._flow.link
        if unsent := self._absent.unsent(new, link):
            raise left_out(self._job.state.name, self._job.durable.server, min(unsent.values()))
        cuts: dict[int, list[Gap]] = {at: [] for at in new.barriers}
        cuts |= self._absent.gaps(new, link, {}, shared=False)
        ordered = sorted({0, *cuts, *new.turns})
        seqs = batch.messages.column("seq").to_numpy()
        for at, end in zip(ordered, [*ordered[1:], len(new.seqs)], strict=True):
            if at in cuts:
                self._roll()
                if cuts[at]:
                    self._put_all()
                    self._hand(tuple(cuts[at]), self._handed)
                self._first = 0
            hour = hour_of(int(new.hours[at]) * HOUR_NS)
            if hour != self._hour:
                self._roll()
                self._hour = hour
            for messages in new.messages.slice(at, end - at).to_batches():
                self._write(messages, seqs, batch.numbers)

    def _write(self, messages: pa.RecordBatch, seqs: Int64s, numbers: Int64s) -> None:
        """`seqs` and `numbers`: of all messages that came with these."""
        job = self._job
        while messages.num_rows:
            if self._writer is None:
                self._first = self._first or messages.column("seq")[0].as_py()
                origin = Origin(job.spec, job.state.incarnation, self._hour, dict(job.state.config), job.spec.subjects)
                self._writer = origin.writer()
            rows = self._writer.room(messages, max_bytes=CHUNK_BYTES, max_messages=CHUNK_MESSAGES)
            if rows:
                self._writer.write(messages.slice(0, rows))
                seq = messages.column("seq")[rows - 1].as_py()
                self._written = Delivered(int(numbers[np.searchsorted(seqs, seq)]), seq)
                messages = messages.slice(rows)
            else:
                self._roll()

    def _roll(self) -> None:
        """Close the open chunk, and begin to put it."""
        if self._writer is None:
            return
        data, meta = self._writer.finish(SeqRange(self._first, self._written.seq), self._absent.inside)
        self._writer, self._first = None, self._written.seq + 1
        self._under_way.append(self._written)
        self._hand_put(self._uploads.put(meta, data))

    def _put_all(self) -> None:
        self._hand_put(self._uploads.finish())

    def _hand_put(self, chunks: Iterator[ChunkMeta]) -> None:
        for chunk in chunks:
            fault_point("take.object_put")
            self._hand((chunk,), self._under_way.popleft())

    def _finish(self) -> None:
        """Give the driver all that was looked at."""
        self._roll()
        self._put_all()
        self._hand((), self._last)

    def _hand(self, outcomes: tuple[ChunkMeta | Gap, ...], upto: Delivered) -> None:
        if not outcomes and upto <= self._handed:
            return
        self._handed = upto
        while len(self._waiting) >= WAITING or (self._waiting and self._waiting[0].done()):
            self._waiting.popleft().result()
        self._waiting.append(self._handing.submit(self._give, Handed(outcomes, upto)))

    def _give(self, handed: Handed) -> None:
        self._handover.give(handed)
        self._flow.acknowledge(handed.upto)

    def _acknowledge_last(self, broken_by: SourceError | None) -> None:
        while self._waiting:
            self._waiting.popleft().result()
        self._flow.acknowledge(self._handed, is_last=True)
        try:
            self._flow.confirm()
        except SourceError:
            if broken_by is None:
                raise
