"""Frames in: whole, byte by byte and cut anywhere they give the same columns; garbage raises the one declared error."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.errors import ProtocolError

from nats3_dagster.jetstream import client as client_module
from nats3_dagster.jetstream.client import BulkParser
from nats3_dagster.jetstream.read import scan as scan_module
from nats3_dagster.jetstream.read.frames import last_ack, messages
from nats3_dagster.jetstream.read.scan import FrameError, Frames, scan
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.subjects import decoded, encoded, readable

MARKER = b" 7 $JS.ACK."
V1 = "S.c"
V2 = "hub.AHASH.S.c"


@pytest.fixture(autouse=True, params=["each", "all", "large"], scope="module")
def way(request):
    """Frames are scanned one by one where there are few or large ones, and else all at once: all must agree."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan_module, "_FEW_BYTES", 1 << 40 if request.param == "each" else 0)
        patch.setattr(scan_module, "_SAMPLE", 1)
        patch.setattr(scan_module, "_LARGE_FRAME", 1 << 40 if request.param == "all" else 0)
        # A frame that two reads share is joined alone, or with all of the second read.
        patch.setattr(client_module, "_LARGE_READ", 1 << 40 if request.param == "each" else 5)
        yield request.param


def frame(seq, subject="a.b", headers=None, data=b"x", *, ack=V1, cseq=None, pending=0, more=""):
    """What a consumer delivers; `ack` says which kind of ack subject."""
    reply = f"$JS.ACK.{ack}.1.{seq}.{cseq or seq}.{1_700_000_000_000_000_000 + seq}.{pending}{more}"
    if headers is None:
        return encoded(f"MSG {subject} 7 {reply} {len(data)}\r\n") + data + b"\r\n"
    size = len(headers) + len(data)
    return encoded(f"HMSG {subject} 7 {reply} {len(headers)} {size}\r\n") + headers + data + b"\r\n"


def row(seq, subject="a.b", headers=None, data=b"x"):
    time_ns = 1_700_000_000_000_000_000 + seq
    text = readable(subject)
    raw = None if text == subject else encoded(subject)
    return {
        "seq": seq,
        "time_ns": time_ns,
        "subject": text,
        "subject_bytes": raw,
        "headers": headers,
        "data": data,
    }


def parse(*pieces):
    """What the parser makes of reads of these bytes: the blocks for the bulk path."""

    async def go():
        blocks: list[Frames] = []
        parser = BulkParser(Client())
        parser.divert(MARKER, blocks.append)
        for piece in pieces:
            await parser.parse(piece)
        return blocks

    return asyncio.run(go())


def rows(blocks):
    return messages(blocks, MARKER).batch.to_pylist()


HEADERS = b"NATS/1.0\r\nA: 1\r\nA: 2\r\nStatus: 503\r\nEmpty:\r\nX: \xff\xfe\r\n\r\n"
HARD = [
    (1, "a.b", None, b""),
    (2, "a.b", HEADERS, b""),
    (3, "a.b", b"NATS/1.0\r\n\r\n", b"only an empty block"),
    (4, "a.b", b"NATS/1.0 100 Idle\r\n\r\n", b""),  # a status line that somebody stored
    (5, "é.日本.b", None, b"\r\nMSG a.b 7 $JS.ACK.S.c.1.9.9.9.0 1\r\nx\r\n"),  # a payload that looks like a frame
    (6, "a.b", b"NATS/1.0\r\nBig: " + b"v" * 61_440 + b"\r\n\r\n", b"\0" * 100),
    (7, "7.$JS.ACK.x", None, bytes(range(256))),
    (8, decoded(b"\xff.\xc3\xa9.\0\x1f\x0b\x85"), HEADERS, b"a subject that is not UTF-8"),
]
WIRED = b"".join(frame(*message) for message in HARD)


def test_columns_are_those_of_the_wire_format():
    batch = messages(parse(WIRED), MARKER).batch
    assert batch.schema == MESSAGES
    batch.validate(full=True)
    assert batch.to_pylist() == [row(*message) for message in HARD]


def test_fed_byte_by_byte():
    small = b"".join(frame(*message) for message in HARD if message[0] != 6)
    pieces = [small[at : at + 1] for at in range(len(small))]
    assert rows(parse(*pieces)) == [row(*message) for message in HARD if message[0] != 6]


@given(st.lists(st.integers(0, len(WIRED)), max_size=12))
def test_cut_anywhere(cuts):
    edges = sorted({0, *cuts, len(WIRED)})
    blocks = parse(*(WIRED[a:b] for a, b in pairwise(edges)))
    assert rows(blocks) == [row(*message) for message in HARD]


# Any bytes but those that end a subject on the wire.
subject = st.text(st.characters(exclude_characters=" \t\r\n", exclude_categories=["Cs"]), min_size=1) | st.binary(
    min_size=1
).filter(lambda raw: not set(raw) & set(b" \t\r\n")).map(decoded)
block = st.binary(max_size=60).map(lambda b: b"NATS/1.0\r\n" + b + b"\r\n\r\n")


@given(st.lists(st.tuples(subject, st.none() | block, st.binary(max_size=60)), min_size=1, max_size=9))
def test_any_message_comes_back(sent):
    made = [(n, *message) for n, message in enumerate(sent, 1)]
    assert rows(parse(b"".join(frame(*m) for m in made))) == [row(*m) for m in made]


