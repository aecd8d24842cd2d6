"""Conditions that somebody else wrote: each is one expression, and can only narrow."""

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Selection
from nats3_dagster.query.condition import LONGEST, checked
from nats3_dagster.query.matching import Conditions, statement_of

ONE = [
    "seq = 1",
    "seq = 1 -- the first",
    "seq IN (SELECT max(seq) FROM messages GROUP BY subject)",
    "subject LIKE 'a%' AND header(headers, 'X') = '1'",
    "EXISTS (FROM messages)",
    "CASE WHEN seq > 1 THEN true END",
]
NONE = [
    "",
    " -- nothing",
    "true) OR (true",
    "true) UNION SELECT * FROM messages WHERE (true",
    "true UNION SELECT 1",
    "true FROM messages",
    "true, false",
    "true AS b",
    "x: true",
    "*",
    "COLUMNS(*)",
    "true; SELECT 1",
    "true ORDER BY 1",
    "true LIMIT 3",
    "true GROUP BY 1",
    "true QUALIFY true",
    "true WINDOW w AS ()",
    "ALL true",
    "DISTINCT true",
    "?",
    "$1",
    "true /* ",
    "'abc",
    "true USING SAMPLE 10%",
    "1 = 1 WHERE true",
    "a\0b",
    "x = '\udcff'",
    "1" + "+1" * 1500,
    "x" * (LONGEST + 1),
]


def test_a_condition_is_one_expression() -> None:
    assert [text for text in ONE if checked(text) != text] == []
    for text in NONE:
        with pytest.raises(OperatorError) as error:
            checked(text)
        assert (error.value.field, "\n" in str(error.value)) == ("where", False), text


# What moves the borders of expressions, around what a condition may be made of.
_PARTS = ["true", "false", "seq", "1", "'a'", "(", ")", ",", ";", "--", "/*", "*/", "\n", "'", '"', "$$", "OR", "AND"]
_PARTS += [
    "NOT",
    "=",
    "UNION",
    "SELECT",
    "FROM messages",
    "WHERE",
    "messages",
    "AS x",
    "CASE WHEN",
    "THEN",
    "END",
    "IN",
]


@settings(max_examples=150, deadline=None)
@example("true) OR (true")
@example("false)) OR ((true")
@given(some.lists(some.sampled_from(_PARTS), max_size=8).map(" ".join) | some.text(max_size=30))
def test_whatever_the_text_is_the_other_conditions_hold(text: str) -> None:
    """The statement that is made of it chooses nothing beyond the header, or is refused."""
    try:
        checked(text)
    except OperatorError:
        return
    statement = statement_of(Conditions(Selection(), (("N", "1"),), text))
    with duckdb.connect() as session:
        session.execute("CREATE MACRO has_header(headers, name, value) AS headers = encode(value::VARCHAR)")
        session.execute(
            "CREATE TABLE messages AS SELECT i::BIGINT AS seq, 'x' AS incarnation, encode((i % 5)::VARCHAR) AS headers"
            " FROM range(1, 21) t(i)"
        )
        try:
            rows = session.execute(statement).fetchall()
        except duckdb.Error:
            return
    assert all(first == last and first % 5 == 1 for _, first, last in rows), text
