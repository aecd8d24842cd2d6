"""Mutants: what is changed, and that its table and its list name what there is."""

import ast
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster_tests.mutants import put_in, python_changes, report, sql_changes
from nats3_dagster_tests.mutants.change import ROOT, Mutant
from nats3_dagster_tests.mutants.crew import Crew
from nats3_dagster_tests.mutants.reach import Reach
from nats3_dagster_tests.mutants.table import modules, nearest

PYTHON = '''
LIMIT = 10
TABLE = {"a": Kind.ONE, "b": Kind.TWO}

def chosen(first, last, *, over=False):
    """Says something about 7."""
    log.info("text %s", 1)
    if first <= last and over:
        return [n for n in range(first, last + 1) if n]
    for n in numbers:
        if not n:
            continue
        total += n
    raise ValueError(f"{first + 1} is no number")
'''
SQL = """-- name: holes(archive, last)
-- A comment with 1 < 2 and 'a' > 'b'.
select min(n) from nats3.hole h left join x on true where seqs <= :last and h.n::int is not null order by 1 desc;
"""


def mutants_of(name: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Mutant]:
    (folder / name).write_text(text)
    for module in (python_changes, sql_changes):
        monkeypatch.setattr(module, "ROOT", folder)
    make = python_changes.python_mutants if name.endswith(".py") else sql_changes.sql_mutants
    return make(name)


def test_the_changes_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = mutants_of("module.py", PYTHON, tmp_path, monkeypatch)
    for mutant in mutants:
        ast.parse(mutant.mutated)
    assert {mutant.was_and_is for mutant in mutants} == {
        ("LIMIT = 10", "LIMIT = 11"),
        ("LIMIT = 10", "LIMIT = 9"),
        ('TABLE = {"a": Kind.ONE, "b": Kind.TWO}', 'TABLE = { "b": Kind.TWO}'),
        ('TABLE = {"a": Kind.ONE, "b": Kind.TWO}', 'TABLE = {"a": Kind.ONE, }'),
        ('TABLE = {"a": Kind.ONE, "b": Kind.TWO}', 'TABLE = {"a": Kind.TWO, "b": Kind.TWO}'),
        ('TABLE = {"a": Kind.ONE, "b": Kind.TWO}', 'TABLE = {"a": Kind.ONE, "b": Kind.ONE}'),
        ("if first <= last and over:", "if not (first <= last and over):"),
        ("if first <= last and over:", "if first < last and over:"),
        ("if first <= last and over:", "if first <= last or over:"),
        ("return [n for n in range(first, last + 1) if n]", "return None"),
        ("return [n for n in range(first, last + 1) if n]", "return [n for n in range(first, last - 1) if n]"),
        ("return [n for n in range(first, last + 1) if n]", "return [n for n in range(first, last + 2) if n]"),
        ("return [n for n in range(first, last + 1) if n]", "return [n for n in range(first, last + 0) if n]"),
        ("return [n for n in range(first, last + 1) if n]", "return [n for n in range(first, last + 1) if not (n)]"),
        ("if not n:", "if (n):"),
        ("continue", "pass"),
        ("total += n", "pass"),
        ('raise ValueError(f"{first + 1} is no number")', "pass"),
    }


def test_the_changes_of_a_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = mutants_of("statements.sql", SQL, tmp_path, monkeypatch)
    (line,) = {mutant.was_and_is[0] for mutant in mutants}
    assert [mutant.was_and_is[1] for mutant in mutants] == [
        line.replace("min(", "max("),
        line.replace("left join", "join"),
        line.replace("<=", "<"),
        line.replace(" and ", " or "),
        line.replace("is not null", "is null"),
        line.replace(" desc;", " ;"),
        line.replace("order by 1", "order by 2"),
    ]


def test_each_mutant_has_a_key_of_its_own() -> None:
    for module in modules():
        found = sql_changes.sql_mutants(module) if module.endswith(".sql") else python_changes.python_mutants(module)
        assert max(Counter(mutant.key for mutant in found).values()) == 1, module


def test_each_module_has_tests() -> None:
    assert [module for module in modules() if not (ROOT / module).exists() or not nearest(module)] == []
    assert [file for module in modules() for file in nearest(module) if not (ROOT / file).exists()] == []


def test_each_survivor_is_a_mutant_and_has_a_reason() -> None:
    known = report.known_survivors()
    found = {
        report.place_of(mutant)
        for module in {place[0] for place in known}
        for mutant in (
            sql_changes.sql_mutants(module) if module.endswith(".sql") else python_changes.python_mutants(module)
        )
    }
    assert [place for place in known if place not in found] == []
    assert all(known.values())


def test_tests_of_one_file_judge_one_after_the_other(tmp_path: Path) -> None:
    """A child runs several tests of a file, in any order, and what one sets up for itself is not there in the next."""
    file = tmp_path / "test_three.py"
    file.write_text("".join(f"def test_{name}(tmp_path): assert tmp_path\n" for name in "abc"))
    # pytest gives a file outside of the checkout no name.
    with Crew(1, [str(file)], with_servers=False) as crew:
        order = {"do": "reach", "file": "", "files": {}, "limit": 100, "test_limit": 100}
        found = crew.tell(order)["lines"]
    assert [(one["test"].split("::")[-1], one["passed"]) for one in found] == [
        ("test_a", True),
        ("test_b", True),
        ("test_c", True),
    ]


def test_a_change_that_a_process_cannot_take_is_not_judged() -> None:
    """A function keeps the number of variables that it has from around it."""
    source = "def outer(one):\n    def inner():\n        return one\n    return inner\n"
    names: dict[str, Any] = {}
    exec(compile(source, "file", "exec"), names)
    inner = names["outer"](7)
    for now, is_taken in (("return one + 1", True), ("return None", False)):
        changed = source.replace("return one", now).encode()
        with nullcontext() if is_taken else pytest.raises(put_in.NotPutInError):
            put_in.put_in_function({"file": [inner]}, "file", "outer.<locals>.inner", 2, changed)
        assert inner() == 8


def test_each_statement_that_a_test_reaches(tmp_path: Path) -> None:
    source = """\
def outer(one):
    if one > 1:
        def inner():
            return (
                one + 1
            )
        return inner()
    elif one < 0:
        one += 1
    for n in [one]:
        match n:
            case 0 if one:
                return 1
            case _:
                continue
    try:
        raise KeyError(one)
    except KeyError:
        return one
    finally:
        one = 0
"""
    file = tmp_path / "module.py"
    file.write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), names)
    outer = names["outer"]
    reach = Reach({str(file): "module"}, {str(file): [outer]})
    for given, answer, lines in (
        (2, 3, [2, 3, 4, 7]),
        (0, 0, [2, 8, 10, 11, 12, 15, 16, 17, 19, 21]),
        (-1, 0, [2, 8, 9, 10, 11, 12, 15, 16, 17, 19, 21]),
    ):
        with reach:
            assert outer(given) == answer
        assert reach.lines() == {"module": lines}
