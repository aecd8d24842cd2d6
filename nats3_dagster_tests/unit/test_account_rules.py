"""Rules for an account: names of archives that say their stream, and patterns of stream names."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.model.archive_names import archive_name_of, stream_of
from nats3_dagster.model.archive_spec import MAX_NAME
from nats3_dagster.model.spec_table import by_key, to_document

# Every text that NATS takes for the name of a stream.
STREAMS = st.text(min_size=1, max_size=255).filter(lambda text: re.fullmatch(r"[^\s.*>/\\\0\ud800-\udfff]+", text))


@given(STREAMS)
@example("Über=1+1")
@example("KV_my-bucket")
@example("_x41_")
@example("_xx" + "0" * 32)
@example("a_x")
@example("-" * 45)
@example("é" * 255)
def test_an_archive_name_says_its_stream(stream: str) -> None:
    name = archive_name_of(stream)
    assert re.fullmatch(r"[A-Za-z0-9_]+", name)
    assert len(name) <= MAX_NAME
    if re.fullmatch(r"[A-Za-z0-9]+", stream) and len(stream) <= MAX_NAME:
        assert name == stream
    assert stream_of(name) in (stream, None)
    assert (stream_of(name) is None) == (
        len(re.sub(r"[^A-Za-z0-9_]|_(?=x)", lambda c: f"_x{ord(c[0]):X}_", stream)) > MAX_NAME
    )


@given(STREAMS, STREAMS)
@example("é" * 255, "é" * 254 + "e")
def test_no_two_streams_have_one_name(one: str, other: str) -> None:
    assert (archive_name_of(one) == archive_name_of(other)) == (one == other)


@pytest.mark.parametrize(
    ("pattern", "taken", "not_taken"),
    [
        ("*", ["EV", "é", "a?[b"], []),
        ("KV_*", ["KV_", "KV_a"], ["kv_a", "XKV_a", "KV"]),
        ("*_tmp", ["a_tmp", "_tmp"], ["a_tmp2"]),
        ("a*c*e", ["ace", "abcde"], ["aec", "acex"]),
        ("E?", ["E?"], ["EV"]),
        ("[ab]", ["[ab]"], ["a"]),
    ],
)
def test_a_pattern_is_the_name_with_stars(pattern: str, taken: list[str], not_taken: list[str]) -> None:
    rule = AccountRule("all", "bucket", match=(pattern,), exclude=(pattern,))
    assert [rule.is_matched(name) for name in (*taken, *not_taken)] == [True] * len(taken) + [False] * len(not_taken)
    assert [rule.is_excluded(name) for name in (*taken, *not_taken)] == [True] * len(taken) + [False] * len(not_taken)


def test_a_rule_is_kept_as_it_was_given() -> None:
    rule = AccountRule(
        "all",
        "bucket",
        ("a", "b*"),
        ("c",),
        "x/{stream}",
        take_queues=True,
        take_mirrors=True,
        remade="ask",
        max_age_s=7,
        copies=("other",),
        tags=("a=b",),
    )
    assert AccountRule(**by_key(AccountRule, to_document(rule))) == rule


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "a-b"}, "name"),
        ({"bucket": "b"}, "bucket"),
        ({"match": ()}, "match"),
        ({"match": ("a.b",)}, "match"),
        ({"exclude": ("a b",)}, "exclude"),
        ({"prefix": "/{stream}"}, "prefix"),
        ({"prefix": "date=x"}, "prefix"),
        ({"copies": ("bucket",)}, "copies"),
        ({"remade": "other"}, "remade"),
        ({"zstd_level": 23}, "zstd_level"),
    ],
)
def test_a_rule_that_cannot_be(fields: dict[str, object], field: str) -> None:
    with pytest.raises(OperatorError) as error:
        AccountRule(**{"name": "all", "bucket": "bucket"} | fields)  # type: ignore[arg-type]
    assert error.value.field == field
