"""An object and its stream have the same message only if subject, time, headers and payload are the same."""

import base64
from collections.abc import Sequence
from typing import Any, cast

import pytest

from nats3_dagster.archive.source import agreement
from nats3_dagster.archive.source.agreement import disagreement, is_same
from nats3_dagster.chunks import ChunkReader, ChunkWriter, open_chunk
from nats3_dagster.errors import UnknownStream
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import last_json, next_json
from nats3_dagster.model import Incarnation, Reason, SeqRange, StreamState
from nats3_dagster.subjects import matches
from nats3_dagster_tests.support.chunks import HOUR, LOGS, START, batch_of, write

BLOCK = b"NATS/1.0\r\nA: b\r\n\r\n"


def reader() -> ChunkReader:
    """An object of the sequences 4 to 9, with the messages 5 to 8."""
    rows = [
        (5, START + 5, "a.x", None, b"five"),
        (6, START + 6, "a.y", BLOCK, b""),
        (7, START + 7, "b\udcff", None, b"seven"),
        (8, START + 8, "a.x", None, b"five"),
    ]
    return open_chunk(*write(rows, SeqRange(4, 9)))


def message(seq: int, subject: str, time_ns: int, headers: bytes = b"", data: bytes = b"") -> dict[str, str]:
    """A message as the server's JSON has it: what is empty is left out."""
    parts = {"hdrs": base64.b64encode(headers).decode(), "data": base64.b64encode(data).decode()}
    return {
        "seq": str(seq),
        "subject": subject,
        "time": format_time(time_ns),
        **{name: text for name, text in parts.items() if text},
    }


FIVE, SIX = message(5, "a.x", START + 5, data=b"five"), message(6, "a.y", START + 6, BLOCK)
SEVEN = message(7, "b\ufffd", START + 7, data=b"seven")


@pytest.mark.parametrize(("seq", "one"), [(5, FIVE), (6, SIX), (7, SEVEN)])
def test_the_same_message(seq: int, one: dict[str, str]) -> None:
    assert is_same(reader(), seq, one)


@pytest.mark.parametrize(
    ("seq", "one"),
    [
        (5, {**FIVE, "subject": "a.y"}),
        (5, {**FIVE, "time": format_time(START + 6)}),
        (5, {**FIVE, "data": base64.b64encode(b"six").decode()}),
        (5, {**FIVE, "hdrs": base64.b64encode(BLOCK).decode()}),
        (6, {name: text for name, text in SIX.items() if name != "hdrs"}),
        (6, {**SIX, "data": base64.b64encode(b"x").decode()}),
        (7, {**SEVEN, "data": ""}),
        # The same content at the place of another message.
        (8, FIVE),
        # The object has none there.
        (4, FIVE),
        (9, FIVE),
        (10, FIVE),
    ],
)
def test_another_message(seq: int, one: dict[str, str]) -> None:
    assert not is_same(reader(), seq, one)


def test_how_a_message_of_the_stream_differs() -> None:
    held = {5, 6, 7, 8}
    assert agreement._other(reader(), held, "S", FIVE) == ""
    absent = agreement._other(reader(), held, "S", {**FIVE, "seq": "9"})
    assert absent == "stream S has a message at sequence 9, and the object has none"
    other = agreement._other(reader(), held, "S", {**FIVE, "subject": "c"})
    assert other == f"stream S has another message at sequence 5, of {format_time(START + 5)}"


# An object and its stream


class Stream:
    """What a stream answers: a message `a` at each of these sequences, and `b` or another payload at some."""

    def __init__(
        self, held: Sequence[int], last: int = 0, *, others: Sequence[int] = (), b: Sequence[int] = ()
    ) -> None:
        self._messages = {
            seq: message(seq, "b" if seq in b else "a", START + seq, data=b"other" if seq in others else b"")
            for seq in held
        }
        first = min(held, default=last + 1)
        self.state = StreamState(LOGS, first, last or max(held, default=0), 0, 0, len(held), 0, {})

    def call(self, question: Any, name: str, which: Any, subject: str) -> dict[str, str] | None:
        assert name == "LOGS"
        found = [one for _, one in sorted(self._messages.items()) if matches(subject, one["subject"])]
        if question is next_json:
            return next((one for one in found if int(one["seq"]) >= which), None)
        assert question is last_json
        return next((one for one in reversed(found) if which.first <= int(one["seq"]) <= which.last), None)


def object_of(seqs: Sequence[int], reason: Reason = "deleted", subjects: Sequence[str] = ()) -> ChunkReader:
    writer = ChunkWriter("logs", LOGS, HOUR, "cold", "team", 3, {}, tuple(subjects))
    writer.write(batch_of([(seq, START + seq, "a", None, b"") for seq in seqs]))
    data, meta = writer.finish(SeqRange(seqs[0], seqs[-1]), reason)
    return open_chunk(data.to_pybytes(), meta)


