"""The SQL of the catalog: each statement says what it answers, and each name is one that there is."""

import ast
import re
from pathlib import Path

import pytest

import nats3_dagster.catalog
from nats3_dagster.catalog.session.statements import parse

PACKAGE = Path(nats3_dagster.catalog.__file__).parent
FILES = [path.read_text() for path in sorted((PACKAGE / "sql").glob("*.sql"))]
STATEMENTS = {name: sql for text in FILES for name, sql in parse(text).items()}
# The parameters that stand beside the name of each.
STATED = {name: stated for text in FILES for name, stated in re.findall(r"^-- name: (\w+)\((.*)\)$", text, re.M)}
CALLS = {"rows", "row", "values", "value", "value_or_none", "run", "copy"}


def test_every_statement_is_found() -> None:
    assert len(STATEMENTS) == sum(text.count("-- name:") for text in FILES) > 50


def test_parameters_are_rewritten_and_nothing_else() -> None:
    text = """
-- name: one(archive, first_seq)
-- Says: a colon in a comment is kept, and 'a quote.
select ':archive', "a:b", :archive::text[], seqs[1:2] from t where first = :first_seq and name = 'it''s :name';

-- name: two()
select 1;
"""
    assert parse(text) == {
        "one": "-- Says: a colon in a comment is kept, and 'a quote.\n"
        "select ':archive', \"a:b\", %(archive)s::text[], seqs[1:2] from t "
        "where first = %(first_seq)s and name = 'it''s :name';",
        "two": "select 1;",
    }


def test_the_parameters_of_a_head_are_those_of_its_statement() -> None:
    differences = {
        name: sorted(stated ^ used)
        for name, sql in STATEMENTS.items()
        if (stated := set(re.findall(r"\w+", STATED[name]))) != (used := set(re.findall(r"%\((\w+)\)s", sql)))
    }
    assert differences == {}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_begins_with_a_sentence(name: str) -> None:
    comment = re.match(r"(?:-- .*\n)*", STATEMENTS[name])
    assert comment
    assert re.match(r"-- [A-Z].*\.\n", comment[0].replace("\n-- ", " ")), STATEMENTS[name]


def test_the_code_calls_the_statements_that_there_are_and_all_of_them() -> None:
    named: set[str] = set()
    called: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named.add(node.value)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
                called |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    assert called - STATEMENTS.keys() == set()
    assert STATEMENTS.keys() - named == set()
