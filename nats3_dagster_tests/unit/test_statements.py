"""The SQL of the catalog: each statement says what it answers, and each name is one that there is."""

import ast
import re
from pathlib import Path

import pytest

import nats3_dagster.catalog
from nats3_dagster.catalog.statements import _statements  # pyright: ignore[reportPrivateUsage]

PACKAGE = Path(nats3_dagster.catalog.__file__).parent
# Name, parameters, the rest up to the next statement.
STATEMENTS = {
    name: text
    for path in sorted((PACKAGE / "sql").glob("*.sql"))
    for name, text in re.findall(r"^-- name: (\w+)\([^)]*\)[!#]?\n(.*?)(?=^-- name:|\Z)", path.read_text(), re.M | re.S)
}
CALLS = {"rows", "row", "values", "value", "value_or_none", "run", "copy"}


def test_every_statement_is_found() -> None:
    headers = sum(path.read_text().count("-- name:") for path in (PACKAGE / "sql").glob("*.sql"))
    assert len(STATEMENTS) == headers > 50


def test_loading_them_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """aiosql warns of a statement that writes and is not marked with `!`; a program without logging would print it."""
    _statements.cache_clear()
    assert set(_statements()) == set(STATEMENTS)
    assert caplog.text == ""


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_begins_with_a_sentence(name: str) -> None:
    comment = re.match(r"(?:-- .*\n)*", STATEMENTS[name])
    assert comment
    assert re.match(r"-- [A-Z].*\.\n", comment[0].replace("\n-- ", " ")), STATEMENTS[name]


def test_the_code_calls_the_statements_that_there_are_and_all_of_them() -> None:
    named: set[str] = set()
    called: set[str] = set()
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named.add(node.value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
                called |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    assert called - STATEMENTS.keys() == set()
    assert STATEMENTS.keys() - named == set()
