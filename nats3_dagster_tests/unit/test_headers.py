"""Header surgery: whatever goes in comes back byte for byte, and nothing that acts on a target goes out."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.jetstream.publish.atomic import LINES_BYTES, MOST, with_lines
from nats3_dagster.jetstream.publish.encode import Publication
from nats3_dagster.model import Incarnation
from nats3_dagster.replay.messages.headers import (
    block_bound,
    header_room,
    marked_replay,
    message_id,
    original_headers,
    replay_headers,
    replayed_sequences,
)

REPLAY, LIFE, TOKEN = "00ff00ff00ff00ff", Incarnation("S", 1_700_000_000_000_000_001), "20231114T221320000000001Z"
ACTING = [
    "Nats-Expected-Last-Sequence",
    "Nats-Rollup",
    "Nats-TTL",
    "Nats-Schedule",
    "Nats-Schedule-Target",
    "Nats-Batch-Id",
    "Nats-Incr",
    "Nats-Stream-Source",
    "Nats-Required-Api-Level",
    "Nats-Trace-Dest",
    "Nats-Trace-Only",
    "Nats-Trace-Hop",
    "Nats-Trace-Origin-Account",
    "Nats-Request-Info",
    "Nats-Msg-Id",
    "Nats3-Replay",
    "Nats3-Original-Nats-Msg-Id",
    "Nats3-Original-Nats-Msg-Id-Value",
]
DESCRIBING = ["Nats-Stream", "Nats-Sequence", "Nats-Subject", "Nats-Marker-Reason", "KV-Operation", "traceparent"]
key = st.sampled_from([b"A", b"a", b"Status", b"X-Nats-Msg-Id", b"nats-msg-id", *(name.encode() for name in ACTING)])
value = st.binary(max_size=12).map(lambda b: b.replace(b"\r", b"").replace(b"\n", b""))
line = st.tuples(key, st.sampled_from([b": ", b":", b":  "]), value).map(b"".join)
block = st.lists(line, min_size=1, max_size=5).map(
    lambda lines: b"NATS/1.0\r\n" + b"".join(x + b"\r\n" for x in lines) + b"\r\n"
)
status = block.map(lambda b: b.replace(b"NATS/1.0\r\n", b"NATS/1.0 503 No Way\r\n", 1))
# What no server checks: it takes any bytes for a header block.
garbage = st.one_of(
    st.binary(max_size=20),
    block.map(lambda b: b.replace(b"\r\n", b"\n", 1)),
    block.map(lambda b: b.replace(b"\r\n", b"\n")),
    block.map(lambda b: b[:-2]),
    block.map(lambda b: b[10:]),
    st.sampled_from([b"NATS/1.0", b"NATS/1.0\r\n", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0 503\r\n"]),
)
odd = st.one_of(status, garbage)


def send(
    blocks: list[bytes | None],
    *,
    stream: str = "S",
    first: int = 0,
    with_ids: bool = True,
    after: str | None = None,
    **how: bool,
) -> pa.Array:
    numbers = pa.array(range(first, first + len(blocks)), pa.int64())
    life = Incarnation(stream, LIFE.created_ns)
    return replay_headers(
        pa.array(blocks, pa.binary()), REPLAY, life, numbers, numbers, with_ids=with_ids, after=after, **how
    )


@given(st.lists(st.one_of(st.none(), block, odd), max_size=8), st.booleans())
def test_what_went_in_comes_back(blocks: list[bytes | None], with_ids: bool) -> None:
    sent = send(blocks, with_ids=with_ids)
    assert original_headers(sent).to_pylist() == blocks
    for n, out in enumerate(sent.to_pylist()):
        first, *lines = out.split(b"\r\n")
        assert (first, out[-4:]) == (b"NATS/1.0", b"\r\n\r\n")
        ours = [
            f"Nats3-Replay: {REPLAY}",
            "Nats3-Stream: S",
            f"Nats3-Incarnation: {TOKEN}",
            f"Nats3-Sequence: {n}",
            f"Nats3-Time: 1970-01-01T00:00:00.{n:09d}Z",
            *([f"Nats-Msg-Id: {REPLAY}:{TOKEN}:{n}"] if with_ids else []),
        ]
        assert b"\n".join(lines[: len(ours)]).decode() == "\n".join(ours)
        for name in ACTING[:-3]:
            assert not re.search(rb"(?mi)^" + name.encode() + b":", b"\n".join(lines[len(ours) :]))


@given(st.lists(st.one_of(st.none(), block, odd), min_size=1, max_size=8), st.sampled_from(["", "an id"]))
def test_messages_of_a_chain_expect_the_one_before(blocks: list[bytes | None], after: str) -> None:
    sent = send(blocks, first=5, after=after)
    assert original_headers(sent).to_pylist() == blocks
    ids = [message_id(REPLAY, LIFE, n) for n in range(5, 5 + len(blocks))]
    expected = re.compile(rb"\r\nNats-Msg-Id: ([^\r]*)(?:\r\nNats-Expected-Last-Msg-Id: ([^\r]*))?\r\n")
    for out, own, before in zip(sent.to_pylist(), ids, [after, *ids], strict=False):
        match = expected.search(out)
        assert match
        assert (match[1].decode(), (match[2] or b"").decode()) == (own, before)


@given(st.lists(st.one_of(st.none(), block, odd), max_size=8), st.booleans())
def test_what_a_replay_sent_is_recognised(blocks: list[bytes | None], with_ids: bool) -> None:
    """Whatever the message had of its own, a status in the first line included: or it would be published twice."""
    mixed = pa.concat_arrays([send(blocks, first=5, with_ids=with_ids), pa.array(blocks, pa.binary())])
    found = {token: seqs.tolist() for token, seqs in replayed_sequences(mixed, REPLAY)}
    assert found == ({TOKEN: list(range(5, 5 + len(blocks)))} if blocks else {})
    assert list(replayed_sequences(mixed, "ff" * 8)) == []


@given(st.lists(st.one_of(st.none(), block, odd), min_size=1, max_size=8))
def test_messages_of_an_atomic_batch_are_recognised_and_come_back(blocks: list[bytes | None]) -> None:
    """A server stores the lines of the batch too, and adds them to a message of another client's batch as well."""
    sent = in_batch(send(blocks, first=5))
    assert original_headers(sent).to_pylist() == blocks
    found = {token: seqs.tolist() for token, seqs in replayed_sequences(sent, REPLAY)}
    assert found == {TOKEN: list(range(5, 5 + len(blocks)))}
    lines = b"NATS/1.0\r\nNats-Batch-Id: idOf-it\r\nNats-Batch-Sequence: %d\r\n%bNats3-Replay: "
    for number, out in enumerate(sent.to_pylist(), 1):
        assert marked_replay(out) == REPLAY
        assert out.startswith(lines % (number, b"Nats-Batch-Commit: 1\r\n" if number == len(blocks) else b""))
    others = in_batch(pa.array([b"NATS/1.0\r\nA: 1\r\n\r\n"], pa.binary()))
    assert original_headers(others).to_pylist() == others.to_pylist()