def differs(monkeypatch: pytest.MonkeyPatch, one: ChunkReader, stream: Stream, incarnation: Incarnation = LOGS) -> str:
    monkeypatch.setattr(agreement, "stream_state", lambda link, name: stream.state)
    return disagreement(cast("Link", stream), one, incarnation)


FILTERED = object_of([5, 6, 8], subjects=["a"])
BOTH = object_of([5, 6, 8], subjects=["z", "a"])
ERASED = object_of([5, 6, 8], "erased")
WHOLE, ONE, LONG = object_of([5, 6, 8]), object_of([5]), object_of(range(101, 131))
SAYS_7 = "has a message at sequence 7, and the object has none"


@pytest.mark.parametrize(
    ("one", "stream", "says"),
    [
        (WHOLE, Stream([4, 5, 6, 8, 9]), ""),
        (WHOLE, Stream([5, 6, 8]), ""),
        # Its last message has to be one that the stream may have had.
        (WHOLE, Stream([5, 6], 7), "stream LOGS ends at sequence 7"),
        (WHOLE, Stream([5, 6], 8), ""),
        (WHOLE, Stream([], 8), ""),
        (WHOLE, Stream([9], 9), ""),
        # Of what the stream has left, one message is enough.
        (WHOLE, Stream([8], others=[8]), "another message at sequence 8"),
        (WHOLE, Stream([5, 6, 8], others=[8]), "another message at sequence 8"),
        (WHOLE, Stream([5, 6, 8], others=[5]), "another message at sequence 5"),
        (WHOLE, Stream([5, 6], 9, others=[6]), "another message at sequence 6"),
        (WHOLE, Stream([5], 9, others=[5]), "another message at sequence 5"),
        (WHOLE, Stream([6, 9], 9, others=[6]), "another message at sequence 6"),
        (WHOLE, Stream([7, 9], 9), SAYS_7),
        (WHOLE, Stream([5, 6, 7, 9]), SAYS_7),
        (WHOLE, Stream([7, 8]), SAYS_7),
        # What a filter left out, or what was erased, the object need not have.
        (FILTERED, Stream([5, 6, 7, 8], b=[7]), ""),
        (FILTERED, Stream([7, 8], b=[7]), ""),
        (FILTERED, Stream([5, 6, 7, 9], b=[7]), ""),
        (FILTERED, Stream([5, 6, 7, 9]), SAYS_7),
        (FILTERED, Stream([5, 6, 7, 9], b=[7], others=[6]), "another message at sequence 6"),
        (FILTERED, Stream([5, 6, 8], b=[8]), "another message at sequence 8"),
        (BOTH, Stream([5, 6, 7, 9]), SAYS_7),
        (ERASED, Stream([5, 6, 7, 9]), ""),
        (ERASED, Stream([7, 8]), ""),
        (ERASED, Stream([5, 6, 7, 9], others=[6]), "another message at sequence 6"),
        (ERASED, Stream([7, 8], others=[8]), "another message at sequence 8"),
        (ERASED, Stream([7, 9]), ""),
        # One message.
        (ONE, Stream([5]), ""),
        (ONE, Stream([5], others=[5]), "another message at sequence 5"),
        (ONE, Stream([4, 9]), ""),
        # Both ends of an object are asked for, whatever its length, and the last one that the stream has.
        (LONG, Stream(range(101, 131)), ""),
        (LONG, Stream(range(101, 131), others=[101]), "another message at sequence 101"),
        (LONG, Stream(range(101, 131), others=[130]), "another message at sequence 130"),
        (LONG, Stream(range(101, 120), 200, others=[119]), "another message at sequence 119"),
        (LONG, Stream(range(101, 120), 200), ""),
        (LONG, Stream(range(120, 131), others=range(120, 131)), "another message at sequence 120"),
    ],
)
def test_an_object_and_its_stream(monkeypatch: pytest.MonkeyPatch, one: ChunkReader, stream: Stream, says: str) -> None:
    found = differs(monkeypatch, one, stream)
    assert says in found
    assert bool(found) == bool(says)


def test_eight_messages_of_an_object_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose places divide it into seven parts."""
    seen = [seq for seq in range(101, 131) if differs(monkeypatch, LONG, Stream(range(101, 131), others=[seq]))]
    assert seen == [101, 105, 109, 113, 118, 122, 126, 130]


def test_a_stream_that_cannot_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Stream([5, 6, 8], others=[5, 6, 8])
    assert "another message" in differs(monkeypatch, WHOLE, other)
    assert "another message" in differs(monkeypatch, WHOLE, other, Incarnation("LOGS", 7, LOGS.created_ns))
    assert differs(monkeypatch, WHOLE, other, Incarnation("LOGS", LOGS.created_ns + 1)) == ""
    assert differs(monkeypatch, WHOLE, other, Incarnation("LOGS", LOGS.created_ns, 7)) == ""

    def gone(*_: Any) -> StreamState:
        raise UnknownStream("There is no stream LOGS")

    monkeypatch.setattr(agreement, "stream_state", gone)
    assert disagreement(cast("Link", other), WHOLE, LOGS) == ""
