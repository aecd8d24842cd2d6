"""`nats3 table`, and what other engines read by it: pyiceberg, DuckDB and Polars."""

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nats3_dagster.catalog import grant
from nats3_dagster.dev.process import free_port
from nats3_dagster.hours import hour_start
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.tables import (
    LATER,
    delete_by_position,
    down,
    iceberg,
    numbers,
    of_two_hours,
    put,
    rows,
    seqs,
)
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Any:
    """An archive of two chunks of 10 messages in two hours."""
    return of_two_hours(workspace, bucket)


def test_a_table_from_its_creation_to_its_end(nats3: Command, workspace: Workspace, archive: Any) -> None:
    assert nats3.ok("table", "list", "-o", "json").json == []
    assert (
        "2 Error: Archive logs has no table. Create a table of archive logs: nats3 table create logs"
        in nats3.refused("table", "get", "logs")
    )
    made = nats3.ok("table", "create", "logs", "-o", "json")
    assert "Created the table nats3.logs in the Iceberg catalog nats3" in made.err
    assert (made.json["added"], made.json["commits"], made.json["table"]) == (2, 1, "nats3.logs")
    assert nats3.ok("table", "verify", "logs", "-o", "json").json["differences"] == 0
    put(workspace, archive, rows(21, 30, LATER), hour=LATER)
    (lag,) = nats3.ok("table", "list", "-o", "json").json
    assert (lag["chunks"], lag["lacking"], lag["surplus"], lag["error"]) == (2, 1, 0, None)
    failed = nats3("table", "verify", "logs")
    assert failed.status == 1
    assert ".parquet a live chunk that the table does not have" in failed.err
    assert failed.error == (
        "Error: The table nats3.logs is not archive logs: 1 differences. Bring the table of archive logs "
        "up to date, with every file compared: nats3 table sync logs --full"
    )
    assert nats3.ok("table", "sync", "logs", "-o", "json").json["added"] == 1
    shown = nats3.ok("table", "get", "logs").out
    assert "nats3.logs" in shown
    assert nats3.ok("table", "drop", "logs", "--yes", "-o", "json").json["dropped"] is True
    assert nats3.ok("table", "list", "-o", "json").json == []
    assert nats3.ok("table", "create", "logs", "--table", "lake.events", "-o", "json").json["added"] == 3


