"""Reading a range of a stream: an iterator of Arrow batches, complete or an error.

Invariant: the iterator ends only when the stream's leader has proven that every message of the range that exists was
delivered; where few sequences are absent, the leader has also proven each of them. After anything else, a new
connection and a new consumer go on after the last message handed over.
"""

import logging
import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from nats3_dagster.errors import SourceError, StreamChanged
from nats3_dagster.jetstream.api import Refused
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import SEVERAL_FILTERS, ErrCode, version_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.breaks import UNKNOWN_FORM, Breaks, Lost, left_out
from nats3_dagster.jetstream.read.consumer import End, Item, RangeConsumer, delete_consumer
from nats3_dagster.jetstream.read.contents import held_ranges
from nats3_dagster.jetstream.read.frames import messages
from nats3_dagster.jetstream.read.leader_read import batches_of
from nats3_dagster.jetstream.read.scan import FrameError
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import selected
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.subjects import check_filter, covers, overlap

log = logging.getLogger(__name__)
AWAY_S = 60.0  # how long a server may be away in the middle of a read
# Questions to the leader about what is absent in one batch, at most: all are under way at once. Where more is absent,
# as under a filter or in a key-value bucket, the consumer is believed (docs/decisions.md, 54).
_ASKED = 64
# A stream can have no consumer that only reads: it has all that it may have, or it is a work queue.
_NO_CONSUMER = (ErrCode.MAX_CONSUMERS, ErrCode.QUEUE_WANTS_ACKS)


@dataclass(frozen=True, slots=True)
class ReadSpec:
    """The messages to read."""

    incarnation: Incarnation
    seqs: SeqRange
    subjects: tuple[str, ...] = ()  # filters: one must match a message's subject; none: all messages
    headers_only: bool = False  # without payloads: `data` is empty, and the server adds a header `Nats-Msg-Size`


def read_batches(
    options: NatsOptions, spec: ReadSpec, *, batch_rows: int = 8192, batch_bytes: int = 4 << 20
) -> Iterator[pa.RecordBatch]:
    """Batches of MESSAGES, sequences ascending; a batch ends with the socket read that made it reach `batch_rows` or
    `batch_bytes`. Ends when every message of the range that exists now was delivered.

    Raises StreamChanged when the stream is another one or gone, SourceError when the server cannot be reached, keeps
    breaking off, or does not send what the stream's leader holds."""
    for subject in spec.subjects:
        check_filter(subject)
    reading = _Reading(options, spec, batch_rows, batch_bytes)
    breaks = Breaks()
    while reading.next <= spec.seqs.last:
        before = reading.next
        try:
            opened = reading.session(patient=before != spec.seqs.first or breaks.count > 0)
        except Refused as error:
            if error.code not in _NO_CONSUMER:
                raise
            # Of a work queue it is no news.
            level = logging.WARNING if error.code == ErrCode.MAX_CONSUMERS else logging.INFO
            log.log(level, "%s: reading %s one message at a time", error.what, spec.incarnation.stream)
            yield from reading.without_consumer()
            return
        with opened as session:
            try:
                yield from session.batches()
                return
            except (Lost, FrameError) as error:
                if reading.next != before:
                    breaks = Breaks()
                breaks.add(error)
                if breaks.too_many:
                    raise SourceError(
                        f"Reading {spec.incarnation.stream} broke off {breaks.count} times at sequence {reading.next}: "
                        f"{error.what}",
                        error.hint or (UNKNOWN_FORM if breaks.is_permanent else "See the log of the NATS server"),
                    ) from error
                log.info("%s; reading on from %d", error.what, reading.next)
        breaks.wait()


class _Reading:
    """The state of one `read_batches` over its sessions."""

    def __init__(self, options: NatsOptions, spec: ReadSpec, batch_rows: int, batch_bytes: int) -> None:
        self.options, self.spec, self.batch_rows, self.batch_bytes = options, spec, batch_rows, batch_bytes
        self.next = spec.seqs.first  # the first sequence that was not handed over yet
        self.left_behind: list[str] = []  # consumers that could not be deleted

    def session(self, patient: bool) -> "_Session":
        """An opened session. With `patient` a server that is away gets time to come back."""
        if not patient:
            return _Session(self).open()
        retrying = Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_delay(AWAY_S),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        return retrying(lambda: _Session(self).open())

    def without_consumer(self) -> Iterator[pa.RecordBatch]:
        """The rest, from the stream's leader, for a stream that can have no consumer that only reads."""
        spec = self.spec
        rest = SeqRange(self.next, spec.seqs.last)
        with Link(self.options) as link:
            yield from batches_of(link, spec.incarnation, rest, spec.subjects, headers_only=spec.headers_only)


