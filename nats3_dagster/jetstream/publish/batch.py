"""Fast-ingest batches (nats-server 2.14 and later, ADR-50): an outbox whose acknowledgements are cumulative.

Invariant: what a batch has stored is always a beginning of what was sent, in order (gap mode `fail`). Every flush ends
the batch, and the stream's count of it must equal the client's.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from nats3_dagster.errors import Interrupted
from nats3_dagster.jetstream.publish.acks import Answer, answers
from nats3_dagster.jetstream.publish.encode import Encoded, Publication, encode
from nats3_dagster.jetstream.publish.outbox import Outbox
from nats3_dagster.jetstream.publish.state import ImpossibleEventError, State
from nats3_dagster.jetstream.read.scan import FrameError, Frames

# Acknowledge at most every FLOW messages: `flow`. Asked for many more, the server starts at one and climbs slowly.
FLOW = 500
# ADR-50 allows up to three such groups without an answer.
GROUPS = 3
# The server forgets a batch that is silent for 10 s.
KEEP_ALIVE_S = 3.0
_END, _PING = 3, 4


class Phase(Enum):
    """The phases of a batch."""

    # Between two batches.
    NONE = auto()
    # Messages are sent, as far as the window allows.
    OPEN = auto()
    # The same; after a silence the server was asked whether it has the batch still, and has not answered.
    PINGED = auto()
    # All its messages were given, and not all are sent.
    ENDING = auto()
    # Its end was sent. The answer confirms all its messages.
    ENDED = auto()


class Step(Enum):
    """The steps of a batch."""

    BEGIN = auto()
    # An answer of any kind.
    ANSWERED = auto()
    PING = auto()
    # The caller has no more messages for it.
    END = auto()
    SENT_END = auto()
    # The stream's count of its messages is the client's.
    CONFIRMED = auto()


# A failure changes no phase: the publisher's state (state.py) stops everything.
STEPS: Mapping[Phase, Mapping[Step, Phase]] = {
    Phase.NONE: {Step.BEGIN: Phase.OPEN},
    Phase.OPEN: {Step.ANSWERED: Phase.OPEN, Step.PING: Phase.PINGED, Step.END: Phase.ENDING},
    Phase.PINGED: {Step.ANSWERED: Phase.OPEN, Step.PING: Phase.PINGED, Step.END: Phase.ENDING},
    Phase.ENDING: {Step.ANSWERED: Phase.ENDING, Step.PING: Phase.ENDING, Step.SENT_END: Phase.ENDED},
    Phase.ENDED: {Step.ANSWERED: Phase.ENDED, Step.CONFIRMED: Phase.NONE},
}


class BatchOutbox(Outbox):
    """An outbox of batches. In reply subjects messages are counted from 1 in each batch:
    `<inbox>.<batch>.<flow>.fail.<count>.<op>.$FI`."""

    _phase = Phase.NONE
    # The id of the batch, or of the last one.
    _batch = ""
    # Messages between two acknowledgements: as the server was asked for, and as it says; 0 until it has said it.
    _asked_flow, _flow = FLOW, 0
    # One that the stream captures, for messages of the protocol.
    _subject = b""
    # The number of the batch's first message.
    _first = 0
    # Since when the server owes an answer, of time.monotonic.
    _waiting_since = 0.0

    def flow_for(self, largest: int) -> int:
        """Returns the flow for messages of at most this size: the first acknowledgement comes after this number of
        messages, and they must fit into the window."""
        return max(1, min(FLOW, self.window.messages, self.window.size // largest))

    def reply(self, batch: str, flow: int) -> str:
        """Returns the prefix of the reply subjects of a batch."""
        return f"{self.inbox}.{batch}.{flow}.fail."

    def begin(self, batch: str, flow: int, subject: str) -> None:
        """A new batch follows; `subject` is one that its stream captures."""
        self._step(Step.BEGIN)
        self._batch, self._asked_flow, self._flow = batch, flow, 0
        self._subject, self._first = subject.encode(), self.window.given
        self._waiting_since = time.monotonic()

    def end(self) -> None:
        """End the batch after all messages given. The answer to this is waited for, and confirms them all."""
        self._step(Step.END)
        self._pump()

    @property
    def is_answered(self) -> bool:
        return self._phase is Phase.NONE

    def _step(self, step: Step) -> None:
        """Raises ImpossibleEventError."""
        after = STEPS[self._phase].get(step)
        if after is None:
            raise ImpossibleEventError(f"A batch in the phase {self._phase.name} cannot take the step {step.name}")
        self._phase = after

    def _room(self) -> int:
        """One message until the server has answered, then GROUPS of what it acknowledges together."""
        under_way = self.window.sent - self.window.acked
        return min(self.window.messages, self._flow * GROUPS or 1) - under_way

    def _pump(self) -> None:
        super()._pump()
        if self._phase is Phase.ENDING and self.window.is_empty and self.life.state is State.SENDING:
            self._step(Step.SENT_END)
            self._send_protocol(self.window.sent - self._first + 1, _END)

    def _on_frames(self, frames: Frames) -> None:
        try:
            for answer in answers(frames, self._marker):
                if self._phase is not Phase.NONE and answer.token.split(".")[0] == self._batch:
                    self._on_answer(answer)
        except FrameError as error:
            self.fail(Interrupted(error.what, error.hint))

    def _on_answer(self, answer: Answer) -> None:
        self._step(Step.ANSWERED)
        self._waiting_since = time.monotonic()
        body, kind = answer.body, answer.body.get("type")
        if kind == "ack":
            self._flow = max(1, _count(body, "msgs"))
            self._advance(max(self.window.acked, self._first + _count(body, "seq")))
        elif kind == "gap":
            self.fail(Interrupted(f"Messages {body.get('last_seq')} to {body.get('seq')} of a batch did not arrive"))
        elif kind == "err":
            self._refused(answer, self.window.subject_of(self._first + _count(body, "seq") - 1))
        elif answer.status or answer.error:
            self._refused(answer, self.window.subject_of(self._first + answer.number - 1))
        elif "batch" in body:
            if self._advances(str(body.get("stream")), _count(body, "seq")):
                self._on_end(_count(body, "count"))
        else:
            raise FrameError(f"A stream answered with something unknown: {body}")

    def _on_end(self, count: int) -> None:
        sent = self.window.sent - self._first
        if self._phase is not Phase.ENDED or count != sent:
            self.fail(Interrupted(f"The stream ended a batch of {sent} messages after {count}"))
            return
        self._step(Step.CONFIRMED)
        self._advance(self.window.sent)

    def _overdue(self, now: float) -> bool:
        """Acknowledgements come in groups: a part of one may wait for as long as the pace of the replay wants."""
        under_way = self.window.sent - self.window.acked
        match self._phase:
            case Phase.NONE:
                is_owed = False
            # While it is ending the window is full, or the rest would have been sent.
            case Phase.PINGED | Phase.ENDING | Phase.ENDED:
                is_owed = True
            case Phase.OPEN:
                is_owed = under_way >= self._flow if self._flow else self.window.sent > self._first
        if not is_owed:
            self._waiting_since = now
        return now - self._waiting_since > self._ack_timeout_s

    def _keep_alive(self) -> None:
        is_quiet = time.monotonic() - self._sent_at > KEEP_ALIVE_S
        if is_quiet and self._flow and Step.PING in STEPS[self._phase] and self.life.state is State.SENDING:
            self._step(Step.PING)
            self._send_protocol(self.window.sent - self._first, _PING)

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
