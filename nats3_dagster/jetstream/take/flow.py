"""Receiving from a durable whose flow control acknowledges: batches of Arrow out, acknowledgements in, at one time.

Invariants: an answer to flow control names nothing but what `acknowledge` was given. The durable numbered all that came
from 1 on without a hole; anything else ends the session, and what came before it is good.
"""

import asyncio
import queue
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa
from nats.aio.msg import Msg

from nats3_dagster.errors import SourceError, StreamChanged
from nats3_dagster.jetstream.api import ASK_AGAIN_S
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.breaks import Lost, behind
from nats3_dagster.jetstream.read.contents import first_held
from nats3_dagster.jetstream.read.frames import last_ack, messages
from nats3_dagster.jetstream.read.scan import FrameError, Frames
from nats3_dagster.jetstream.take.durable import Durable, durable_info
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.numbers import Int64s

# A batch has at least either, but for the last one.
BATCH_MESSAGES, BATCH_BYTES = 16_384, 4 << 20
# While the caller has this much to take no flow control is answered: the server sends up to 32 MiB beyond it.
ROOM_BYTES = 16 << 20
# The server says every second that it is there, when it has nothing to send (idle_heartbeat).
SILENCE_S = 5.0
# How long a durable may have nothing while the stream's leader has messages for it: its replica lags.
LAG_S = 30.0
# How long the server may take to confirm the last acknowledgement. A durable that is idle asks for one every second.
CONFIRM_S = 15.0
_FLOW_CONTROL, _STALLED = "FlowControl Request", "Nats-Consumer-Stalled"


@dataclass(frozen=True, slots=True, order=True)
class Delivered:
    """A message by the durable's own number, from 1 on in each session, and by its sequence in the stream."""

    number: int = 0
    seq: int = 0


@dataclass(frozen=True, slots=True)
class FlowBatch:
    """Messages that were delivered one after the other."""

    # Of the schema MESSAGES, sequences ascending.
    messages: pa.RecordBatch
    # The durable's number of each.
    numbers: Int64s


class _End:
    """The stream's leader has no further message for the durable, up to the session's last sequence."""


