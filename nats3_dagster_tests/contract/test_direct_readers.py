"""The examples of docs/query.md: our own commands, and engines that read an archive's objects without us."""

import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest

from nats3_dagster.model import Selection
from nats3_dagster.query import engine
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command, root_command
from nats3_dagster_tests.support.levels import ERRORS, message
from nats3_dagster_tests.support.stored import Made, made, store

TEXT = (Path(__file__).parents[2] / "docs" / "query.md").read_text()


@pytest.fixture
def folder(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Path:
    """A folder in which `cold/` is the bucket of the archive `logs`, with a retired object, and `live.json` the list of
    its chunks."""
    (tmp_path / "cold").mkdir()
    monkeypatch.setenv("NATS3_STORE_URL", f"file://{tmp_path}")
    with Workspace(Settings.load()) as workspace:
        archive = made(workspace, "cold", "logs", last=150)
        store(workspace, archive, 10, [message(seq) for seq in range(1, 101)])
        store(workspace, archive, 11, [message(seq) for seq in range(101, 151)])
        # As a repair leaves it: the same messages are in another object, and this one is not swept yet.
        old = workspace.catalog.chunks.select(archive)[0]
        workspace.catalog.chunks.retire(archive, [old.id], recapture=True)
        store(workspace, archive, 10, [message(seq) for seq in range(1, 101)], (1, 100), level=9)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "live.json").write_text(Command(capfd).ok("chunk", "list", "logs", "-o", "json").out)
    return tmp_path


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_duckdb(folder: Path) -> None:
    with duckdb.connect(config={"autoinstall_known_extensions": "false"}) as connection:
        (example,) = examples("sql")
        rows = connection.execute(example).fetchall()
        assert [row[2:] for row in rows] == ERRORS
        # Without the list a retired object counts: what the page warns of.
        everything = "SELECT count(*) FROM read_parquet('cold/**/*.parquet')"
        assert connection.execute(everything).fetchone() == (250,)


@pytest.mark.parametrize("engine_name", ["polars", "pyarrow", "pyspark"])
def test_python(folder: Path, engine_name: str, request: pytest.FixtureRequest) -> None:
    if engine_name == "pyspark":
        request.getfixturevalue("spark")
    (example,) = [text for text in examples("python") if re.search(rf"(import|from) {engine_name}\b", text)]
    names = dict[str, Any]()
    # The JVM has the working directory of the test that started it.
    exec(example.replace('"cold', f'"{folder}/cold'), names)
    assert names["errors"] == ERRORS


def test_the_commands_run_and_answer(settings: Settings, folder: Path, nats3: Command) -> None:
    by_level, by_subject, joined = _commands()
    with Workspace(Settings.load()) as workspace:
        store(workspace, workspace.catalog.archives.get("logs"), 7, [message(seq) for seq in range(151, 155)])
        for name, data, headers in (
            ("orders", b'{"id": "o-2", "pizza": "margherita"}', None),
            ("invoices", b"12.50", b"NATS/1.0\r\nOrder: o-2\r\n\r\n"),
        ):
            archive = made(workspace, "cold", name, last=1)
            store(workspace, archive, 7, [Made(1, name, data, headers)])
    counted = nats3.ok(*by_subject, "-o", "json", "--over-gaps").json
    assert all(row.keys() == {"subject", "count_star()"} for row in counted)
    ran = nats3.ok(*by_level)
    assert sorted(line.split() for line in ran.out.splitlines()[1:]) == [["debug", "1"], ["error", "2"], ["info", "1"]]
    # What the page shows below a table.
    (shown,) = re.findall(r"^\d+ rows; .* chunks? read, .*$", TEXT, re.MULTILINE)
    assert re.sub(r"\d[\d.]*", "N", ran.err.splitlines()[-1]).replace("KiB", "MiB") == re.sub(
        r"\d[\d.]*", "N", shown
    ).replace("chunks", "chunk")
    (line,) = nats3.ok(*joined).out.splitlines()[1:]
    assert '"{""id"": ""o-2"", ""pizza"": ""margherita""}"' in line
    assert "12.50" in line


def _commands() -> tuple[list[str], list[str], list[str]]:
    """Those of the page, without `nats3`: by level, by subject, joined."""
    block = examples("sh")[0]
    by_subject, by_level, joined, *_ = (shlex.split(line)[1:] for line in block.splitlines())
    return by_level, by_subject, joined


def test_the_errors_are_those_of_the_page(folder: Path, nats3: Command) -> None:
    shown = [" ".join(text.split()) for text in re.findall(r"```\n(Error: .*?)```", TEXT, re.DOTALL)]
    with Workspace(Settings.load()) as workspace:
        store(workspace, workspace.catalog.archives.get("logs"), 11, [message(seq) for seq in (303, 304)])
    lost = nats3.refused("query", "SELECT count(*) FROM logs WHERE seq > 300")
    assert shown[0].replace("301-302", "151-302") in lost
    unknown = nats3.refused("query", "SELECT subjct FROM logs")
    assert re.fullmatch(re.escape(shown[1]).replace(r"\.\.\.", ".*"), unknown.partition(" ")[2])


def test_the_table_has_every_option() -> None:
    options = {option for parameter in root_command().commands["query"].params for option in parameter.opts}
    rows = "\n".join(line.partition("|")[2].partition("|")[0] for line in TEXT.splitlines() if line.startswith("| `-"))
    assert set(re.findall(r"--[a-z-]+", rows)) == {o for o in options if o.startswith("--")} - {"--output", "--help"}


def test_our_own_query_has_the_same(folder: Path) -> None:
    sql = """
        SELECT subject, count(*) FROM logs WHERE as_json(data) ->> 'level' = 'error' AND hour = '2026-11-21-10:00'
        GROUP BY 1 ORDER BY 1
    """
    with Workspace(Settings.load()) as workspace, engine.run(workspace, sql, Selection()) as result:
        assert (list(result.rows), result.scanned.chunks) == (ERRORS, 1)
