"""Rows of a query as documents: what is printed is JSON to every reader, whatever a payload says."""

import json
from typing import Any, NoReturn

from hypothesis import given
from hypothesis import strategies as some

from nats3_dagster.documents.rows import documents

# What as_json gives of a payload, and its cell: None where it is the text. A reader of JSON refuses the text, or takes
# it for another value than the next one does.
CELLS: dict[str, Any] = {
    '{"a": [1, "x", null, 1.50]}': {"a": [1, "x", None, 1.5]},
    '"text"': "text",
    "12345678901234567890123": 12345678901234567890123,
    '"\\ud83d\\ude00"': "\U0001f600",
    '{"x": NaN}': None,
    "[Infinity]": None,
    '{"x": -Infinity}': None,
    '{"x": 1e400}': None,
    '{"a": 1, "a": 2}': None,
    "9" * 400: None,
    "9" * 5000: None,
    '"\\ud83d"': None,
    "[" * 100 + "]" * 100: json.loads("[" * 100 + "]" * 100),
    "[" * 101 + "]" * 101: None,
    '{"n":' * 5000 + "1" + "}" * 5000: None,
}


def _refused(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def test_a_cell_is_what_the_payload_says_or_its_text() -> None:
    rows = documents(["j"], ["JSON"], [(text,) for text in CELLS])
    cells = {text: row["j"] for text, row in zip(CELLS, rows, strict=True)}
    assert cells == {text: text if value is None else value for text, value in CELLS.items()}


@given(some.text() | some.from_regex(r'[\[\]{}":,0-9eE+\-NaIfity\\u. ]*', fullmatch=True))
def test_no_text_of_a_payload_ends_the_document(text: str) -> None:
    (row,) = documents(["j"], ["JSON"], [(text,)])
    assert json.loads(json.dumps(row), parse_constant=_refused) == row
