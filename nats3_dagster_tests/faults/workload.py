"""The workload: messages that are known byte for byte, and what the stream acknowledged of them."""

import random
import re
from dataclasses import dataclass, field
from datetime import datetime

from nats3_dagster_tests.support.wire import Message, Wire

Sent = tuple[str, bytes, bytes]
# Key of a message: when its stream was made, in nanoseconds since 1970, and its sequence.
Key = tuple[int, int]
_BLOCKS = (
    b"",
    b"NATS/1.0\r\nA: 1\r\nA: 2\r\na: 3\r\n\r\n",
    b"NATS/1.0\r\nStatus: 404\r\n\r\n",
    b"NATS/1.0\r\nX:\r\n\r\n",
    b"NATS/1.0\r\nBytes: \xff\xfe\x80\r\n\r\n",
    b"NATS/1.0\r\nNoSpace:y\r\nTrailing: z  \r\n\r\n",
    b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence-Of: none\r\n\r\n",
    # No header blocks at all: servers check their size only.
    b"no header block",
    b"\r\n",
    b"NATS/1.0\r\n\r\n",
    b"NATS/1.0\r\nNo: last line\r\n",
    b"\xff\x00\r\nNats3-Original-Block: AA==\r\n\r\n",
)
_WEIGHTS = (90, 4, 2, 2, 2, 2, 0, 1, 1, 1, 1, 1)
# Of single subjects, which are not UTF-8, beside the four that most messages have.
_ODD_SUBJECTS = (b"\xff", b"%FF", b"a.\xc3\x28", b"\xed\xa0\x80.\x01", b"\xfe\xff.b")


@dataclass(slots=True)
class Truth:
    """What a stream acknowledged, whatever became of it later."""

    # In the order of the stream.
    messages: dict[Key, Message] = field(default_factory=dict)
    # Reasons that are lies for messages which the fault took from the stream.
    taken: dict[Key, frozenset[str]] = field(default_factory=dict)

    def take(self, keys: list[Key], lies: frozenset[str]) -> None:
        """The fault removed these from the stream: the archive may have a gap there, for any other reason."""
        self.taken.update(dict.fromkeys(keys, lies))


# Of what went at the stream's head, and of what somebody deleted.
HEAD_LIES = frozenset({"deleted", "unselected", "retired"})
DELETE_LIES = frozenset({"unselected", "retired"})


def make_messages(rng: random.Random, prefix: str, count: int, first: int = 0) -> list[Sent]:
    """(subject, header block, payload). The payload begins with its number, so no two are alike. A subject has a lone
    surrogate for each byte that is not UTF-8 (PEP 383)."""
    subjects = [f"{prefix}.a", f"{prefix}.b.c", f"{prefix}.ü.x", f"{prefix}.{'long' * 10}"]
    odd = [f"{prefix}.{tokens.decode(errors='surrogateescape')}" for tokens in _ODD_SUBJECTS]
    return [
        (
            rng.choice(subjects if rng.random() < 0.95 else odd),
            rng.choices(_BLOCKS, _WEIGHTS)[0] if rng.random() < 0.98 else rng.randbytes(rng.randint(1, 40)),
            b"%d " % (first + n) + rng.randbytes(rng.choice((0, 1, 10, 100, 300, 1500))),
        )
        for n in range(count)
    ]


def publish(wire: Wire, stream: str, sent: list[Sent], truth: Truth, window: int) -> None:
    """Publish, so many at a time, and keep what the stream says that it stored. Nobody else may publish into it
    meanwhile."""
    if sent:
        wire.await_stream(sent[0][0])
    before = wire.state(stream)["last_seq"]
    for at in range(0, len(sent), window):
        wire.publish(sent[at : at + window])
    created = created_ns(wire, stream)
    stored = {m.seq: m for m in wire.messages(stream) if m.seq > before}
    for offset, (subject, headers, data) in enumerate(sent, before + 1):
        message = stored[offset]
        assert (message.subject, message.headers, message.data) == (as_json(subject), headers, data), offset
        truth.messages[created, offset] = message._replace(subject=subject)


def as_json(subject: str) -> str:
    """As an answer in JSON has it: with U+FFFD for each byte that is not UTF-8."""
    return re.sub("[\udc80-\udcff]", "\ufffd", subject)


def created_ns(wire: Wire, stream: str) -> int:
    """When the stream was made."""
    return parse_ns(wire.api(f"STREAM.INFO.{stream}")["created"])


def parse_ns(text: str) -> int:
    """Nanoseconds since 1970 of an RFC 3339 time in UTC."""
    match = re.fullmatch(r"(.{19})(?:\.(\d+))?(?:Z|\+00:00)", text)
    assert match, text
    seconds = int(datetime.fromisoformat(match[1] + "+00:00").timestamp())
    return seconds * 10**9 + int((match[2] or "").ljust(9, "0"))