LIKE_FRAMES = [
    (1, "a.b", None, b"\r\nMSG a.b 7 $JS.ACK.S.c.1.9.9.9.0 1\r\nx\r\nMSG a.b 7 $JS.ACK.S.c.1.9.9.9.0 1\r\ny\r\n" * 9),
    (2, "a.b", b"NATS/1.0\r\nMSG : x\r\nHMSG : x\r\nHost: h\r\n\r\n", b"\r\nMSG \r\nHMSG \r\nM\r\nH"),
    (3, "a.b", None, b"\r\nMSG" * 50),
    (4, "a.b", None, b"\r"),
    (5, "a.b", None, b"\n\r\n\r\n"),
]


@given(st.lists(st.sampled_from(LIKE_FRAMES), min_size=1, max_size=8), st.integers(0, 3))
def test_payloads_that_look_like_frames(chosen, others):
    made = [(n, *message[1:]) for n, message in enumerate(chosen, 1)]
    wired = [frame(*m) for m in made]
    for n in range(others):
        wired.insert(n * 2, b"MSG _INBOX.x 3 7\r\n\r\nMSG \r\r\n")
    assert rows(parse(b"".join(wired))) == [row(*m) for m in made]


def test_other_frames_between_go_to_the_other_parser():
    one, other = b"MSG _INBOX.x 3 5\r\nhello\r\n+OK\r\n", b"HMSG _INBOX.y 7 12 12\r\nNATS/1.0 4\r\n\r\n"
    blocks = parse(frame(1) + one + frame(2) + other + frame(3))
    assert [r["seq"] for r in rows(blocks)] == [1, 2, 3]


@pytest.mark.parametrize(("ack", "more"), [(V1, ""), (V2, ""), (V2, ".random"), (V2, ".random.and.more")])
def test_acknowledgement_subjects_of_9_tokens_and_of_11_or_more(ack, more):
    block = scan(frame(41, ack=ack, cseq=3, pending=17, more=more, headers=HEADERS), 0, MARKER)
    assert rows([block]) == [row(41, headers=HEADERS)]
    assert messages([block], MARKER).consumer_seqs.tolist() == [3]
    ack_of_it = last_ack(block, MARKER)
    assert (ack_of_it.seq, ack_of_it.consumer_seq, ack_of_it.pending) == (41, 3, 17)


@pytest.mark.parametrize("tokens", ["S.c.1.2.3.4", "S.c.1.2.3.4.5.6", "S.c.1.x.3.4.5", "S.c.1.2.3..5", "S.c.1.2.y.4.5"])
def test_an_acknowledgement_subject_of_another_kind_is_refused(tokens):
    block = scan(f"MSG a 7 $JS.ACK.{tokens} 1\r\nx\r\n".encode(), 0, MARKER)
    with pytest.raises(FrameError):
        messages([block], MARKER)


@pytest.mark.parametrize(
    "wired",
    [
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.0 3\r\nlonger\r\n",  # not followed by CRLF
        b"HMSG a 7 $JS.ACK.S.c.1.1.1.1.0 9 3\r\nabc\r\n",  # headers larger than all
        b"HMSG a 7 $JS.ACK.S.c.1.1.1.1.0 3\r\nabc\r\n",  # one size
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.0 1 3\r\nabc\r\n",  # two sizes
        b"HMSG a 7 $JS.ACK.S.c.1.1.1.1.0 -1 3\r\nabc\r\n",
    ],
)
def test_a_frame_that_contradicts_itself_is_refused(wired):
    with pytest.raises(FrameError):
        messages([scan(wired, 0, MARKER)], MARKER)


@pytest.mark.parametrize(
    "wired",
    [
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.0 many\r\n",
        b"MSG a 7 $JS.ACK.S.c.1.1.1.1.0 -30\r\n",
        b"MSG a 3 99999999999999999999\r\n",
        b"MSG a 3 999999999999\r\n",
        b"WHAT\r\n",
        b"INFO {\r\n",
        b"-ERR\r\n",
        b"MSG\r\n",
    ],
)
def test_what_is_no_protocol_makes_the_connection_a_new_one(wired):
    with pytest.raises(ProtocolError):
        parse(frame(1) + wired)


def test_a_line_without_end_is_not_gathered_for_ever():
    with pytest.raises(ProtocolError):
        parse(*[b"x" * 300_000] * 4)


def _outcome(*pieces):
    """Parses, or raises one of the two errors declared; anything else fails the test."""
    try:
        blocks = parse(*pieces)
        return rows(blocks) if blocks else []
    except (ProtocolError, FrameError):
        return None


@given(st.binary(max_size=200))
def test_garbage_parses_or_raises_what_is_declared(garbage):
    _outcome(garbage)
    _outcome(frame(1), garbage)


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_frame_parses_or_raises_what_is_declared(data):
    wired = bytearray(frame(1, headers=HEADERS, data=b"payload") + frame(2))
    for _ in range(data.draw(st.integers(1, 3))):
        wired[data.draw(st.integers(0, len(wired) - 1))] = data.draw(st.integers(0, 255))
    _outcome(bytes(wired))


def test_blocks_of_many_reads_make_one_batch():
    blocks = [scan(frame(n, data=b"%d" % n), 0, MARKER) for n in range(1, 200)]
    assert rows(blocks) == [row(n, data=b"%d" % n) for n in range(1, 200)]
