"""Taking messages: pull what a durable has outstanding, and hold it until it is acknowledged or given back.

Invariant: nothing is acknowledged here. While the pull is open the server hears +WPI, so that it gives the messages to
no other client; a process that dies holds them until the durable's ack_wait has passed.
"""

import asyncio
import json
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import pyarrow as pa
from nats.aio.msg import Msg

from nats3_dagster.errors import SourceError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.api import ASK_AGAIN_S
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status, pull_request_ended
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.breaks import Lost
from nats3_dagster.jetstream.read.contents import first_held
from nats3_dagster.jetstream.read.frames import deliveries, messages
from nats3_dagster.jetstream.read.scan import Frames
from nats3_dagster.jetstream.take.acknowledge import NAK, PROGRESS, send
from nats3_dagster.jetstream.take.durable import Durable, durable_info
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.model.numbers import Int64s

# A pull request ends at either. One is under way at a time: it asks for no more than the durable has.
PULL_MESSAGES = 32_768
PULL_BYTES = 8 << 20
# How long a request waits for messages that are pending, and for messages that another client holds.
EXPIRES_S, REDELIVERY_S = 5.0, 1.0
# How long a server may say nothing of a request, beyond the request's own time. nats-server 2.9.10 forgets one now and
# then, after a client died: where the durable is still there, the next request is answered.
SILENCE_S = 5.0
# The number of requests in a row that a server may leave without any word.
SILENT_REQUESTS = 3
# How long messages of a request that has ended may be under way: a durable with replicas sends them when a majority
# knows of it, and so after the status. A leader that steps down never sends them: they come again after the ack_wait.
UNDER_WAY_S = 2.0


@dataclass(frozen=True, slots=True)
class PullLimits:
    """The limits of one pull."""

    # Messages, and bytes of their frames; the last request may go over the bytes by what one request brings.
    messages: int
    bytes: int
    # The stream's last sequence when the pull was planned: a stream that is written to all the time has no other end.
    last_seq: int
    # How long to wait for messages that were delivered to a client that died: they come again after its ack_wait.
    patience_s: float
    # Outstanding messages that other pulls of the same run hold.
    held: int = 0


@dataclass(frozen=True, slots=True)
class Pulled:
    """Messages that are held."""

    # Of the schema MESSAGES, each once, sequences ascending.
    messages: pa.Table
    # The subjects that acknowledge them, binary, in the same order.
    replies: pa.Array
    # The number that the durable gave to the delivery of each message if it was the first one, otherwise -1. Where
    # they are adjacent the stream had nothing for the durable in between.
    deliveries: Int64s
    # How often each message was delivered, this time included.
    counts: Int64s
    # Whether a limit was reached, so that more may be left; and how many messages another client of the durable holds.
    full: bool
    elsewhere: int
    # The number of the durable's last delivery, to any client, when nothing more was pulled.
    consumer_seq: int


class Pull:
    """One connection that pulls from a durable. Use it as a context manager: leaving it by an error gives the messages
    back at once."""

    def __init__(self, options: NatsOptions, incarnation: Incarnation, durable: Durable) -> None:
        # It connects again if its login ends. Any other loss is the end of the pull.
        self._link = Link(options)
        self._incarnation, self._durable = incarnation, durable
        self._puller: _Puller | None = None

    def __enter__(self) -> "Pull":
        self._link.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._puller:
                self._link.call(self._close, error is not None)
        finally:
            self._link.__exit__(None, None, None)

    @property
    def link(self) -> Link:
        return self._link

    def take(self, limits: PullLimits) -> Pulled:
        """Takes the durable's available messages, up to the limits. Raises SourceError when the connection or the
        durable is lost: what was pulled comes again. StreamChanged."""
        return self._link.call(self._take, limits)

    async def _take(self, client: Connection, limits: PullLimits) -> Pulled:
        self._puller = _Puller(client, self._incarnation, self._durable, limits)
        await self._puller.open()
        return self._puller.pulled(*await self._puller.fill())

    async def _close(self, client: Connection, give_back: bool) -> None:
        assert self._puller
        await self._puller.close(give_back)


