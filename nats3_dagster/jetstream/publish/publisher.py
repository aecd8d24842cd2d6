"""Publishing into streams: batches of Arrow arrays in, every message acknowledged or an error.

Invariant: it never sends a message twice. After any failure it sends nothing more and raises: Interrupted if the target
may or may not have what was under way, so that the caller asks it; TargetError if the target refused a message.
`state.py` has the table of everything that may happen to it.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal

import pyarrow as pa

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.atomic import AtomicOutbox, added_bytes, encode_batches
from nats3_dagster.jetstream.publish.batch import BatchOutbox, OpenBatch
from nats3_dagster.jetstream.publish.encode import Encoded, Publication, encode, subject_at
from nats3_dagster.jetstream.publish.fence import until_gone
from nats3_dagster.jetstream.publish.guard import Guard
from nats3_dagster.jetstream.publish.outbox import Outbox
from nats3_dagster.jetstream.publish.probe import until_quiet, until_stored
from nats3_dagster.jetstream.publish.state import Event, State
from nats3_dagster.steps import Next

# A stream of 2.11 or later drops what comes while 10,000 messages wait to be stored: two publishers have room in that.
INFLIGHT_MESSAGES = 4096
INFLIGHT_BYTES = 8 << 20
# Encoded and not yet sent: enough that the next batch is ready when the window opens.
QUEUE_BYTES = 8 << 20
# How long a slow pace may leave messages without an acknowledgement.
PAUSE_S = 0.25
# How long a publisher that broke off waits to know what became of its last messages.
UNTIL_QUIET_S = 15.0


Mode = Literal["window", "batch", "atomic"]


class Publisher:
    """Publishes in the order given, over one connection of its own. Only one thread at a time may use it.

    Mode `window` is for any stream; messages should have a `Nats-Msg-Id`. Mode `batch` needs a server that knows fast
    ingest (codes.FAST_INGEST) and a stream with `allow_batched`; mode `atomic` one that knows atomic batches
    (codes.ATOMIC) and a stream with `allow_atomic`: there the first line of header blocks is the plain one, and the
    lines of the batch follow it. `fence` is (replay id, attempt): a newer attempt's `raise_fence` stops this publisher.
    `streams` are the only ones that may take messages, none for any; with them a message that a stream knows already is
    Interrupted. Entering raises SourceError as Link does, TargetError if a newer attempt publishes already, and
    Interrupted if an older one did until now."""

    def __init__(
        self,
        options: NatsOptions,
        *,
        mode: Mode = "window",
        fence: tuple[str, int] | None = None,
        inflight_messages: int = INFLIGHT_MESSAGES,
        inflight_bytes: int = INFLIGHT_BYTES,
        ack_timeout_s: float = 10.0,
        streams: Sequence[str] = (),
    ) -> None:
        self._options, self._mode, self._fence, self._streams = options, mode, fence, streams
        self._limits = inflight_messages, inflight_bytes, ack_timeout_s
        # Without an echo the server knows that no other client listens on the fence's subject, and says so at once.
        self._link = Link(options, reconnect=False, echo=False)
        self._changed = threading.Condition()
        self._checked: set[bytes] = set()  # subjects that can be published to
        self._given = self._encoded_bytes = 0  # messages, and bytes of their frames
        self._batch: OpenBatch | None = None

    def __enter__(self) -> "Publisher":
        self._link.__enter__()
        try:
            self._outbox = self._link.call(self._open)
        except BaseException:
            self._link.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            end = self._link.call(self._close)
            self._link.__exit__(None, None, None)
            if end is not State.DONE:
                self._await_quiet(end)

    @property
    def published(self) -> int:
        """The number of the messages given, from the first one, that the target surely has; duplicates count."""
        return self._outbox.window.acked

    @property
    def duplicates(self) -> int:
        """The number of messages that the target knew already by their `Nats-Msg-Id`."""
        return self._outbox.duplicates

    @property
    def stored(self) -> dict[str, int]:
        """Returns for each stream a sequence up to which it has acknowledged: the last one if there is one stream."""
        return dict(self._outbox.stored)

    @property
    def login_ended(self) -> bool:
        """True if the connection's login has expired."""
        return self._link.client.login_ended

    @property
    def is_login_old(self) -> bool:
        """True if the connection's login has an end, and less than half of its time is left."""
        return self._link.client.is_login_old

    @property
    def inbox(self) -> str:
        """The subject on which its connection listens for answers, so long as the server has it: see fence.let_go."""
        return self._outbox.inbox

    @property
    def last_id(self) -> str | None:
        """The `Nats-Msg-Id` of the target's last message, empty if it has none, when it refused a message that expects
        another; None if the publisher did not end so."""
        return self._outbox.last_id

    def publish(self, subjects: pa.Array, headers: pa.Array | None, data: pa.Array) -> None:
        """Send messages (string or binary, binary or null, binary); returns when they are queued, which waits for room.

        Raises TargetError, before any of them is sent, if one is too large or cannot be published to its subject; and
        the failure of any earlier message."""
        messages = Publication.of(subjects, headers, data)
        self._check()
        added = added_bytes(messages) if self._mode == "atomic" else 0
        messages.check(self._link.client.max_payload, self._checked, added)
        for part in messages.slices():
            if isinstance(self._outbox, AtomicOutbox):
                for batch, count, frames in encode_batches(self._outbox, part, self._given):
                    self._given += count
                    self._link.loop.call_soon_threadsafe(self._outbox.begin, batch, count)
                    self._queue(frames)
            else:
                self._queue(self._encode(part))

    def flush(self) -> None:
        """Return when the target has acknowledged every message; raises the failure of any."""
        if self._batch:
            assert isinstance(self._outbox, BatchOutbox)
            self._link.loop.call_soon_threadsafe(self._outbox.end)
            self._batch = None
        self._wait_until(lambda: self._outbox.window.acked == self._given and self._outbox.is_answered)

    def wait(self, seconds: float) -> None:
        """Sleep; raises at once when the connection is lost, a message fails or a newer attempt takes over."""
        until = time.monotonic() + seconds
        self._wait_until(lambda: time.monotonic() >= until, until)

    def pause(self, seconds: float) -> None:
        """Sleep as `wait` does. A batch acknowledges in groups, and at a slow pace a group takes long to be full: every
        PAUSE_S, and before a longer sleep, the batch is ended first, so that `published` is what the target has."""
        until = time.monotonic() + seconds
        if self._batch and max(seconds, time.monotonic() - self._batch.begun_at) >= PAUSE_S:
            self.flush()
        self.wait(max(0.0, until - time.monotonic()))

    def _queue(self, parts: Iterable[Encoded]) -> None:
        for encoded in parts:
            self._wait_until(lambda: self._encoded_bytes - self._outbox.window.drained_bytes < QUEUE_BYTES)
            self._encoded_bytes += encoded.size
            self._link.loop.call_soon_threadsafe(self._outbox.add, encoded)

    def _encode(self, part: Publication) -> list[Encoded]:
        if not isinstance(self._outbox, BatchOutbox):
            self._given += len(part)
            return [encode(part, f"{self._outbox.inbox}.", self._given - len(part))]
        flow = self._outbox.flow_for(int(part.frame_sizes.max()))
        if self._batch and flow < self._batch.flow:
            self.flush()
        self._given += len(part)
        if self._batch:
            return [self._batch.encode(self._outbox, part)]
        self._batch = OpenBatch(secrets.token_hex(12), flow, time.monotonic())
        self._link.loop.call_soon_threadsafe(self._outbox.begin, self._batch.id, flow, subject_at(part.subjects, 0))
        start, rest = part.cut(1)
        parts = [self._batch.encode(self._outbox, start)]
        return [*parts, self._batch.encode(self._outbox, rest)] if len(rest) else parts

    def _await_quiet(self, end: State) -> None:
        """Waits until no message is on its way to the target any more, so that it can be asked. Raises TargetError
        when that cannot be known, or when the target is gone."""
        until, subject = time.monotonic() + UNTIL_QUIET_S, self._outbox.window.last_subject
        while True:
            try:
                with Link(self._options, reconnect=False) as link:
                    if end is not State.READ:
                        link.call(until_gone, self._outbox.inbox, until)
                    with suppress(Interrupted):  # it has no leader yet: who asks it waits as well (probe.await_stored)
                        link.call(until_stored if end is State.READ else until_quiet, subject, until)
                return
            except TargetError as error:
                raise TargetError(error.what, error.hint) from error
            except SourceError as error:
                if end is State.LOST:
                    return  # the caller asks as soon as there is a server again
                if time.monotonic() > until:
                    raise TargetError(
                        f"What became of the last messages cannot be known: {error.what}", Next.PUBLISH_AGAIN()
                    ) from error
                time.sleep(0.2)

    def _check(self) -> None:
        failure = self._outbox.failure
        if failure:
            # Raised as often as the caller asks, each time with a traceback of its own.
            raise type(failure)(failure.what, failure.hint)

    def _wait_until(self, done: Callable[[], bool], until: float | None = None) -> None:
        with self._changed:
            while True:
                self._check()
                if done():
                    return
                self._changed.wait(None if until is None else max(0.0, until - time.monotonic()))

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def _open(self, client: Connection) -> Outbox:
        self._outbox = self._new_outbox(client)
        self._guard = Guard(client, self._outbox, *self._fence) if self._fence else None
        if self._guard:
            await self._guard.open()
        await self._outbox.open()
        self._check()
        self._outbox.life.on(Event.OPENED)
        return self._outbox

    def _new_outbox(self, client: Connection) -> Outbox:
        kinds = {"window": Outbox, "batch": BatchOutbox, "atomic": AtomicOutbox}
        return kinds[self._mode](client, *self._limits, self._notify, self._streams)

    async def _close(self, client: Connection) -> State:
        """Returns the end that it came to."""
        outbox, window, is_lost, is_read = self._outbox, self._outbox.window, client.lost.is_set(), False
        if self._guard:
            await self._guard.answered()
        outbox.close()
        if window.acked < self._given and window.sent and not is_lost:
            is_read = await outbox.parsed()
        if self._guard:
            self._guard.close()
        is_open = isinstance(outbox.failure, Interrupted) or (outbox.failure is None and window.acked < window.sent)
        if not window.sent or not is_open:
            outbox.life.on(Event.DONE)
        elif is_lost:
            outbox.life.on(Event.LOST)
        else:
            outbox.life.on(Event.READ if is_read else Event.UNREAD)
        if window.acked < self._given:
            client.abort()
        return outbox.life.state
