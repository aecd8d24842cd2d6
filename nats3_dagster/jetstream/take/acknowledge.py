"""Acknowledging messages of a durable by the hundred thousand, each confirmed by the server (a double ack).

Invariant: a message counts as acknowledged only when the server has confirmed it; sending an acknowledgement twice
changes nothing.
"""

import asyncio
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.breaks import Lost
from nats3_dagster.jetstream.read.scan import FrameError, Frames, numbers_at

# What is sent to the reply subject of a delivery: ADR-13.
ACK, NAK, PROGRESS = b"+ACK", b"-NAK", b"+WPI"
# Acknowledgements that are under way at a time.
WINDOW = 20_000
# How long the server may take for a window before it is sent again, and how often that is done.
CONFIRM_S, TRIES = 10.0, 3
# How long to wait before sending it again without a subscriber: a leader may be being elected.
ASK_AGAIN_S = 0.5
# Connections for the acknowledgements of a round: the login may expire meanwhile.
LOGINS = 3


def acknowledge(options: NatsOptions, replies: pa.Array) -> None:
    """Acknowledge the deliveries with these reply subjects (binary), and return when the server has confirmed each.
    Raises SourceError when it does not: the messages then come again."""
    if not len(replies):
        return
    for logins_left in reversed(range(LOGINS)):
        with Link(options, reconnect=False) as link:
            try:
                link.call(_acknowledge, replies)
                return
            except SourceError:
                if not link.client.login_ended or not logins_left:
                    raise


def give_back(options: NatsOptions, replies: pa.Array) -> None:
    """Let the server deliver these messages again at once. Without an answer: they come again in any case, later."""

    async def work(client: Connection) -> None:
        send(client, replies, NAK)
        await client.flush()

    if len(replies):
        with Link(options, reconnect=False) as link:
            link.call(work)


def send(client: Connection, replies: pa.Array, payload: bytes) -> None:
    """Send `payload` to each of the reply subjects, unconfirmed."""
    client.send(_frames(replies, payload, None))


async def _acknowledge(client: Connection, replies: pa.Array) -> None:
    inbox = client.new_inbox()
    await client.subscribe(f"{inbox}.*", cb=_ignore)  # pyright: ignore[reportUnknownMemberType]
    confirming = _Confirming(client, inbox, replies)
    await client.flush()
    for start in range(0, len(replies), WINDOW):
        await confirming.window(start, min(start + WINDOW, len(replies)))


class _Confirming:
    """Acknowledgements under way on one connection; each has its number in its own reply subject."""

    def __init__(self, client: Connection, inbox: str, replies: pa.Array) -> None:
        self._client, self._inbox, self._replies = client, inbox, replies
        self._marker = f"MSG {inbox}.".encode()
        self._open = np.ones(len(replies), np.bool_)  # not confirmed yet
        self._activity = asyncio.Event()
        self._failure: SourceError | None = None
        self._unheard = False  # true if acknowledgements have no subscriber
        client.divert(self._marker, self._on_frames)
        client.on_loss.append(lambda: self._fail(Lost("The connection to NATS was lost")))

    async def window(self, start: int, end: int) -> None:
        """Acknowledge the deliveries from `start` to before `end`, and wait until each is confirmed."""
        unconfirmed = self._open[start:end]
        loop = asyncio.get_running_loop()
        until = loop.time() + CONFIRM_S * TRIES
        while len(rest := start + np.flatnonzero(unconfirmed)):
            if self._failure:
                raise self._failure
            if loop.time() > until:
                what = "No consumer takes acknowledgements: it was deleted, or has no leader"
                confirmed = f"The server confirmed all but {len(rest)} of {end - start} acknowledgements"
                raise Lost(what if self._unheard else confirmed)
            if self._unheard:
                await asyncio.sleep(ASK_AGAIN_S)
            self._unheard = False
            self._client.send(_frames(self._replies.take(pa.array(rest)), ACK, (self._inbox, rest)))
            again = loop.time() + CONFIRM_S
            while unconfirmed.any() and not self._failure and not self._unheard and loop.time() < again:
                self._activity.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._activity.wait(), max(again - loop.time(), 0.01))

    def _on_frames(self, frames: Frames) -> None:
        unheard = np.frombuffer(frames.buffer, np.uint8)[frames.starts] == ord("H")  # a status: no subscriber
        # The number ends with a space, as numbers_at wants it.
        numbers = numbers_at(frames.buffer, (frames.marks + len(self._marker))[~unheard])
        if (numbers < 0).any() or (numbers >= len(self._open)).any():
            self._fail(FrameError("NATS answered to an unknown reply subject"))
            return
        self._open[numbers] = False
        self._unheard |= bool(unheard.any())
        self._activity.set()

    def _fail(self, error: SourceError) -> None:
        self._failure = self._failure or error
        self._activity.set()


def _frames(replies: pa.Array, payload: bytes, answers: tuple[str, np.ndarray] | None) -> memoryview:
    """PUB frames with the payload to each subject; with an inbox and numbers, each asks for an answer there."""
    end = pa.scalar(b" %d\r\n%b\r\n" % (len(payload), payload), pa.binary())
    parts: list[pa.Array | pa.Scalar] = [pa.scalar(b"PUB ", pa.binary()), replies]
    if answers is not None:
        inbox, numbers = answers
        texts = pa.array(numbers).cast(pa.string()).cast(pa.binary())
        parts += [pa.scalar(f" {inbox}.".encode(), pa.binary()), texts]
    joined = pc.binary_join_element_wise(*parts, end, pa.scalar(b"", pa.binary()))
    # The values of a binary array stand one after the other in its last buffer: they are the frames.
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]


async def _ignore(message: object) -> None:
    """Confirmations are taken before nats-py sees them."""