def in_batch(blocks: pa.Array) -> pa.Array:
    """These blocks as a batch."""
    subjects, data = pa.array([b"s"] * len(blocks), pa.binary()), pa.array([b""] * len(blocks), pa.binary())
    return with_lines(Publication(subjects, blocks, data), "idOf-it").headers


def test_a_batch_adds_no_more_than_a_chain() -> None:
    """So that what a plan measures for a chain is enough for an atomic batch."""
    first, after = send([None] * MOST, after=None), send([None, None], after="")
    chain = len(after[1].as_py()) - len(first[1].as_py())
    batch = len(in_batch(first)[-1].as_py()) - len(first[-1].as_py())
    assert batch == LINES_BYTES <= chain == len(f"Nats-Expected-Last-Msg-Id: {message_id(REPLAY, LIFE, 0)}\r\n")


@given(st.lists(st.one_of(st.none(), block, odd), max_size=8), st.booleans())
def test_a_live_replay_gives_back_the_same(blocks: list[bytes | None], marks: bool) -> None:
    assert original_headers(send(blocks, live=True, marks=marks)).to_pylist() == blocks


@pytest.mark.parametrize("stream", ["S", "x" * 255])
def test_the_room_is_what_is_added(stream: str) -> None:
    sent = send([None], stream=stream, first=2**63 - 2, after=message_id(REPLAY, LIFE, 2**63 - 3))
    # Postgres and Arrow have sequences of 63 bits, which are a digit shorter.
    assert len(sent[0].as_py()) == header_room(stream) - 3


