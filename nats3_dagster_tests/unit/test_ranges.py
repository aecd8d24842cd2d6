"""Ranges of sequences: both ends belong to them; and what a stream's configuration removes."""

from typing import Any

import pytest

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Incarnation, SeqRange, clipped, listed_ranges
from nats3_dagster.model.stream import (
    MAX_SEQUENCE,
    Message,
    check_stream_name,
    parse_sequences,
    ranges_of,
    removing_settings,
)
from nats3_dagster_tests.support.catalog import ranges, state


@pytest.mark.parametrize(("first", "last", "size"), [(1, 1, 1), (1, 2, 2), (5, 9, 5)])
def test_a_range_has_both_ends(first: int, last: int, size: int) -> None:
    assert SeqRange(first, last).size == size
    assert str(SeqRange(first, last)) == f"{first}-{last}"


@pytest.mark.parametrize(
    ("part", "within"),
    [
        ((1, 4), []),
        ((1, 5), [(5, 5)]),
        ((4, 6), [(5, 6)]),
        ((5, 9), [(5, 9)]),
        ((6, 6), [(6, 6)]),
        ((9, 20), [(9, 9)]),
        ((10, 20), []),
        ((1, 20), [(5, 9)]),
    ],
)
def test_what_lies_in_a_window(part: tuple[int, int], within: list[tuple[int, int]]) -> None:
    assert clipped(ranges(part), SeqRange(5, 9)) == [SeqRange(*one) for one in within]


@pytest.mark.parametrize(
    ("seqs", "joined"),
    [
        ([], ()),
        ([3], ((3, 3),)),
        ([3, 4], ((3, 4),)),
        ([3, 5], ((3, 3), (5, 5))),
        ([5, 3, 4, 9, 8, 1], ((1, 1), (3, 5), (8, 9))),
    ],
)
def test_sequences_become_ranges(seqs: list[int], joined: tuple[tuple[int, int], ...]) -> None:
    assert ranges_of(seqs) == ranges(*joined)


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, " and 1 more ranges"), (9, " and 4 more ranges")])
def test_five_ranges_are_listed(count: int, more: str) -> None:
    listed = ", ".join(f"{n}-{n}" for n in range(2, 2 + 2 * min(count, 5), 2))
    assert listed_ranges(ranges(*((n, n) for n in range(2, 2 + 2 * count, 2)))) == listed + more


def test_sequences_as_people_write_them() -> None:
    assert parse_sequences("7") == SeqRange(7, 7)
    assert parse_sequences("7-19") == SeqRange(7, 19)
    assert parse_sequences("1" * 20 + "-" + "2" * 20) == SeqRange(int("1" * 20), int("2" * 20))
    for text in ("", "-", "7-", "-7", "1_0", "7-8-9", "1" * 21):
        with pytest.raises(OperatorError, match="is not a sequence range"):
            parse_sequences(text)


def test_an_incarnation_is_told_by_its_time_and_the_name() -> None:
    one = Incarnation("S", 5)
    assert one == Incarnation("S", 5, restored_ns=9)
    assert one != Incarnation("S", 6)
    assert (one.server_created_ns, Incarnation("S", 5, restored_ns=9).server_created_ns) == (5, 9)
    assert Incarnation("S", 1_795_244_400_000_000_007).token == "20261121T070000000000007Z"


def test_the_largest_sequence_that_the_catalog_holds() -> None:
    assert MAX_SEQUENCE == 9_223_372_036_854_775_806


def test_names_of_streams() -> None:
    assert check_stream_name("A") == "A"
    assert check_stream_name("s" * 255) == "s" * 255
    for text in ("", "a.b", "a b", "a*", "s" * 256, "a/b", "a\0b"):
        with pytest.raises(OperatorError) as refused:
            check_stream_name(text)
        assert refused.value.field == "stream"
        assert "for stream" not in refused.value.what
    with pytest.raises(OperatorError, match="for target_stream") as refused:
        check_stream_name("a.b", "target_stream")
    assert refused.value.field == "target_stream"


def test_a_state_says_its_name_and_subjects() -> None:
    assert state().name == "LOGS"
    assert state().subjects == ()
    assert state(subjects=["a", "b.>"]).subjects == ("a", "b.>")
    assert state(subjects=None).subjects == ()


def test_the_exact_subject_of_a_message() -> None:
    def subject(text: str, raw: bytes | None) -> str:
        return Message(Incarnation("S", 5), 1, 1, text, raw, None, b"").exact_subject

    assert subject("a.b", None) == "a.b"
    assert subject("a.%FF", b"a.\xff") == "a.\udcff"


@pytest.mark.parametrize(
    ("config", "removing"),
    [
        ({}, {}),
        ({"max_age": 0, "max_msgs": -1, "max_bytes": -1, "max_msgs_per_subject": -1}, {}),
        ({"max_age": 1}, {"max_age"}),
        ({"max_msgs": 1}, {"max_msgs"}),
        ({"max_bytes": 1, "discard": "old"}, {"max_bytes"}),
        ({"max_msgs_per_subject": 1}, {"max_msgs_per_subject"}),
        ({"allow_msg_ttl": True}, {"allow_msg_ttl"}),
        ({"subject_delete_marker_ttl": 1}, {"subject_delete_marker_ttl"}),
        ({"retention": "limits"}, {}),
        ({"retention": "workqueue"}, {"retention"}),
        ({"retention": "interest"}, {"retention"}),
        ({"mirror": {"name": "S"}}, {"mirror"}),
        # A stream that refuses new messages removes none for being full, and none of a subject where it refuses those.
        ({"max_msgs": 1, "max_bytes": 1, "max_age": 1, "discard": "new"}, {"max_age"}),
        ({"max_msgs_per_subject": 1, "discard": "new"}, {"max_msgs_per_subject"}),
        ({"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True}, set()),
    ],
)
def test_settings_that_remove_messages(config: dict[str, Any], removing: set[str]) -> None:
    assert removing_settings(config) == {name: config[name] for name in removing}
