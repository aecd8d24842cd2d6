"""The streams of a soak, each with the messages that its publisher makes.

Invariant: no two messages of a stream are the same, so that one that is there twice is seen, and none is random: a
capture compresses them as it would logs.
"""

from dataclasses import dataclass

from nats3_dagster_tests.bench.payloads import payloads

# The publisher makes each message of one of so many texts, behind the number that makes it unlike the others.
TEXTS = 4096
# Bytes of the events that texts are parts of.
_EVENT = 256
# How long a message of STATE lives before its subject has had more messages than the stream keeps, in seconds.
STATE_LIFE_S = 120


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that is published into."""

    name: str
    # The first token of its subjects; the second is a number.
    token: str
    subjects: int
    # Of a payload, in bytes.
    size: int
    # Its part of all messages.
    share: float
    # How many messages of a subject it keeps; 0: all of them.
    per_subject: int = 0

    def subject(self, number: int) -> bytes:
        """The subject of this number."""
        return b"%b.%d" % (self.token.encode(), number)

    def texts(self) -> list[bytes]:
        """What stands behind the number of a message: a part of an event or a log line, which has no room in less."""
        return [text[-self.size :][17:] for text in payloads(_EVENT, TEXTS)]


def streams(rate: float) -> tuple[Stream, ...]:
    """The three streams, at so many messages a second in all."""
    state = 2000
    return (
        Stream("EVENTS", "ev", 16, 256, 0.5),
        Stream("STATE", "st", state, 128, 0.25, per_subject=max(1, round(STATE_LIFE_S * rate * 0.25 / state))),
        Stream("SMALL", "sm", 64, 48, 0.25),
    )


def payload(text: bytes, number: int) -> bytes:
    """The payload of the message of this number."""
    return b"%016x %b" % (number, text)
