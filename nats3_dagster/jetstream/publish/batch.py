"""Fast-ingest batches (nats-server 2.14 and later, ADR-50): an outbox whose acknowledgements are cumulative.

Invariant: what a batch has stored is always a beginning of what was sent, in order (gap mode `fail`). Every flush ends
the batch, and the stream's count of it must equal the client's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats3_dagster.errors import Interrupted
from nats3_dagster.jetstream.publish.acks import Answer, answers
from nats3_dagster.jetstream.publish.encode import Encoded, Publication, encode
from nats3_dagster.jetstream.publish.outbox import Outbox
from nats3_dagster.jetstream.publish.state import State
from nats3_dagster.jetstream.read.scan import FrameError, Frames

# Acknowledge at most every FLOW messages: `flow`. Asked for many more, the server starts at one and climbs slowly.
FLOW = 500
# ADR-50 allows up to three such groups without an answer.
GROUPS = 3
# The server forgets a batch that is silent for 10 s.
KEEP_ALIVE_S = 3.0
_END, _PING = 3, 4


class BatchOutbox(Outbox):
    """In reply subjects messages are counted from 1 in each batch: `<inbox>.<batch>.<flow>.fail.<count>.<op>.$FI`."""

    _batch = ""  # the id; empty between two batches
    _asked_flow = FLOW  # messages between two acknowledgements, as we asked
    _subject = b""  # one that the stream captures, for messages of the protocol
    _first = 0  # the number of the batch's first message
    _flow = 0  # messages between two acknowledgements, as the server says; 0: it has not said yet
    _ending = _end_sent = _pinged = False
    _waiting_since = 0.0  # of time.monotonic

    def flow_for(self, largest: int) -> int:
        """Returns the flow for messages of at most this size: the first acknowledgement comes after this number of
        messages, and they must fit into the window."""
        return max(1, min(FLOW, self._messages, self._size // largest))

    def reply(self, batch: str, flow: int) -> str:
        """Returns the prefix of the reply subjects of a batch."""
        return f"{self.inbox}.{batch}.{flow}.fail."

    def begin(self, batch: str, flow: int, subject: str) -> None:
        """A new batch follows; `subject` is one that its stream captures."""
        self._batch, self._asked_flow, self._subject, self._first = batch, flow, subject.encode(), self.queued
        self._flow, self._ending, self._end_sent, self._pinged = 0, False, False, False
        self._waiting_since = time.monotonic()

    def end(self) -> None:
        """End the batch after all messages given. The answer to this is waited for, and confirms them all."""
        self._ending = True
        self._pump()

    @property
    def settled(self) -> bool:
        return not self._batch

    def _room(self) -> int:
        under_way = self.sent - self.acked
        return min(self._messages, self._flow * GROUPS) - under_way if self._flow else 1 - under_way

    def _pump(self) -> None:
        super()._pump()
        if self._ending and not self._queue and not self._end_sent and self.life.state is State.SENDING:
            self._end_sent = True
            self._send_protocol(self.sent - self._first + 1, _END)

    def _on_frames(self, frames: Frames) -> None:
        try:
            for answer in answers(frames, self._marker):
                if answer.token.split(".")[0] == self._batch:
                    self._on_answer(answer)
        except FrameError as error:
            self.fail(Interrupted(error.what, error.hint))

    def _on_answer(self, answer: Answer) -> None:
        self._waiting_since, self._pinged = time.monotonic(), False
        body, kind = answer.body, answer.body.get("type")
        if kind == "ack":
            self._flow = max(1, _count(body, "msgs"))
            self._advance(max(self.acked, self._first + _count(body, "seq")))
        elif kind == "gap":
            self.fail(Interrupted(f"Messages {body.get('last_seq')} to {body.get('seq')} of a batch did not arrive"))
        elif kind == "err":
            self._refused(answer, self.subject_of(self._first + _count(body, "seq") - 1))
        elif answer.status or answer.error:
            self._refused(answer, self.subject_of(self._first + answer.number - 1))
        elif "batch" in body:
            if self._advances(str(body.get("stream")), _count(body, "seq")):
                self._on_end(_count(body, "count"))
        else:
            raise FrameError(f"A stream answered with something unknown: {body}")

    def _on_end(self, count: int) -> None:
        if not self._end_sent or self._first + count != self.sent:
            self.fail(Interrupted(f"The stream ended a batch of {self.sent - self._first} messages after {count}"))
            return
        self._batch, self._ending = "", False
        self._advance(self.sent)

    def _overdue(self, now: float) -> bool:
        """Acknowledgements come in groups: a part of one may wait for as long as the pace of the replay wants."""
        unanswered = self.sent > self._first and not self._flow
        if not self._batch or not (
            unanswered or self._end_sent or self._pinged or (self._flow and self.sent - self.acked >= self._flow)
        ):
            self._waiting_since = now
        return now - self._waiting_since > self._ack_timeout_s

    def _keep_alive(self) -> None:
        quiet = time.monotonic() - self._sent_at > KEEP_ALIVE_S
        if quiet and self._flow and self._batch and not self._end_sent and self.life.state is State.SENDING:
            self._pinged = True
            self._send_protocol(self.sent - self._first, _PING)

    def _send_protocol(self, count: int, op: int) -> None:
        """Send a message of the protocol itself, which is not stored."""
        self._sent_at = time.monotonic()
        reply = f"{self.reply(self._batch, self._asked_flow)}{count}.{op}.$FI".encode()
        if not self._client.send(b"PUB %b %b 0\r\n\r\n" % (self._subject, reply)):
            self.fail(Interrupted("The connection to NATS was lost"))


@dataclass(slots=True)
class OpenBatch:
    """A batch as the publisher's caller gives it messages. The outbox follows, in the connection's loop."""

    # Distinguishes it from all others.
    id: str
    # Messages between two acknowledgements, as the server is asked for.
    flow: int
    # Of time.monotonic.
    begun_at: float
    # Messages given so far.
    given: int = 0

    def encode(self, outbox: BatchOutbox, part: Publication) -> Encoded:
        """Returns the frames of the batch's next messages."""
        encoded = encode(part, outbox.reply(self.id, self.flow), self.given + 1, ".1.$FI" if self.given else ".0.$FI")
        self.given += len(part)
        return encoded


def _count(body: Mapping[str, Any], key: str) -> int:
    value = body.get(key)
    if not isinstance(value, int) or value < 0:
        raise FrameError(f"A stream answered with something unknown: {body}")
    return value
