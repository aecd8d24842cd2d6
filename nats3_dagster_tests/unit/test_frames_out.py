"""Frames out: what a server would read of them is what was given; and what it answers is read with care."""

import re
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.errors import Interrupted, TargetError
from nats3_dagster.jetstream.publish.acks import Answer, answers, plain_numbers, refusal
from nats3_dagster.jetstream.publish.encode import MAX_SUBJECT_BYTES, Publication, encode, publishable
from nats3_dagster.jetstream.publish.probe import subject_of_both
from nats3_dagster.jetstream.read.scan import FrameError, numbers_at, scan
from nats3_dagster.subjects import decoded, encoded, matches, overlap

LINE = re.compile(rb"(PUB|HPUB) ([^ \t\r\n]+) (\S+) (?:(\d+) )?(\d+)\r\n")
MARKER = b"MSG _INBOX.me."


def publication(*rows):
    subjects, headers, data = zip(*rows, strict=True)
    names = [None if subject is None else encoded(subject) for subject in subjects]
    return Publication.of(pa.array(names, pa.binary()), pa.array(headers, pa.binary()), pa.array(data, pa.binary()))


def read_back(buffer):
    """The frames as the protocol's documentation says to read them: (subject, reply, headers, data)."""
    at, out = 0, []
    while at < len(buffer):
        line = LINE.match(buffer, at)
        assert line, buffer[at : at + 80]
        size, header_size = int(line[5]), int(line[4] or 0)
        body = buffer[line.end() : line.end() + size]
        assert buffer[line.end() + size : line.end() + size + 2] == b"\r\n"
        assert (line[1] == b"HPUB") == (line[4] is not None)
        headers = body[:header_size] if line[1] == b"HPUB" else None
        out.append((decoded(line[2]), line[3].decode(), headers, body[header_size:]))
        at = line.end() + size + 2
    return out


message = st.tuples(
    st.text(st.characters(exclude_characters=" \t\r\n", exclude_categories=["Cs"]), min_size=1)
    | st.binary(min_size=1).filter(lambda raw: not set(raw) & set(b" \t\r\n")).map(decoded),
    st.none() | st.binary(max_size=30),
    st.binary(max_size=30),
)


@given(st.lists(message, min_size=1, max_size=9), st.integers(0, 10**12))
def test_any_messages_are_framed_as_they_are(rows, first):
    encoded = encode(publication(*rows), "_INBOX.me.", first, ".1.$FI")
    frames = read_back(bytes(encoded.buffer))
    assert frames == [(s, f"_INBOX.me.{first + n}.1.$FI", h, d) for n, (s, h, d) in enumerate(rows)]
    assert encoded.size == len(encoded.buffer)


def test_each_frame_ends_where_it_says():
    encoded = encode(publication(("a", None, b"1"), ("b", b"H", b""), ("c", None, b"")), "r.", 0)
    edges = [0, *encoded.ends.tolist()]
    parts = [bytes(encoded.buffer[a:b]) for a, b in pairwise(edges)]
    assert parts == [b"PUB a r.0 1\r\n1\r\n", b"HPUB b r.1 1 1\r\nH\r\n", b"PUB c r.2 0\r\n\r\n"]


def test_a_part_of_an_array_is_framed_as_that_part():
    whole = publication(*((f"s.{n}", b"H%d" % n, b"d") for n in range(10)))
    head, rest = whole.cut(3)
    assert len(head) == 3
    frames = read_back(bytes(encode(rest, "r.", 3).buffer))
    assert frames == [(f"s.{n}", f"r.{n}", b"H%d" % n, b"d") for n in range(3, 10)]


def test_slices_hold_every_message_once_and_no_more_than_an_encoding_may():
    whole = publication(*(("s", None, b"x" * size) for size in (5, 9 << 20, 9 << 20, 5, 20 << 20, 1)))
    slices = list(whole.slices())
    assert [len(s) for s in slices] == [2, 2, 1, 1]
    assert b"".join(d for s in slices for d in s.data.to_pylist()) == b"".join(whole.data.to_pylist())


@pytest.mark.parametrize(
    "subject",
    [
        "a",
        "a.b",
        "$JS.x",
        "é.日本",
        "a*b.c>",
        "%",
        "a." + "b" * 300,
        "*",
        "a.*",
        ">",
        "a.>",
        "a\0",
        "a\x0b",
        "a\x1f",
        "a\xa0",
        "a\u3000",
        "a\udcff",
    ],
)
def test_subjects_that_can_be_published_to(subject):
    assert publishable(encoded(subject))
    publication((subject, None, b"")).check(100, set())


@pytest.mark.parametrize("subject", ["", None, ".", "a.", ".a", "a..b", "a b", "a\r\nPUB b 0", "a\tb", "a\nb"])
def test_subjects_that_cannot_be_published_to(subject):
    assert not publishable(None if subject is None else subject.encode())
    with pytest.raises(TargetError, match="not a subject"):
        publication(("ok", None, b""), (subject, None, b"")).check(100, set())


