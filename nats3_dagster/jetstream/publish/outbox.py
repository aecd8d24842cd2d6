"""The outbox: frames on their way to the server, bounded, in order, each accounted for. Lives in the connection's loop.

Invariants: after the first sign of trouble nothing more is sent. Acknowledged messages count from the first one without
a hole, so `acked` messages are surely in the target, whatever became of the others.
"""

import asyncio
import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from nats.errors import Error

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import Status
from nats3_dagster.jetstream.publish.acks import (
    Answer,
    answers,
    last_id,
    last_stored,
    plain_numbers,
    plain_starts,
    refusal,
)
from nats3_dagster.jetstream.publish.encode import Encoded
from nats3_dagster.jetstream.publish.fence import LEASE_S
from nats3_dagster.jetstream.publish.probe import GONE, NONE_YET, nobody_listens, until_stored
from nats3_dagster.jetstream.publish.roll_call import check_allowed, forbidden
from nats3_dagster.jetstream.publish.state import Event, Life, State
from nats3_dagster.jetstream.publish.window import Window
from nats3_dagster.jetstream.read.scan import FrameError, Frames

# How long a publisher that was stopped takes to make sure of what it sent.
STOP_S = 3.0


class Outbox:
    """Sends what it is given as far as its window allows.

    `streams` are the only ones that may acknowledge, none for any; and they may know none of the messages before.
    `messages` and `size` (bytes of frames) bound the window. `changed` is called whenever the caller may go on, or must
    stop (`failure`)."""

    def __init__(
        self,
        client: Connection,
        messages: int,
        size: int,
        ack_timeout_s: float,
        changed: Callable[[], None],
        streams: Sequence[str] = (),
    ) -> None:
        self._client, self._changed, self._ack_timeout_s = client, changed, ack_timeout_s
        self._streams, self._starts = streams, plain_starts(streams)
        self.window = Window(messages, size)
        self.inbox = client.new_inbox()
        self._marker = f"MSG {self.inbox}.".encode()
        # Acknowledged, while an earlier message is not.
        self._early: set[int] = set()
        # Messages that the target knew already.
        self.duplicates = 0
        # By stream: a sequence that it has acknowledged, mostly the last one.
        self.stored: dict[str, int] = {}
        self.failure: TargetError | None = None
        # Of the target's last message, where it refused one that expects another.
        self.last_id: str | None = None
        self.life = Life()
        # When this loop ran last, and when anything was sent last, of time.monotonic.
        self._alive_at, self._sent_at = time.monotonic(), 0.0

    async def open(self) -> None:
        """Listen for answers."""
        client, everything, hello = self._client, f"{self.inbox}.>", f"{self.inbox}.hello"
        client.on_loss.append(lambda: self.fail(Interrupted("The connection to NATS was lost")))
        client.on_refusal.append(self._on_refusal)
        await client.subscribe(everything, cb=_ignore)  # pyright: ignore[reportUnknownMemberType]
        # The check after a lost connection must be allowed to ask there.
        await client.publish(hello)
        await client.flush()
        check_allowed(client, everything, hello)
        client.divert(self._marker, self._on_frames)
        self._watch = asyncio.create_task(self._watch_over())

    def _on_refusal(self, refusal: str) -> None:
        """The server does not let this user publish: no answer will come."""
        quoted = re.search(r'"([^"]*)"', refusal)
        if quoted and "publish" in refusal:
            # The client hands the server's words on in small letters.
            subject = next((s for s in self.window.subjects() if s.lower() == quoted[1]), quoted[1])
            self.fail(forbidden(self._client, refusal, subject))

    def close(self) -> None:
        """Send nothing more."""
        self.life.on(Event.CLOSE)
        self._watch.cancel()

    def add(self, frames: Encoded) -> None:
        """Send these after all others, as soon as the window allows."""
        self.window.add(frames)
        self._pump()

    def stop(self, reason: TargetError) -> bool:
        """Send nothing more, because a newer attempt asks. False if one has asked before, or this one has ended."""
        stopping = self.life.on(Event.SUPERSEDED)
        if stopping:
            self._set_failure(reason)
        return stopping

    async def all_stored(self) -> bool:
        """True when the stream of the last message has surely stored all that was sent to it. Waits STOP_S for it."""
        until = time.monotonic() + STOP_S
        if not await self.parsed():
            return False
        with suppress(Error, SourceError):
            if self.window.sent:
                await until_stored(self._client, self.window.last_subject, until)
            return True
        return False

    async def parsed(self) -> bool:
        """True if the server has parsed everything that was sent: its PONG comes in turn. Waits STOP_S for it."""
        with suppress(Error, OSError):
            await self._client.flush(int(STOP_S))
            return True
        return False

    def fail(self, failure: TargetError) -> None:
        """The first failure stops everything."""
        self.life.on(Event.FAILED)
        self._set_failure(failure)

    def _set_failure(self, failure: TargetError) -> None:
        if self.failure is None:
            what = f"{failure.what}; at least {self.window.acked} messages were stored before"
            self.failure = type(failure)(what, failure.hint)
            self._changed()

    @property
    def is_answered(self) -> bool:
        """True if every message sent has its answer."""
        return self.window.acked == self.window.sent

    def _room(self) -> int:
        """Returns the number of messages that may still be sent now."""
        return self.window.room

    def _pump(self) -> None:
        """Send as much as the window has room for."""
        if (still := time.monotonic() - self._alive_at) > LEASE_S and self.life.state is State.SENDING:
            # A newer attempt may have asked meanwhile, and have gone on without an answer.
            self.fail(Interrupted(f"This process stood still for {still:.0f} s"))
        window = self.window
        while self.life.state is State.SENDING and (part := window.next_part(self._room())):
            if not self._client.send(part):
                self.fail(Interrupted("The connection to NATS was lost"))
                return
            self._sent_at = time.monotonic()
            if window.mark_sent(self._sent_at):
                self._changed()

    def _advance(self, acked: int) -> None:
        """All messages before `acked` are in the target."""
        self.window.mark_acked(acked)
        self._pump()
        self._changed()

    def _on_frames(self, frames: Frames) -> None:
        try:
            numbers = plain_numbers(frames, self._marker, self._starts)
            if numbers is not None:
                if self._advances(*last_stored(frames)):
                    self._on_numbers(numbers)
                return
            numbers = [self._number_of(answer) for answer in answers(frames, self._marker)]
            self._on_numbers([n for n in numbers if n is not None])
        except FrameError as error:
            self.fail(Interrupted(error.what, error.hint))

    def _on_numbers(self, numbers: list[int]) -> None:
        """Acknowledgements of single messages; nearly always in order."""
        acked, sent = self.window.acked, self.window.sent
        end = acked + len(numbers)
        if not self._early and end <= sent and numbers == list(range(acked, end)):
            self._advance(end)
            return
        for number in numbers:
            if not acked <= number < sent or number in self._early:
                self.fail(
                    TargetError(
                        f"A message on {self.window.subject_of(number)} was acknowledged twice",
                        "More than one stream takes it: publish to subjects that one stream captures",
                    )
                )
                return
            self._early.add(number)
            while acked in self._early:
                self._early.remove(acked)
                acked += 1
        self._advance(acked)

    def _number_of(self, answer: Answer) -> int | None:
        """The message that an answer acknowledges; None for a refusal, which ends everything."""
        if answer.status or answer.error:
            self._refused(answer, self.window.subject_of(answer.number))
            return None
        if not isinstance(answer.body.get("stream"), str) or not isinstance(answer.body.get("seq"), int):
            raise FrameError(f"A stream answered with something unknown: {answer.body}")
        duplicate = bool(answer.body.get("duplicate"))
        self.duplicates += duplicate
        if duplicate and self._streams:
            # The caller has made sure that the streams do not hold it: it came late, or it is gone again.
            self.fail(
                Interrupted(
                    f"Stream {answer.body['stream']} knows a message on {self.window.subject_of(answer.number)} that "
                    "it did not hold when it was asked",
                )
            )
        elif duplicate or self._advances(answer.body["stream"], answer.body["seq"]):
            return answer.number
        return None

    def _advances(self, stream: str, seq: int) -> bool:
        """True if this stream may acknowledge with this sequence; if not, that ends everything."""
        if self._streams and stream not in self._streams:
            self.fail(
                TargetError(
                    f"Stream {stream} took a message, and the replay publishes into {', '.join(self._streams)}",
                    "Subjects were moved from one stream to the other, or a mapping of the account leads there: create "
                    "a new replay, and delete what this one left",
                )
            )
            return False
        if self._streams and len(self._streams) == 1 and seq <= self.stored.get(stream, 0):
            self.fail(
                TargetError(
                    f"Stream {stream} acknowledged sequence {seq} after {self.stored[stream]}: it does not keep what "
                    "it acknowledges, or it was made again",
                    "Create a new replay when the stream keeps its messages",
                )
            )
            return False
        self.stored[stream] = max(seq, self.stored.get(stream, 0))
        return True

    def _refused(self, answer: Answer, subject: str) -> None:
        """A stream refused a message, or there is no stream: nothing more is sent."""
        if self.failure is None:
            self.last_id = last_id(answer)
        if answer.status != Status.NO_RESPONDERS:
            self.fail(refusal(answer, subject))
        elif self.life.on(Event.UNHEARD):
            self._asking = asyncio.create_task(self._ask_who_listens(subject))

    async def _ask_who_listens(self, subject: str) -> None:
        self.fail(await nobody_listens(self._client, subject, GONE if self.window.acked else NONE_YET))

    def _overdue(self, now: float) -> bool:
        since = self.window.waiting_since
        return since is not None and now - since > self._ack_timeout_s

    async def _watch_over(self) -> None:
        while True:
            await asyncio.sleep(min(0.5, self._ack_timeout_s / 4))
            if time.monotonic() - self._alive_at <= LEASE_S:
                self._alive_at = time.monotonic()
            if self.life.state is State.SENDING and self._overdue(time.monotonic()):
                self.fail(
                    Interrupted(
                        f"The target did not acknowledge messages within {self._ack_timeout_s:.0f} s",
                        "Is the target's server overloaded, or without a leader?",
                    )
                )
            self._keep_alive()

    def _keep_alive(self) -> None:
        """Sends something if the protocol must not fall silent. It is called about twice a second."""


async def _ignore(message: object) -> None:
    """Answers go past nats-py's queues; nothing else comes to the inbox."""
