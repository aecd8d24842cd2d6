"""An object and its stream have the same message only if subject, time, headers and payload are the same."""

import base64

import pytest

from nats3_dagster.archive.source import agreement
from nats3_dagster.archive.source.agreement import is_same
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.hours import format_time
from nats3_dagster.model import SeqRange
from nats3_dagster_tests.support.chunks import START, write

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