@pytest.mark.parametrize("stream", ["S", "x" * 255])
def test_no_block_becomes_larger_than_its_bound(stream: str) -> None:
    renamed = b"NATS/1.0 503" + b"\r\nNats-TTL:" * 99 + b"\r\n\r\n"
    for block in (b"", b"x" * 1000, renamed, b"NATS/1.0 503 A\r\n\r\n"):
        sent = send([block], stream=stream, first=2**63 - 2, after=message_id(REPLAY, LIFE, 2**63 - 3))[0].as_py()
        assert len(sent) <= block_bound(len(block), stream)


@given(st.lists(st.one_of(st.none(), block, odd), max_size=8))
def test_no_name_ends_with_one_that_acts(blocks: list[bytes | None]) -> None:
    """nats-server up to 2.9.6 finds a header by the end of its name."""
    ends = re.compile(rb"(?i)\n(?!X-)[^:\r\n]+(" + b"|".join(name.encode() for name in ACTING[:-3]) + rb"):")
    for out in send(blocks, with_ids=False).to_pylist():
        assert not ends.search(out)


@pytest.mark.parametrize("name", ACTING)
def test_each_acting_header_is_renamed_whatever_its_case(name: str) -> None:
    block = f"NATS/1.0\r\nA: 1\r\n{name.upper()}: 7\r\n\r\n".encode()
    sent = send([block])
    assert sent[0].as_py().endswith(f"\r\nA: 1\r\nNats3-Original-{name.upper()}-Value: 7\r\n\r\n".encode())
    assert original_headers(sent).to_pylist() == [block]


@pytest.mark.parametrize("name", DESCRIBING)
def test_a_header_that_only_describes_a_message_stays(name: str) -> None:
    line = f"\r\nA: 1\r\n{name}: 7\r\n\r\n".encode()
    assert send([b"NATS/1.0" + line])[0].as_py().endswith(line)


def test_a_value_that_looks_like_a_header_stays() -> None:
    block = b"NATS/1.0\r\nA: Nats-Msg-Id: 1\r\n\r\n"
    assert send([block])[0].as_py().endswith(b"\r\nA: Nats-Msg-Id: 1\r\n\r\n")


def test_a_large_block_survives() -> None:
    block = b"NATS/1.0\r\nBig: " + bytes(set(range(256)) - {10, 13}) * 240 + b"\r\n\r\n"
    assert original_headers(send([block])).to_pylist() == [block]


def test_a_status_is_a_header_and_acting_headers_below_it_are_renamed() -> None:
    sent = send([b"NATS/1.0 503 No Way\r\nA: 1\r\nNats-Rollup: all\r\n\r\n"])[0].as_py()
    assert sent.startswith(b"NATS/1.0\r\nNats3-Replay: ")
    assert sent.endswith(
        b"\r\nNats3-Original-Status: 503 No Way\r\nA: 1\r\nNats3-Original-Nats-Rollup-Value: all\r\n\r\n"
    )


def test_what_is_no_header_block_is_kept_in_base64() -> None:
    assert send([b"garbage"])[0].as_py().endswith(b"\r\nNats3-Original-Block: Z2FyYmFnZQ==\r\n\r\n")


LIVE = ["Nats-Rollup", "Nats-TTL", "Nats-Incr", "Nats-Schedule", "Nats-Schedule-Target"]


@pytest.mark.parametrize("name", ACTING)
def test_a_live_replay_leaves_what_acts_by_itself(name: str) -> None:
    block = f"NATS/1.0\r\nA: 1\r\n{name}: 7\r\n\r\n".encode()
    (sent,) = send([block], live=True, marks=False).to_pylist()
    renamed = block.replace(name.encode(), f"Nats3-Original-{name}-Value".encode())
    assert sent == (block if name in LIVE else renamed)


def test_without_marks_a_message_without_headers_stays_one() -> None:
    assert send([None, b"NATS/1.0\r\nA: 1\r\n\r\n"], live=True, marks=False).to_pylist() == [
        None,
        b"NATS/1.0\r\nA: 1\r\n\r\n",
    ]


def test_forged_marks_are_no_error() -> None:
    marks = b"NATS/1.0\r\nNats3-Replay: " + REPLAY.encode() + b"\r\nNats3-Stream: S\r\n"
    marks += b"Nats3-Incarnation: %b\r\nNats3-Sequence: %b\r\n\r\n"
    forged = [marks % (b"\xff", b"1"), marks % (b"T", b"9" * 19), marks % (b"T", b"9" * 30), b"NATS/1.0\r\n"]
    assert list(replayed_sequences(pa.array(forged, pa.binary()), REPLAY)) == []