def test_a_catalog_that_is_down(
    nats3: Command, workspace: Workspace, archive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        down(patched, "lake", free_port())
        said = nats3.refused("table", "create", "logs", "--catalog", "lake")
    assert said == (
        "1 Error: The Iceberg catalog lake, or its store, failed: OperationalError. Look whether it is up, "
        "and at its settings. Nothing of the archive was changed"
    )
    assert workspace.catalog.tables.all() == []


def test_a_capture_goes_on_without_its_table_and_the_next_makes_up_for_it(
    nats3: Command,
    settings: Settings,
    workspace: Workspace,
    wire: Wire,
    bucket: str,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n}", b"", b"%d" % n) for n in range(100)])
    nats3.ok("store", "create", "--name", "events", "--stream", "EV", "--bucket", bucket)
    nats3.ok("table", "create", "events")
    (hour,) = hours_of(wire, "EV")
    with monkeypatch.context() as patched:
        down(patched, "nats3", free_port())
        assert run_capture(spark, settings, "events", hour).messages == 100
    assert "OperationalError" in (workspace.catalog.tables.all()[0].error or "")
    assert seqs(workspace, "events") == []
    wire.publish([("ev.x", b"", b"more")])
    assert run_capture(spark, settings, "events", hour).messages == 1
    assert seqs(workspace, "events") == numbers((1, 101))
    assert not workspace.catalog.tables.all()[0].is_behind


def test_engines_read_the_table(
    nats3: Command, workspace: Workspace, archive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars

    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    nats3.ok("table", "create", "logs")
    before = workspace.catalog.tables.all()[0].snapshot_id
    put(workspace, archive, [(21, hour_start(HOUR), ("logs.%FF", b"logs.\xff"), b"NATS/1.0\r\n\r\n", b'{"n": 1}')])
    nats3.ok("table", "sync", "logs")
    with iceberg(workspace) as table:
        duckdb = table.scan().to_duckdb("logs")
        count = "select count(*), min(seq), max(seq), min(time)::varchar, count(subject_bytes) from logs where hour = ?"
        assert duckdb.execute(count, [HOUR]).fetchall() == [(11, 1, 21, "2026-11-21 07:00:00+00", 1)]
        assert duckdb.execute("select (decode(data)::json)->>'n' from logs where seq = 21").fetchall() == [("1",)]
        past = table.scan(snapshot_id=before).to_duckdb("past")
        assert past.execute("select count(*) from past").fetchall() == [(20,)]
        for reader in ("native", "pyiceberg"):
            frame = polars.scan_iceberg(table, reader_override=reader)  # type: ignore[arg-type]
            late = frame.filter((polars.col("hour") == LATER) & (polars.col("seq") > 12)).select("seq", "incarnation")
            found = late.collect()
            assert found["seq"].to_list() == numbers((13, 20))
            assert found["incarnation"].unique().to_list() == ["20261121T065959876543211Z"]
            then = polars.scan_iceberg(table, snapshot_id=before, reader_override=reader)  # type: ignore[arg-type]
            assert then.select(polars.len()).collect().item() == 20


def test_a_role_that_may_not_change_the_schema_keeps_tables(
    nats3: Command, workspace: Workspace, archive: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"keeper_{archive.spec.bucket[-12:]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login password 'keeper'".encode())
        try:
            grant(postgres_url, role)
            given: dict[str, Any] = conninfo_to_dict(postgres_url) | {"user": role, "password": "keeper"}
            monkeypatch.setenv("NATS3_POSTGRES_URL", make_conninfo(**given))
            nats3.ok("table", "create", "logs")
            nats3.ok("table", "sync", "logs", "--full")
            nats3.ok("table", "drop", "logs", "--yes")
        finally:
            workspace.catalog.rest()
            connection.execute(f"drop owned by {role}".encode())
            connection.execute(f"drop role {role}".encode())


def test_a_table_that_another_program_changed(nats3: Command, workspace: Workspace, archive: Any) -> None:
    nats3.ok("table", "create", "logs")
    with iceberg(workspace) as table:
        with table.transaction() as other:
            other.set_properties({"gc.enabled": "true"})
        table.delete(f"hour = '{LATER}'")
    listed = nats3.ok("table", "list")
    assert "changed" in listed.out
    assert "gc.enabled=false" in listed.err
    report = {finding["what"]: finding["do"] for finding in nats3("doctor", "-o", "json").json}
    (what,) = [what for what in report if what.startswith("Another program changed the table nats3.logs")]
    assert (
        report[what] == "Make the table of archive logs as the archive says, which undoes what the other program "
        "did: nats3 table sync logs --full"
    )
    assert not any("Iceberg tables have what their archives have" in what for what in report)
    refused = nats3.refused("table", "sync", "logs")
    assert "(overwrite: data files removed 1, rows removed 10). It is left as it is" in refused
    assert "nats3 table sync logs --full" in refused
    mended = nats3.ok("table", "sync", "logs", "--full", "-o", "json")
    assert mended.json["added"] == 1
    assert "Undone, of another program: snapshot" in mended.err
    assert nats3.ok("table", "verify", "logs", "-o", "json").json["differences"] == 0


def test_rows_that_delete_files_delete_are_not_for_a_sync(nats3: Command, workspace: Workspace, archive: Any) -> None:
    nats3.ok("table", "create", "logs")
    with iceberg(workspace) as table:
        delete_by_position(table)
    advice = (
        "Forget the table of archive logs, and create it again: nats3 table drop logs, then nats3 table create logs"
    )
    for words in (("verify", "logs"), ("sync", "logs"), ("sync", "logs", "--full")):
        ran = nats3("table", *words)
        assert (ran.status, advice in ran.error) == (1, True), (words, ran)
    nats3.ok("table", "drop", "logs", "--yes")
    nats3.ok("table", "create", "logs")
    assert nats3.ok("table", "verify", "logs", "-o", "json").json["differences"] == 0