class Flow:
    """One session's connection, as a context manager: leaving it ends the deliveries. Different threads may call
    `batches` and `acknowledge`."""

    def __init__(self, options: NatsOptions, incarnation: Incarnation, durable: Durable, last_seq: int) -> None:
        """`durable`: as begin_session gave it. `last_seq`: the session ends when all up to this sequence came."""
        # Without reconnect: what is delivered while a connection is away is lost to the session.
        self.link = Link(options, reconnect=False)
        self._incarnation, self._durable, self._last_seq = incarnation, durable, last_seq
        self._items: queue.SimpleQueue[list[Frames] | _End | SourceError] = queue.SimpleQueue()
        self._batch_messages = min(BATCH_MESSAGES, max(durable.max_ack_pending // 4, 1))
        self._blocks: list[Frames] = []
        self._rows = self._size = 0  # of the blocks
        self._received = Delivered(0, durable.floor_seq)
        self._unprocessed = 0  # bytes that the caller has not taken yet
        self._drained = True  # whether the durable has said that it has nothing to send
        self._acknowledged = Delivered()
        self._is_last = False  # whether nothing further will be acknowledged
        self._asking: str | None = None  # the subject of a flow control that is not answered yet
        self._has_ended = False
        self._activity = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def __enter__(self) -> "Flow":
        self.link.__enter__()
        try:
            self.link.call(self._open)
        except BaseException:
            self.link.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.link.call(self._close)
        finally:
            self.link.__exit__(None, None, None)

    def batches(self) -> Iterator[FlowBatch]:
        """Ends when all messages up to the session's last sequence came. Raises Lost or FrameError when the session is
        over before: what was not acknowledged comes again in another one."""
        floor = Delivered(0, self._durable.floor_seq)
        while not isinstance(item := self._items.get(), _End):
            if isinstance(item, SourceError):
                raise item
            decoded = messages(item, self._marker)
            size = sum(block.size for block in item)
            del item
            numbers, seqs = decoded.consumer_seqs, decoded.batch.column("seq").to_numpy()
            expected = np.arange(floor.number + 1, floor.number + 1 + len(numbers))
            if not np.array_equal(numbers, expected) or seqs[0] <= floor.seq or (np.diff(seqs) < 1).any():
                raise Lost(f"Consumer {self._durable.name} left out messages, or delivered some twice or out of order")
            floor = Delivered(int(numbers[-1]), int(seqs[-1]))
            yield FlowBatch(decoded.batch, numbers)
            self._in_loop(self._processed, size)

    @property
    def acknowledged(self) -> Delivered:
        """The last message that answers to flow control acknowledge."""
        return self._acknowledged

    def acknowledge(self, upto: Delivered, *, is_last: bool = False) -> None:
        """Let the answers to flow control acknowledge all messages up to this one. `is_last`: none will follow."""
        self._in_loop(self._acknowledge, upto, is_last)

    def confirm(self) -> None:
        """Return when the server has what was acknowledged last. Raises SourceError if it does not say so."""
        self.link.call(self._confirm)

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # its loop is closed: the connection was lost
            self.link.loop.call_soon_threadsafe(call, *arguments)

    async def _open(self, client: Connection) -> None:
        self._client = client
        subject = str(self._durable.config["deliver_subject"])
        sub = await client.subscribe(subject, cb=self._on_status)  # pyright: ignore[reportUnknownMemberType]
        self._marker = b" %d $JS.ACK." % sub._id  # pyright: ignore[reportPrivateUsage]
        client.divert(self._marker, self._on_frames)
        client.on_loss.append(lambda: self._finish(Lost("The connection to NATS was lost")))
        await client.flush()
        self._tasks.append(asyncio.create_task(self._watch_over()))
        self._start_looking()

    async def _close(self, client: Connection) -> None:
        self._finish(Lost("The session was closed"))
        for task in self._tasks:
            task.cancel()

    def _on_frames(self, frames: Frames) -> None:
        if self._has_ended:
            return
        try:
            ack = last_ack(frames, self._marker)
        except FrameError as error:
            self._finish(error)
            return
        self._activity.set()
        self._received = Delivered(self._received.number + len(frames), ack.seq)
        self._blocks.append(frames)
        self._rows += len(frames)
        self._size += frames.size
        if ack.seq >= self._last_seq:
            self._finish(_End())
        elif self._rows >= self._batch_messages or self._size >= BATCH_BYTES:
            self._hand_over()
        self._drained = not ack.pending
        self._start_looking()

    async def _on_status(self, message: Msg) -> None:
        """Flow control, heartbeats, the end of the durable. Messages never come here, whatever their headers say."""
        headers = message.headers or {}
        status, text = headers.get("Status", ""), headers.get("Description", "")
        self._activity.set()
        if status != Status.HEARTBEAT:
            self._finish(Lost(f"The server ended the consumer: {status} {text}".strip()))
            return
        if text == _FLOW_CONTROL:
            self._asking = message.reply
        elif stalled := headers.get(_STALLED):
            self._asking = stalled  # it was asked before this session, or the answer was lost
        else:
            # What it sent came before this, on the same connection.
            self._hand_over()
            self._drained = self._received.number - self._acknowledged.number < self._durable.max_ack_pending
            self._start_looking()
        self._answer()

    def _processed(self, size: int) -> None:
        self._unprocessed -= size
        self._answer()

    def _acknowledge(self, upto: Delivered, is_last: bool) -> None:
        self._acknowledged, self._is_last = max(self._acknowledged, upto), is_last
        self._answer()

    def _answer(self) -> None:
        """Answer the flow control that waits, if there is room. When all came it is kept for the last acknowledgement:
        the next one comes a second later."""
        if self._asking is None or self._unprocessed >= ROOM_BYTES or (self._has_ended and not self._is_last):
            return
        subject, self._asking = self._asking, None
        upto = self._acknowledged
        if not upto.number:
            self._client.post(subject, "", b"")
            return
        block = b"NATS/1.0\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: %d\r\n\r\n" % (upto.number, upto.seq)
        self._client.send(b"HPUB %b %d %d\r\n%b\r\n" % (subject.encode(), len(block), len(block), block))

    def _hand_over(self) -> None:
        if self._blocks:
            self._unprocessed += self._size
            self._items.put(self._blocks)
            self._blocks, self._rows, self._size = [], 0, 0

    def _finish(self, end: _End | SourceError) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._hand_over()
            self._items.put(end)

    def _start_looking(self) -> None:
        if self._drained and not self._has_ended and all(task.done() for task in self._tasks[1:]):
            self._tasks[1:] = [asyncio.create_task(self._look())]

    async def _look(self) -> None:
        """End the session where the stream's leader has nothing after what came. A durable with replicas may lag."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LAG_S
        try:
            while self._drained and not self._has_ended:
                seen = self._received.seq
                rest = SeqRange(seen + 1, self._last_seq)
                held = await first_held(self._client, self._incarnation, rest, self._durable.filters)
                if seen != self._received.seq:
                    continue
                if held is None:
                    self._finish(_End())
                elif loop.time() > until:
                    self._finish(behind(self._incarnation.stream, self._durable.server, seen, held))
                else:
                    await asyncio.sleep(ASK_AGAIN_S)
        except StreamChanged as error:
            self._finish(error)
        except SourceError as error:
            self._finish(Lost(f"The end of the messages cannot be confirmed: {error.what}", error.hint))

    async def _watch_over(self) -> None:
        """End the session when the server falls silent: the durable's leader may be another one, or it is gone."""
        while not self._has_ended:
            self._activity.clear()
            try:
                await asyncio.wait_for(self._activity.wait(), SILENCE_S)
            except TimeoutError:
                self._finish(Lost(f"Consumer {self._durable.name} says nothing"))

    async def _confirm(self, client: Connection) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + CONFIRM_S
        while True:
            info = await durable_info(client, self._durable.stream, self._durable.name)
            if info is None or info.created_ns != self._durable.created_ns:
                raise Lost(f"Consumer {self._durable.name} was deleted, or made again")
            if info.floor_consumer_seq >= self._acknowledged.number:
                return
            if loop.time() > until:
                raise Lost(
                    f"Consumer {self._durable.name} has acknowledged {info.floor_consumer_seq:,} messages of "
                    f"{self._acknowledged.number:,}: they are archived, and come again"
                )
            await asyncio.sleep(0.05)