def _may_pass(error: BaseException) -> bool:
    if isinstance(error, Refused) and error.code in _NO_CONSUMER:
        return False
    return isinstance(error, SourceError) and not isinstance(error, StreamChanged)


class _Session:
    """One connection with one consumer."""

    def __init__(self, reading: _Reading) -> None:
        self._reading = reading
        # Without reconnect: a consumer does not survive what breaks a connection, and a new session is as quick.
        self._link = Link(reading.options, reconnect=False)
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._received = 0

    def open(self) -> "_Session":
        self._link.__enter__()
        try:
            self._consumer = self._link.call(self._open)
        except BaseException:
            self._link.__exit__(None, None, None)
            raise
        return self

    def __enter__(self) -> "_Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._link.call(self._close)
        finally:
            self._link.__exit__(None, None, None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises Lost or FrameError when the consumer is gone; everything before that is good."""
        spec, reading = self._reading.spec, self._reading
        select = spec.subjects if spec.subjects and not self._consumer.filters else ()
        while not isinstance(item := self._items.get(), End):
            if isinstance(item, SourceError):
                raise item
            decoded = messages(item, self._consumer.marker)
            size = sum(block.size for block in item)
            del item
            numbers, seqs = decoded.consumer_seqs, decoded.batch.column("seq").to_numpy()
            expected = np.arange(self._received + 1, self._received + 1 + len(numbers))
            if not np.array_equal(numbers, expected) or seqs[0] < reading.next or (np.diff(seqs) < 1).any():
                raise Lost("The server sent messages twice or out of order")
            self._received += len(seqs)
            unsent = self._unsent(seqs)
            upto = spec.seqs.last if unsent is None else unsent
            batch = decoded.batch.slice(0, int(np.searchsorted(seqs, upto, "right")))
            reading.next = int(seqs[-1]) + 1 if unsent is None else unsent
            if select:
                batch = selected(batch, select)
            if batch.num_rows:
                yield batch
            if unsent is not None:
                raise left_out(spec.incarnation.stream, self._consumer.server, unsent)
            self._link.loop.call_soon_threadsafe(self._consumer.processed, size)

    def _unsent(self, seqs: Int64s) -> int | None:
        """The first sequence before or between these whose message the leader holds, and the consumer left out; None
        where there is none, or where too many are absent to ask. Raises StreamChanged; Lost without an answer."""
        spec = self._reading.spec
        seqs = seqs[: np.searchsorted(seqs, spec.seqs.last, "right")]
        before = np.concatenate(([self._reading.next - 1], seqs[:-1]))
        ends = np.flatnonzero(seqs - before > 1)
        if not len(ends) or len(ends) * max(len(spec.subjects), 1) > _ASKED:
            return None
        absent = [SeqRange(int(before[at]) + 1, int(seqs[at]) - 1) for at in ends]
        try:
            held = held_ranges(self._link, spec.incarnation, absent, spec.subjects)
        except StreamChanged:
            raise
        except SourceError as error:
            raise Lost(f"What the consumer left out cannot be asked: {error.what}", error.hint) from error
        return min((seq for seq in held if seq is not None), default=None)

    async def _open(self, client: Connection) -> RangeConsumer:
        reading, spec = self._reading, self._reading.spec
        for name in reading.left_behind:
            await delete_consumer(client, spec.incarnation.read_stream, name)
        reading.left_behind.clear()
        filters = _filters_for(spec.subjects, version_of(client.info))
        consumer = RangeConsumer(
            client,
            spec.incarnation,
            SeqRange(reading.next, spec.seqs.last),
            filters,
            spec.headers_only,
            reading.batch_rows,
            reading.batch_bytes,
            self._items.put,
        )
        try:
            await consumer.open()
        except BaseException:
            await consumer.close()
            raise
        return consumer

    async def _close(self, client: Connection) -> None:
        if client.is_connected:
            await self._consumer.close()
        else:
            self._reading.left_behind.append(self._consumer.name)


def _filters_for(subjects: Sequence[str], version: tuple[int, int, int]) -> tuple[str, ...]:
    """The filters that a server of this version applies exactly; empty when it must send everything, and we select."""
    distinct = list(dict.fromkeys(subjects))
    needed = [s for s in distinct if not any(covers(o, s) for o in distinct if o != s)]
    if len(needed) > 1 and (
        version < SEVERAL_FILTERS or any(overlap(a, b) for i, a in enumerate(needed) for b in needed[i + 1 :])
    ):
        return ()
    return tuple(needed)