def test_a_subject_too_long_for_a_control_line_is_refused():
    publication(("é" * (MAX_SUBJECT_BYTES // 2), None, b"")).check(100, set())
    with pytest.raises(TargetError, match=f"has {MAX_SUBJECT_BYTES + 1} bytes"):
        publication(("ok", None, b""), ("a" * (MAX_SUBJECT_BYTES + 1), None, b"")).check(100, set())


def test_a_message_above_max_payload_is_refused_with_its_subject_and_size():
    rows = publication(("ok", None, b"x" * 10), ("big", b"h" * 6, b"x" * 5))
    rows.check(11, set())
    with pytest.raises(TargetError, match="on big has 11 bytes .* max_payload is 10"):
        rows.check(10, set())


def answer(token, body, headers=None):
    if headers is None:
        return b"MSG _INBOX.me.%b 4 %d\r\n%b\r\n" % (token, len(body), body)
    return b"HMSG _INBOX.me.%b 4 %d %d\r\n%b%b\r\n" % (token, len(headers), len(headers) + len(body), headers, body)


def taken(*frames):
    return scan(b"".join(frames), 0, MARKER)


def test_plain_acknowledgements_are_their_numbers():
    block = taken(answer(b"5", b'{"stream":"S","seq":9}'), answer(b"6", b'{"stream":"S","domain":"D","seq":10}'))
    assert plain_numbers(block, MARKER) == [5, 6]


@pytest.mark.parametrize(
    "odd",
    [
        answer(b"6", b'{"stream":"S","seq":9,"duplicate": true}'),
        answer(b"6", b'{"error":{"code":503,"err_code":10077,"description":"full"},"stream":"S","seq":0}'),
        answer(b"6", b"", b"NATS/1.0 503\r\n\r\n"),
        answer(b"6", b"{}"),
        answer(b"6", b"garbage"),
        answer(b"6", b""),
    ],
)
def test_any_other_answer_is_read_one_by_one(odd):
    assert plain_numbers(taken(answer(b"5", b'{"stream":"S","seq":9}'), odd), MARKER) is None


def test_answers_tell_status_error_and_number():
    block = taken(
        answer(b"1", b'{"stream":"S","seq":1}'),
        answer(b"2", b"", b"NATS/1.0 503\r\nNats-Subject: x\r\n\r\n"),
        answer(b"id.500.fail.3.1.$FI", b'{"type":"err","seq":3,"error":{"code":400}}'),
        answer(b"4", b'{"stream":"S","seq":2}', b"NATS/1.0\r\nA: b\r\n\r\n"),
    )
    found = list(answers(block, MARKER))
    assert [a.number for a in found] == [1, 2, 3, 4]
    assert [a.status for a in found] == ["", "503", "", ""]
    assert [dict(a.error) for a in found] == [{}, {}, {"code": 400}, {}]


@pytest.mark.parametrize("body", [b"", b"garbage", b"[1]", b'"text"', b"\xff"])
def test_an_answer_that_is_no_json_object_is_refused(body):
    with pytest.raises(FrameError):
        list(answers(taken(answer(b"1", body)), MARKER))


@pytest.mark.parametrize("token", [b"x", b"-1", b"1.2", b"a.b.c.d"])
def test_an_answer_to_an_unknown_reply_subject_is_refused(token):
    block = taken(answer(token, b'{"stream":"S","seq":1}'))
    with pytest.raises(FrameError):
        _ = (plain_numbers(block, MARKER), [a.number for a in answers(block, MARKER)])


@given(st.binary(max_size=80), st.booleans())
def test_any_answer_is_read_or_refused(body, with_headers):
    block = taken(answer(b"1", body, b"NATS/1.0\r\n\r\n" if with_headers else None))
    try:
        plain_numbers(block, MARKER)
        list(answers(block, MARKER))
    except FrameError:
        pass


@given(st.lists(st.integers(0, 10**14) | st.sampled_from(["", "x", "1x", "-1"]), min_size=1))
def test_numbers_are_read_where_they_stand(tokens):
    texts = [f"{token} ".encode() for token in tokens]
    places = np.cumsum([0, *(len(t) for t in texts[:-1])])
    assert numbers_at(b"".join(texts), places).tolist() == [t if isinstance(t, int) else -1 for t in tokens]


def test_a_number_that_the_buffer_ends_with_is_none():
    assert numbers_at(b"7 12", np.array([0, 2])).tolist() == [7, -1]


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        ({"code": 400, "err_code": 10077, "description": "full"}, TargetError, "S refused a message on t: full"),
        ({"code": 429, "err_code": 10167, "description": "too many"}, Interrupted, "too many"),
        ({"code": 503, "err_code": 10008, "description": "unavailable"}, Interrupted, "unavailable"),
        ({"code": 400, "err_code": 10208, "description": "unknown"}, Interrupted, "forgot a batch"),
    ],
)
def test_a_refusal_that_passes_leaves_the_outcome_open(body, kind, told):
    failure = refusal(Answer("1", "", {"stream": "S", "error": body}), "t")
    assert type(failure) is kind
    assert told in failure.what


filters = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4).flatmap(
    lambda tokens: st.sampled_from([".".join(tokens), ".".join([*tokens, ">"])])
)


@given(filters | st.just(">"), filters | st.just(">"))
def test_a_subject_that_two_filters_take(one, other):
    if overlap(one, other):
        subject = subject_of_both(one, other)
        assert publishable(subject.encode())
        assert matches(one, subject)
        assert matches(other, subject)
