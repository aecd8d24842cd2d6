"""Filters and transforms against the examples of NATS' own documentation, and against each other."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.subjects import (
    Transform,
    check_filter,
    covers,
    decoded,
    has_mixed_token,
    is_exact,
    is_one_subject,
    literal_tokens,
    matches,
    matches_shown,
    overlap,
    readable,
    selects,
    selects_shown,
)

token = st.sampled_from(["a", "b", "orders", "é", "x-y", "$1"])
subject = st.lists(token, min_size=1, max_size=4).map(".".join)
filter_ = st.tuples(st.lists(st.one_of(token, st.just("*")), min_size=1, max_size=4), st.booleans()).map(
    lambda t: ".".join([*t[0], ">"] if t[1] else t[0])
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not a subject"),
        ("a..b", "token 2"),
        (".a", "token 1"),
        ("a.", "token 2"),
        ("a.>.b", "last token"),
        ("a b", "not a"),
        ("a\r\nb", "more than one line"),
        ("a\0b", "a control character"),
    ],
)
def test_a_malformed_filter_is_refused_with_the_token_at_fault(text: str, says: str) -> None:
    with pytest.raises(OperatorError, match=says):
        check_filter(text)


@pytest.mark.parametrize("text", ["a.b>", "a.*b", "a*b", "**", ">>", "a.>>"])
def test_a_wildcard_inside_a_token_is_a_character(text: str) -> None:
    assert check_filter(text) == text
    assert is_exact(text)
    assert matches(text, text)
    assert not matches(text, text.replace("*", "x").replace(">", "x"))
    assert has_mixed_token(text)


@given(
    st.lists(st.binary(min_size=1, max_size=6).filter(lambda raw: not {*b". \t\r\n"} & {*raw}), min_size=1, max_size=4)
)
def test_the_text_that_is_shown_takes_the_subject(tokens: list[bytes]) -> None:
    subject = decoded(b".".join(tokens))
    shown = readable(subject)
    assert matches_shown(shown, subject)
    # As a server compares it, the text takes the subject unless a byte that is not UTF-8 stands before a token `>`.
    compared = decoded(b".".join(tokens[: tokens.index(b">")] if b">" in tokens else tokens))
    assert matches(shown, subject) == (readable(compared) == compared)
    # What a filter takes begins like it.
    fixed = shown.split(".")[: literal_tokens(shown)]
    assert subject.split(".")[: len(fixed)] == fixed
    assert not is_one_subject(shown) or shown == subject


@pytest.mark.parametrize("text", ["nats://ann:hunter2@h:4222", "tls://hunter2@h", "a.b://ann:hunter2@h.c.>"])
def test_an_address_with_a_login_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(OperatorError, match="A subject filter holds an address with a login") as raised:
        check_filter(text)
    assert "hunter2" not in str(raised.value)
    assert check_filter("nats://h:4222/a@b") == "nats://h:4222/a@b"


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        (">", "a.b", True),
        ("a.>", "a", False),
        ("a.>", "a.b.c", True),
        ("a.*", "a.>", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.b", "a.*", False),
        ("*.b", "a.b", True),
        (">", ">", True),
        ("a.>", "a.*", True),
    ],
)
def test_covers(wide: str, narrow: str, expected: bool) -> None:
    assert covers(wide, narrow) is expected


@given(filter_, subject)
def test_a_filter_matches_what_its_regular_expression_matches(f: str, s: str) -> None:
    pattern = r"\.".join({"*": "[^.]+", ">": ".+"}.get(part, re.escape(part)) for part in f.split("."))
    assert bool(re.fullmatch(pattern, s)) is matches(f, s)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a.b", False),
        ("a.*", "a.b", True),
        ("a.*", "*.b", True),
        ("a.*", "b.*", False),
        ("a.*", "a.b.c", False),
        (">", "a", True),
        ("a.>", "a", False),
        ("a.>", "a.b.c", True),
        ("a.>", "*.b", True),
        ("b.>", "a.b", False),
        ("a.b.>", "a.*.c", True),
        ("a.b.>", "a.c.>", False),
    ],
)
def test_overlap(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is overlap(other, one) is expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [((), True), (("a",), False), (("a.b",), True), (("a", "a.*"), True), (("a.*", "a"), True), (("a", "b"), False)],
)
def test_one_of_several_filters_is_enough(filters: tuple[str, ...], expected: bool) -> None:
    assert selects(filters, "a.b") is selects_shown(filters, "a.b") is expected


@pytest.mark.parametrize(
    ("text", "one", "literal", "mixed"),
    [
        ("a.b", True, 2, False),
        ("a.*", False, 1, False),
        ("*.a", False, 0, False),
        ("a.b.>", False, 2, False),
        (">", False, 0, False),
        ("a.b*", True, 2, True),
        ("a>.b", True, 2, True),
        ("a.%FF", False, 1, False),
        ("%FF.a", False, 0, False),
        ("a.%7F", True, 2, False),
    ],
)
def test_what_a_filter_says_of_its_subjects(text: str, one: bool, literal: int, mixed: bool) -> None:
    assert (is_one_subject(text), literal_tokens(text), has_mixed_token(text)) == (one, literal, mixed)


def test_the_text_of_a_byte_is_taken_of_that_byte_alone() -> None:
    assert matches_shown("a.%FF", "a.\udcff")
    assert matches_shown("a.%FF", "a.%FF")
    assert not matches_shown("a.%FF", "a.\udcfe")
    assert not matches_shown("a.%FF", "b.\udcff")
    assert not matches_shown("a.x", "a.y")
    with pytest.raises(OperatorError, match="it is not UTF-8"):
        check_filter("a.\udcff")


@given(filter_, filter_, subject)
def test_covering_and_overlapping_agree_with_matching(one: str, other: str, s: str) -> None:
    if matches(one, s) and matches(other, s):
        assert overlap(one, other)
    if covers(one, other) and matches(other, s):
        assert matches(one, s)
    assert overlap(one, other) is overlap(other, one)


@pytest.mark.parametrize(
    ("source", "destination", "given_", "expected"),
    [
        (">", ">", "a.b", "a.b"),
        ("orders.>", "replay.orders.>", "orders.eu.1", "replay.orders.eu.1"),
        ("orders.*", "replay.{{wildcard(1)}}", "orders.7", "replay.7"),
        ("bar.*.*", "baz.$2.$1", "bar.a.b", "baz.b.a"),
        ("a.>", "one", "a.b", "one"),
        ("a.*", "x", "b.c", None),
        ("foo.*", "p-{{wildcard(1)}}-q", "foo.1", "p-1-q"),
        ("*", "{{left(1, 2)}}.{{right(1,3)}}", "abcdef", "ab.def"),
        ("*", "s.{{split(1,-)}}", "a-b-c", "s.a.b.c"),
        ("*", "{{SplitFromLeft(1,3)}}", "12345", "123.45"),
        ("*", "{{SplitFromRight(1,3)}}", "12345", "12.345"),
        ("*", "{{SliceFromLeft(1,3)}}", "1234567890", "123.456.789.0"),
        ("*", "{{SliceFromRight(1,3)}}", "1234567890", "1.234.567.890"),
        ("a.*.>", "b.{{wildcard(1)}}.>", "a.x.y.z", "b.x.y.z"),
        ("*", "{{right(1,1)}}", "abc", "c"),
        ("*", "{{left(1,1)}}", "abc", "a"),
        ("*", "{{splitfromleft(1,3)}}", "123", "123"),
        ("*", "{{splitfromright(1,3)}}", "123", "123"),
        ("*", "{{slicefromleft(1,1)}}", "123", "1.2.3"),
        ("*", "{{slicefromright(1,3)}}", "123456", "123.456"),
        ("*", "p.{{partition(1,1)}}", "abc", "p.0"),
    ],
)
def test_transforms(source: str, destination: str, given_: str, expected: str | None) -> None:
    transform = Transform(source, destination)
    assert transform(given_) == expected
    if expected is not None:
        assert matches(transform.pattern, expected)


@pytest.mark.parametrize(
    ("source", "destination", "pattern"),
    [
        (">", ">", ">"),
        ("a.>", "b.c.>", "b.c.>"),
        ("a.*", "b.c", "b.c"),
        ("*.*", "b.$2.{{wildcard(1)}}", "b.*.*"),
        ("*", "b.p-{{left(1,2)}}.c", "b.*.c"),
        ("*", "b.{{partition(3,1)}}", "b.*"),
        ("*", "b.{{left(1,1)}}{{split(1,-)}}.c", "b.>"),
        ("*", "b.{{slicefromleft(1,2)}}.c", "b.>"),
    ],
)
def test_the_filter_of_what_a_transform_makes(source: str, destination: str, pattern: str) -> None:
    assert Transform(source, destination).pattern == pattern


def test_partition_is_stable_and_within_bounds() -> None:
    transform = Transform("neworders.*", "neworders.{{wildcard(1)}}.{{partition(3,1)}}")
    # The table of NATS' documentation (docs.nats.io, "Deterministic subject token partitioning").
    assert [transform(f"neworders.customerid{n}") for n in range(1, 7)] == [
        f"neworders.customerid{n}.{p}" for n, p in zip(range(1, 7), (0, 2, 1, 2, 1, 0), strict=True)
    ]


@pytest.mark.parametrize(
    ("source", "destination", "says"),
    [
        ("a.*", "b.>", "ends with >"),
        ("a", "b.*", "bare"),
        ("a.*", "b.{{wildcard(2)}}", "has 1"),
        ("a.*", "b.{{nope(1)}}", "know"),
        ("a.*", "b.{{left(1)}}", "arguments"),
        ("a.*", "b.{{left(1,0)}}", "arguments"),
        ("a.*", "b.{{left(1,2,3)}}", "arguments"),
        ("a.*", "b.{{wildcard(1,1)}}", "arguments"),
        ("a.*", "b.{{partition(3)}}", "arguments"),
        ("a.*", "b.{{wildcard(0)}}", "has 1"),
        ("a.*", "b.{{partition(0,1)}}", "arguments"),
        ("a.*", "b.{{wildcard(1)", "not a|unfinished"),
        ("a..b", "c", "token 2"),
        ("a", "", "not a subject"),
    ],
)
def test_a_transform_that_cannot_be_is_refused(source: str, destination: str, says: str) -> None:
    with pytest.raises(OperatorError, match=says):
        Transform(source, destination)
