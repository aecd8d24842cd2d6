"""Engines that read an archive's objects without us: the examples of docs/query.md give the same rows."""

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from nats3_dagster.model import Selection
from nats3_dagster.query import engine
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.cli_case import Command
from nats3_dagster_tests.stored_case import Made, made, store

LEVELS = ("info", "error", "debug", "error")
# What the messages 1 to 100 have in the hour 10.
ERRORS = [("logs.a", 25), ("logs.b", 25)]


def message(seq: int) -> Made:
    data = json.dumps({"level": LEVELS[seq % 4], "seq": seq}).encode()
    return Made(seq, "logs.a" if seq % 4 == 1 else "logs.b", data)


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
    document = Path(__file__).parents[2] / "docs" / "query.md"
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


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


def test_our_own_query_has_the_same(folder: Path) -> None:
    sql = """
        SELECT subject, count(*) FROM logs WHERE as_json(data) ->> 'level' = 'error' AND hour = '2026-11-21-10:00'
        GROUP BY 1 ORDER BY 1
    """
    with Workspace(Settings.load()) as workspace, engine.run(workspace, sql, Selection()) as result:
        assert (list(result.rows), result.scanned.chunks) == (ERRORS, 1)