class _Puller:
    """The pull in the loop of its connection."""

    def __init__(self, client: Connection, incarnation: Incarnation, durable: Durable, limits: PullLimits) -> None:
        self._client, self._incarnation, self._durable, self._limits = client, incarnation, durable, limits
        self._inbox = client.new_inbox()
        self._marker = b""
        self._requests = 0
        self._asked = self._received = 0  # messages, of all requests
        self._has_ended = False  # whether the server says so of the request under way
        self._activity = asyncio.Event()
        self._failure: SourceError | None = None
        self._frames: list[Frames] = []  # not decoded yet
        self._batches: list[pa.RecordBatch] = []
        self._replies: list[pa.Array] = []
        self._counts: list[Int64s] = []
        self._numbers: list[Int64s] = []  # consumer sequences
        self._size = 0  # bytes of all frames
        self._held = 0  # distinct messages
        self._batch_limit = _limit(durable, "max_batch", PULL_MESSAGES)
        self._max_bytes = _limit(durable, "max_bytes", max(PULL_BYTES, client.max_payload + (64 << 10)))
        self._reporting: asyncio.Task[None] | None = None

    async def open(self) -> None:
        sub = await self._client.subscribe(f"{self._inbox}.*", cb=self._on_status)  # pyright: ignore[reportUnknownMemberType]
        self._marker = b" %d $JS.ACK." % sub._id  # pyright: ignore[reportPrivateUsage]
        self._client.divert(self._marker, self._on_frames)
        await self._client.flush()
        self._client.on_loss.append(self._on_loss)
        self._reporting = asyncio.create_task(self._report_progress())

    async def close(self, give_back: bool) -> None:
        if self._reporting:
            self._reporting.cancel()
        if give_back and self._client.is_connected:
            self._decode()
            for replies in self._replies:
                send(self._client, replies, NAK)
            await self._client.flush()

    async def fill(self) -> tuple[bool, int, int]:
        """Pull until a limit is reached or nothing is left. Returns whether it was a limit, how many messages are held
        by others, and the number of the durable's last delivery."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.patience_s
        silent = 0
        while True:
            asked = loop.time()
            info = await durable_info(self._client, self._durable.stream, self._durable.name)
            until += loop.time() - asked  # while the durable elects a leader it delivers nothing
            if info is None:
                raise Lost(f"The consumer {self._durable.name} was deleted")
            if info.created_ns != self._durable.created_ns:
                raise Lost(f"The consumer {self._durable.name} was deleted and made again")
            elsewhere = max(info.outstanding - self._held - self._limits.held, 0)
            fresh = info.pending if info.delivered_seq < self._limits.last_seq else 0
            room = self._limits.messages - self._held
            if not fresh and not elsewhere:
                # The server may count too few messages as pending: for a moment, and on a replica that lags.
                rest = SeqRange(info.delivered_seq + 1, self._limits.last_seq)
                if rest.size <= 0 or await first_held(self._client, self._incarnation, rest, info.filters) is None:
                    return False, 0, info.consumer_seq
            if room <= 0 or self._size >= self._limits.bytes:
                return True, elsewhere, info.consumer_seq
            if loop.time() > until:
                return False, elsewhere, info.consumer_seq
            before, asked = self._held, loop.time()
            count = min(fresh or elsewhere or self._batch_limit, room, self._batch_limit)
            silent = 0 if await self._pull(count, EXPIRES_S if fresh else REDELIVERY_S) else silent + 1
            if silent == SILENT_REQUESTS:
                raise Lost(f"The consumer {self._durable.name} does not answer")
            if silent:
                until += loop.time() - asked
            if self._held != before:
                until = loop.time() + self._limits.patience_s
            elif loop.time() - asked < ASK_AGAIN_S:  # refused at once: another client's request is the only one allowed
                await asyncio.sleep(ASK_AGAIN_S)

    async def _pull(self, count: int, expires_s: float) -> bool:
        """One request, and all that it brings. False if the server says nothing of it."""
        # What it brings hears of work only afterwards.
        expires_s = min(expires_s, self._durable.ack_wait_s / 3)
        expires_s = min(expires_s, _limit(self._durable, "max_expires", 60 * SECOND_NS) / SECOND_NS)
        self._requests += 1
        self._asked, self._has_ended = self._received + count, False
        body = {"batch": count, "max_bytes": self._max_bytes, "expires": int(expires_s * SECOND_NS)}
        self._client.post(
            f"{self._client.api}.CONSUMER.MSG.NEXT.{self._durable.stream}.{self._durable.name}",
            f"{self._inbox}.{self._requests}",
            json.dumps(body).encode(),
        )
        while self._asked > self._received:
            self._activity.clear()
            if self._failure:
                raise self._failure
            try:
                wait_s = UNDER_WAY_S if self._has_ended else expires_s + SILENCE_S
                await asyncio.wait_for(self._activity.wait(), wait_s)
            except TimeoutError:
                break
        self._decode()
        return self._has_ended or self._asked <= self._received

    def _on_frames(self, frames: Frames) -> None:
        self._frames.append(frames)
        self._received += len(frames)
        self._size += frames.size
        self._activity.set()

    async def _on_status(self, message: Msg) -> None:
        """The status of a pull request, which may be an earlier one."""
        headers = message.headers or {}
        status, text = headers.get("Status", ""), headers.get("Description", "")
        if status == Status.HEARTBEAT or not message.subject.endswith(f".{self._requests}"):
            return
        if not pull_request_ended(status, text) and status != "404" and not text.lower().startswith("exceeded max"):
            self._fail(Lost(f"The server ended the consumer: {status} {text}".strip()))
            return
        if headers.get("Nats-Pending-Bytes") == str(self._max_bytes):
            self._max_bytes *= 2  # stored when the server's max_payload was larger than it is now
        self._asked -= int(headers.get("Nats-Pending-Messages") or self._asked - self._received)
        self._has_ended = True
        self._activity.set()

    def _on_loss(self) -> None:
        if self._client.login_ended:
            # What was under way comes again, as from a client that died.
            self._has_ended = True
            self._activity.set()
        else:
            self._fail(Lost("The connection to NATS was lost"))

    def _fail(self, error: SourceError) -> None:
        self._failure = self._failure or error
        self._activity.set()

    def _decode(self) -> None:
        if not self._frames:
            return
        frames, self._frames = self._frames, []
        decoded, delivered = messages(frames, self._marker), deliveries(frames, self._marker)
        self._batches.append(decoded.batch)
        self._numbers.append(decoded.consumer_seqs)
        self._replies.append(delivered.replies)
        self._counts.append(delivered.counts)
        self._held = len(np.unique(np.concatenate([b.column("seq").to_numpy() for b in self._batches])))

    def pulled(self, full: bool, elsewhere: int, consumer_seq: int) -> Pulled:
        """Returns the held messages, in stream order."""
        if not self._batches:
            empty = np.zeros(0, np.int64)
            nothing = MESSAGES.empty_table()
            return Pulled(nothing, pa.array([], pa.binary()), empty, empty, full, elsewhere, consumer_seq)
        table = pa.Table.from_batches(self._batches)
        seqs = table.column("seq").to_numpy()
        numbers, counts = np.concatenate(self._numbers), np.concatenate(self._counts)
        # The newest delivery of each message: an acknowledgement of an earlier one counts as well.
        order = np.lexsort((numbers, seqs))
        order = order[np.append(np.diff(seqs[order]) > 0, True)]
        firsts = np.where(counts[order] == 1, numbers[order], -1)
        at = pa.array(order)
        replies = pa.chunked_array(self._replies).take(at).combine_chunks()
        in_order = len(order) == len(seqs) and bool((np.diff(order) == 1).all())
        messages = table if in_order else table.take(at)
        return Pulled(messages, replies, firsts, counts[order], full, elsewhere, consumer_seq)

    async def _report_progress(self) -> None:
        """Tell the server that what is held is being worked on."""
        while True:
            await asyncio.sleep(max(self._durable.ack_wait_s / 3, 0.1))
            for replies in list(self._replies):
                send(self._client, replies, PROGRESS)


def _limit(durable: Durable, name: str, most: int) -> int:
    """Returns the limit for a pull request: the durable may have one."""
    return min(int(durable.config.get(name) or 0) or most, most)
