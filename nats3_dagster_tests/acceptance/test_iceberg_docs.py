"""docs/iceberg.md: its examples do what it says, as they stand in the page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nats3_dagster.model import Archive
from nats3_dagster.tables import layout
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.tables import logs, numbers, put, rows

pytestmark = pytest.mark.slow

TEXT = (Path(__file__).parents[2] / "docs" / "iceberg.md").read_text()
LATER = "2026-11-21-09:00"
# Writes the values of the page's four expressions to a file: DuckDB shows its progress on standard output.
_SHOW = """
import json, sys
by_hour, counted, as_it_was, of_hour = shown
json.dump([
    [by_hour.column_names, sorted(by_hour["seq"].to_pylist())], counted.fetchall(),
    sorted(as_it_was["seq"].to_pylist()), sorted(of_hour["seq"].to_list()),
], open(sys.argv[1], "w"))
"""


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """The archive `orders` of the page: 10 messages of an hour that the page filters by, and 10 of a later one."""
    found = logs(workspace, bucket, "orders")
    put(workspace, found, rows(1, 10))
    put(workspace, found, rows(11, 20, LATER), hour=LATER)
    return found


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def reader(postgres_url: str, archive: Archive) -> Any:
    """How a role logs in that may do what the page grants to it, and no more."""
    role = f"reader_{archive.spec.bucket[-12:]}"
    (grants,) = (block for block in blocks("sql") if block.startswith("GRANT"))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login password 'reader'".encode())
        connection.execute(re.sub(r"\breader\b", role, grants).encode())
        yield conninfo_to_dict(postgres_url) | {"user": role, "password": "reader"}
        connection.execute(f"drop owned by {role}".encode())
        connection.execute(f"drop role {role}".encode())


def test_the_commands(nats3: Command, archive: Archive) -> None:
    (block, *_) = blocks("bash")
    lines = [line.partition("#")[0].split() for line in block.splitlines()]
    assert lines[0] == ["pip", "install", "'nats3-dagster[iceberg]'"]
    answers = [nats3.ok(*words[1:], *(["--yes"] if "drop" in words else []), "-o", "json").json for words in lines[1:]]
    created, (listed,), synced, verified, dropped = answers
    assert (created["table"], created["added"]) == ("nats3.orders", 2)
    assert (listed["lacking"], listed["surplus"], synced["commits"], verified["differences"]) == (0, 0, 0, 0)
    assert dropped["dropped"]
    assert nats3.ok("chunk", "list", "orders", "-o", "json").json


def test_the_reads_by_a_role_that_only_reads(
    nats3: Command,
    workspace: Workspace,
    archive: Archive,
    reader: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    nats3.ok("table", "create", "orders")
    put(workspace, archive, rows(21, 30, LATER), hour=LATER)
    nats3.ok("table", "sync", "orders")
    # What an installation configures once: who reads, and where the store is.
    store = workspace.settings.store
    for name, value in (
        ("ENDPOINT", store.endpoint),
        ("REGION", store.region),
        ("ACCESS_KEY_ID", store.access_key_id),
        ("SECRET_ACCESS_KEY", store.secret_access_key),
    ):
        monkeypatch.setenv(f"PYICEBERG_CATALOG__NATS3__S3__{name}", value or "")
    (block,) = blocks("python")
    page = "postgresql+psycopg://reader@host/db?"
    assert page in block
    host = f"{reader['user']}:{reader['password']}@{reader.get('host', 'localhost')}:{reader.get('port', 5432)}"
    given = block.replace(page, f"postgresql+psycopg://{host}/{reader['dbname']}?")
    # pyiceberg reads its configuration when it is imported: a process of its own.
    lines = [line.partition("  #")[0].strip() for line in given.splitlines()]
    is_shown = [line and not re.match(r"import|from|\w+ = ", line) for line in lines]
    script = [f"shown.append({line})" if shown else line for line, shown in zip(lines, is_shown, strict=True)]
    ran = subprocess.run(
        [sys.executable, "-c", "\n".join(["shown = []", *script, _SHOW]), str(tmp_path / "shown")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
    )
    assert ran.returncode == 0, ran.stderr
    by_hour, counted, as_it_was, of_hour = json.loads((tmp_path / "shown").read_text())
    assert by_hour == [["seq", "subject", "hour"], numbers((1, 30))]
    assert sorted(counted) == [[f"logs.{n}", 10] for n in range(3)]
    assert as_it_was == numbers((1, 20))
    assert of_hour == numbers((1, 10))


def test_a_role_that_reads_may_not_change_the_table(
    nats3: Command, archive: Archive, reader: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nats3.ok("table", "create", "orders")
    monkeypatch.setenv("NATS3_POSTGRES_URL", make_conninfo(**reader))
    assert nats3("table", "drop", "orders", "--yes").status
    monkeypatch.undo()


def test_the_columns_are_those_of_the_table() -> None:
    section = TEXT[TEXT.index("## Columns") : TEXT.index("## Which catalog")]
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", section, re.MULTILINE)
    named = {
        name.strip("`"): kind.partition(" ")[0]
        for cells, kinds in rows
        for name, kind in zip(cells.split(", "), kinds.split(", ") * 2, strict=False)
    }
    assert named == {field.name: str(field.field_type) for field in layout.schema().fields}
