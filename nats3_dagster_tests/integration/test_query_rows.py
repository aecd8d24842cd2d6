"""Rows of a query and its bounds: values keep their digits, memory and disk are limited, errors name the place."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.errors import EngineError, Nats3Error, OperatorError
from nats3_dagster.model import Selection
from nats3_dagster.query import engine
from nats3_dagster.query.limits import Limits
from nats3_dagster.query.temporary import temporary
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.terminal import on_terminal
from nats3_dagster_tests.support.waiting import eventually

# More than a limit of 64 MB, in an order in which nothing can be left out.
SORT = "SELECT i, repeat('x', 100) FROM range({rows}) t(i) ORDER BY hash(i), 2"


def asked(workspace: Workspace, sql: str, limits: Limits | None = None) -> list[tuple[Any, ...]]:
    with engine.run(workspace, sql, Selection(), limits=limits) as result:
        return list(result.rows)


def refused(workspace: Workspace, sql: str, limits: Limits | None = None) -> Nats3Error:
    with pytest.raises(Nats3Error) as error:
        asked(workspace, sql, limits)
    return error.value


# Expressions, and what JSON and CSV have of their values.
VALUES: list[tuple[str, Any, str]] = [
    ("make_timestamp_ns(1795244400000000001)", "2026-11-21 07:00:00.000000001", "2026-11-21 07:00:00.000000001"),
    ("[make_timestamp_ns(1)]", ["1970-01-01 00:00:00.000000001"], '"[""1970-01-01 00:00:00.000000001""]"'),
    ("'12:00:00.123456789'::TIME_NS", "12:00:00.123456789", "12:00:00.123456789"),
    ("TIMESTAMPTZ '2026-11-21 08:00:00.000001+01'", "2026-11-21T07:00:00.000001Z", "2026-11-21T07:00:00.000001Z"),
    ("INTERVAL '1 month 2 days'", "1 month 2 days", "1 month 2 days"),
    ("9223372036854775807::BIGINT", 2**63 - 1, "9223372036854775807"),
    ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1, str(2**127 - 1)),
    ("12345678901234567890.10::DECIMAL(38, 2)", "12345678901234567890.10", "12345678901234567890.10"),
    ("1e3::DECIMAL(9, 0)", "1000", "1000"),
    ("0.1::DOUBLE", 0.1, "0.1"),
    ("'nan'::DOUBLE", None, "nan"),
    ("NULL", None, ""),
    ("''", "", '""'),
    ("'a, \"b\"\nc'", 'a, "b"\nc', '"a, ""b""\nc"'),
    ("'\\xFF\\x00a'::BLOB", "/wBh", "\\xFF\\x00a"),
    ("true", True, "true"),
    ("{'b': 'x'::BLOB, 'n': 1.10}", {"b": "eA==", "n": "1.10"}, '"{""b"": ""eA=="", ""n"": ""1.10""}"'),
    ("'{\"n\": 1.5}'::JSON", {"n": 1.5}, '"{""n"": 1.5}"'),
]


def test_a_value_keeps_its_digits(nats3: Command, workspace: Workspace) -> None:
    columns = ", ".join(f"{value} AS v{number}" for number, (value, _, _) in enumerate(VALUES))
    sql = f"SELECT 'é' AS v, {columns}; -- ; é"
    (row,) = nats3.ok("query", sql, "-o", "json").json
    assert list(row.values()) == ["é", *(in_json for _, in_json, _ in VALUES)]
    out = nats3.ok("query", sql, "-o", "csv").out
    assert out.partition("\n")[2] == ",".join(["é", *(in_csv for _, _, in_csv in VALUES)]) + "\n"


def test_a_table_keeps_to_the_terminal(nats3: Command, workspace: Workspace) -> None:
    sql = "SELECT 12345678901234567890.10::DECIMAL(38, 2) AS price, NULL AS nothing, repeat('x', 60) AS long"
    shown = on_terminal(80, f"from nats3_dagster.cli.main import main; main(['query', {sql!r}, '--no-progress'])")
    lines = shown.splitlines()
    assert [line.split() for line in lines[:2]] == [["price", "nothing"], ["12345678901234567890.10", "-"]]
    assert "Not shown in 80 columns: long. All is in -o json" in lines
    assert max(map(len, lines)) <= 80
    # A pipe gets all of it.
    assert nats3.ok("query", sql).out.splitlines()[1].split() == ["12345678901234567890.10", "-", "x" * 60]


def test_what_does_not_fit_into_memory_goes_to_the_temporary_folder(workspace: Workspace, tmp_path: Path) -> None:
    limits = Limits(64_000_000, tmp_path)
    with engine.run(workspace, SORT.format(rows=800_000), Selection(), limits=limits) as result:
        first = next(result.rows)
        assert any(path.is_file() for path in tmp_path.rglob("*"))
        assert 1 + sum(1 for _ in result.rows) == 800_000
        assert first[1] == "x" * 100
    assert list(tmp_path.iterdir()) == []


def test_memory_and_disk_that_do_not_suffice_are_an_error_of_one_line(workspace: Workspace, tmp_path: Path) -> None:
    error = refused(workspace, SORT.format(rows=800_000), Limits(64_000_000, tmp_path, 8_000_000))
    assert (type(error), error.hint) == (EngineError, Next.GIVE_QUERY_SPACE())
    assert error.what.startswith("The statement needs more than its temporary space of 7.6 MiB")
    error = refused(workspace, "SELECT list(i) FROM range(30000000) t(i)", Limits(64_000_000, tmp_path))
    assert (type(error), error.hint) == (EngineError, Next.GIVE_QUERY_MEMORY())
    error = refused(workspace, "SELECT 1", Limits(temp_parent=tmp_path / "none"))
    assert (type(error), error.what) == (
        EngineError,
        f"No temporary folder can be made in {tmp_path / 'none'}: No such file or directory",
    )
    assert list(tmp_path.iterdir()) == []


def test_an_error_says_what_and_where(workspace: Workspace) -> None:
    wrong = [
        ("SELECT 1\nFROM range(3)\nWHERE x ORDER 1", 'syntax error at or near "1"', "In line 3, column 15: 1"),
        ("SELECT subjct FROM (SELECT 1 AS subject)", 'Candidate bindings: "subject"', "In line 1, column 8: subjct"),
        (f"SELECT {'1, ' * 100}cout(*)", 'Did you mean "count"?', "In line 1, column 308: cout(*)"),
        ("SELECT getenv('HOME')", "Scalar Function with name getenv does not exist", "In line 1, column 8"),
        ("SELECT * FROM read_csv('/etc/passwd')", "Permission Error", "In line 1, column 15"),
        ("SELECT * FROM glob('/etc/*')", "Permission Error", ""),
        ("SELECT * FROM duckdb_secrets()", "Permission Error", ""),
        ("INSERT INTO logs VALUES (1)", "A query is one SELECT statement", "An archive is never changed by a query"),
        ("ATTACH '/tmp/x.db'", "A query is one SELECT statement", ""),
        ("COPY (SELECT 1) TO '/tmp/x'", "A query is one SELECT statement", ""),
        ("INSTALL httpfs", "A query is one SELECT statement", ""),
        ("CALL pragma_version()", "A query is one SELECT statement", ""),
        ("PRAGMA database_list", "A query is one SELECT statement", ""),
    ]
    for sql, what, place in wrong:
        error = refused(workspace, sql)
        assert isinstance(error, OperatorError), sql
        assert what in error.what, sql
        assert "\n" not in str(error), sql
        assert str(error.hint).startswith(place), sql


def test_an_interrupt_ends_it_and_leaves_nothing(workspace: Workspace, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) % 7 = i % 11"
    command = [sys.executable, "-m", "nats3_dagster.cli", "query", sql, "--temp-folder", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not list(tmp_path.iterdir()) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "Interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_the_folder_is_made_leaves_none(tmp_path: Path) -> None:
    """The signal comes as soon as there is a folder."""

    def interrupt(frame: Any, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__ == "mkdir":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), temporary(Limits(temp_parent=tmp_path)):
            pass
    finally:
        sys.setprofile(None)
    assert list(tmp_path.iterdir()) == []


def test_a_process_has_limits_of_its_own(nats3: Command, workspace: Workspace, tmp_path: Path) -> None:
    """DuckDB does not count what its functions allocate, and knows no time."""
    large = "SELECT max(length(repeat(repeat('x', 1000) || i, 1000000))) FROM range(300) t(i)"
    refusal = nats3.refused("query", large, "--memory", "64MiB", "--temp-folder", str(tmp_path))
    assert refusal.startswith("1 Error: The ")
    assert refusal.endswith("Give it more: --memory. Or ask for less: fewer columns, groups or rows to sort")
    endless = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) % 7 = i % 11"
    assert nats3.refused("query", endless, "--timeout", "2s", "--temp-folder", str(tmp_path)) == (
        "1 Error: The statement needs more than its time of 2 s. Give it more: --timeout. Or ask for less: "
        "fewer hours, sequences or subjects"
    )
    # A table is for people: what they cannot read is not kept in memory.
    assert "at most 100,000 rows" in nats3.refused("query", "SELECT i FROM range(100001) t(i)")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_command_leaves_nothing(workspace: Workspace, tmp_path: Path) -> None:
    sql = "SELECT count(*) FROM range(1000000000000) t(i) WHERE hash(i) % 7 = i % 11"
    command = [sys.executable, "-m", "nats3_dagster.cli", "query", sql, "--temp-folder", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        # The inner folder is that of DuckDB: the statement runs.
        eventually(lambda: [*tmp_path.glob("*/*")], "it runs")
        process.kill()
    eventually(lambda: not [*tmp_path.iterdir()], "its statement ends too")


def test_a_statement_sees_no_place_of_this_machine(workspace: Workspace, tmp_path: Path) -> None:
    """But that of its own temporary folder."""
    home = str(Path.home())
    rows = asked(workspace, "SELECT name, value::VARCHAR FROM duckdb_settings()", Limits(temp_parent=tmp_path))
    places = {name for name, value in rows if home in str(value) or str(tmp_path) in str(value)}
    assert places == {"temp_directory", "allowed_directories"}
    assert home not in refused(workspace, "SELECT * FROM duckdb_extensions()").what
    refused(workspace, f"SELECT * FROM read_text('{home}/.profile')")


def test_nothing_but_rows_is_printed(workspace: Workspace) -> None:
    assert asked(workspace, "SELECT current_setting('enable_progress_bar')") == [(False,)]
