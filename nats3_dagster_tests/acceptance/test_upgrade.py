"""An upgrade, as docs/operate.md says it: an installation of an earlier commit becomes today's while captures go on."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dagster import AssetKey, DagsterInstance
from psycopg.conninfo import make_conninfo

from nats3_dagster.catalog import Catalog, migrate
from nats3_dagster.catalog.session import schema
from nats3_dagster.defs.sensors.catalog_sensor import resync
from nats3_dagster.errors import CatalogError, Conflict
from nats3_dagster.hours import hour_start
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support import earlier
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.earlier_capture import capture
from nats3_dagster_tests.support.replays import driven, replayed
from nats3_dagster_tests.support.taking import content, covered, reasons
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.slow, pytest.mark.needs_nats("2.15")]

PAGE = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
SECTION = PAGE.partition("\n## Upgrading\n")[2].partition("\n## ")[0]
FACTS: dict[str, Any] = json.loads((earlier.DATA / "facts.json").read_text())
VERSION = "select version_num from nats3.alembic_version"
# What must be the same after a migration.
STANDS = (
    "select id, seqs, messages, sha256, key, deleted_at from nats3.chunk order by id",
    "select hour, number, content, key, sealed_at, superseded_at from nats3.seal order by id",
    "select name, hours, seqs, reason, actor, released_at from nats3.hold order by id",
    "select id, state, published, finished_at from nats3.replay order by id",
    "select id, reason, messages, digest, actor, decided_at from nats3.erasure order by id",
    "select what, detail, actor, happened_at from nats3.event order by id",
    "select archive_id, covered, messages, chunks from nats3.coverage",
    "select run_id, status from public.runs",
    "select count(*), max(id) from public.event_logs",
)


def rows(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def earlier_url(empty_postgres_url: str) -> str:
    """The database of the earlier installation."""
    earlier.psql(empty_postgres_url, earlier.DATA / "postgres.sql")
    return empty_postgres_url


@pytest.fixture
def settings(earlier_url: str, nats_factory: NatsFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of the earlier installation, with its stream and its bucket."""
    earlier.unpack("nats.zip", tmp_path / "nats-0" / "data")
    earlier.unpack("store.zip", tmp_path / "store")
    (tmp_path / "dagster").mkdir()
    (tmp_path / "dagster" / "dagster.yaml").write_text((earlier.ROOT / "dagster.yaml").read_text())
    for name, value in {
        "NATS3_NATS_URL": nats_factory().url,
        "NATS3_POSTGRES_URL": earlier_url,
        "NATS3_STORE_URL": f"file://{tmp_path / 'store'}",
        "NATS3_CONFIG": str(earlier.DATA / "nats3.toml"),
        "DAGSTER_HOME": str(tmp_path / "dagster"),
    }.items():
        monkeypatch.setenv(name, value)
    return Settings.load()


def partitions() -> dict[str, list[str]]:
    with DagsterInstance.get() as instance:
        return {
            name: sorted(instance.get_materialized_partitions(AssetKey(["events", name])))
            for name in ("chunks", "sealed", "replay")
        }


def replay_into(target: str) -> dict[str, Any]:
    """The replay of the earlier installation into this stream."""
    (replay,) = [replay for replay in FACTS["replays"] if replay["targets"] == [target]]
    return replay


def commands() -> list[list[str]]:
    """The lines of the section that are commands of ours."""
    lines = re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL)[0].splitlines()
    return [line.partition("#")[0].split()[1:] for line in lines if line.startswith("nats3 ")]


@pytest.mark.timeout(300)
def test_an_installation_of_an_earlier_commit_becomes_todays(settings: Settings, nats3: Command) -> None:
    url = settings.postgres
    (was,) = rows(url, VERSION)[0]
    assert was < schema.VERSION
    before = [rows(url, statement) for statement in STANDS[:-2]]
    words = [sys.executable, "-m", "nats3_dagster_tests.support.earlier_capture", was, settings.nats.servers[0]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=earlier.ROOT) as old, Wire(words[-1]) as wire:
        assert old.stdout is not None
        assert [old.stdout.readline() for _ in range(2)] == ["captured\n"] * 2
        assert "Migrate the catalog's schema" in nats3.refused("store", "list")
        for command in commands():
            nats3.ok(*("events" if word == "NAME" else word for word in command))
        last = old.stdout.read().splitlines()[-1]
        assert f"has schema {schema.VERSION}, newer than this release's {was}" in last
        kept = [set(rows(url, statement)) >= set(now) for statement, now in zip(STANDS[:2], before[:2], strict=False)]
        assert kept == [True, True]
        assert [rows(url, statement) for statement in STANDS[2:5]] == before[2:5]
        assert partitions() == FACTS["partitions"]

        start = hour_start(FACTS["partitions"]["chunks"][0])
        sent = {message.seq: message.data for message in earlier.past(start)}
        live = earlier.late(0, earlier.CAPTURED_LATE + earlier.WAITING)
        first = max(sent) + 1
        sent |= {seq: data for seq, (_, _, data) in enumerate(live, first)}
        ends = wire.state("EVENTS")["last_seq"]
        sent |= dict.fromkeys(range(max(sent) + 1, ends + 1), b"during")
        with Workspace(settings) as workspace:
            capture(workspace)
            archive = workspace.catalog.archives.get("events")
            wanted = {seq: data for seq, data in sent.items() if seq not in earlier.ERASED}
            assert dict(content(workspace, archive)) == wanted
            absent = reasons(workspace, archive)
            assert absent == dict.fromkeys((30, 60, 90), "deleted") | dict.fromkeys(earlier.ERASED, "erased")
            assert covered(workspace, archive, ends)

            # The erasure took a chunk from the replay that was interrupted; a new one has everything.
            with pytest.raises(CatalogError, match="Create a new replay of what is left"):
                driven(workspace, replay_into("PART")["replay"])
            # One that was interrupted in its middle goes on where the earlier release stopped.
            half, had = replay_into("HALF"), [*wire.messages("HALF")]
            hours = [data for seq, data in sent.items() if 2 * earlier.EACH < seq < 4 * earlier.EACH]
            assert [m.data for m in had] == hours[: len(had)]
            assert 0 < len(had) < len(hours)
            done = driven(workspace, half["replay"])
            assert (done.state, done.published + done.found) == ("succeeded", len(hours))
            assert [m.data for m in wire.messages("HALF")] == hours
            assert [*wire.messages("HALF")][: len(had)] == had
            replayed(workspace, ReplaySpec("events", "all.>", Selection(subjects=("ev.>",)), create_stream="ALL"))
            assert [m.data for m in wire.messages("ALL")] == list(wanted.values())
    nats3.ok("store", "seal", "events")
    assert [done.wiped for done in resync(settings)] == [()]
    assert set(partitions()["chunks"]) >= set(FACTS["partitions"]["chunks"])
    assert "case-17" in nats3.refused("store", "delete", "events", "--yes")
    for command in (
        ("doctor",),
        ("chunk", "verify", "events"),
        ("message", "erase", "events", "--prove"),
        ("migrate",),
    ):
        nats3.ok(*command)


def test_a_migrated_schema_is_the_one_that_is_made_new(earlier_url: str, postgres_url: str) -> None:
    """A migration that was there before is not edited: what it made is in other installations."""
    migrate(earlier_url)
    assert earlier.definitions(earlier_url) == earlier.definitions(postgres_url)


def says(text: str) -> None:
    """The page has a row for this error, with its beginning as the first cell."""
    cells = [row.split("|")[1].strip() for row in SECTION.splitlines() if row.startswith("| ")]
    assert any(all(part in text for part in cell.split("...")) for cell in cells[1:]), text


def test_what_cannot_be_migrated_is_refused_and_left_as_it_is(
    earlier_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [rows(earlier_url, statement) for statement in STANDS]

    def refused(url: str, kind: type[CatalogError] = CatalogError) -> str:
        with pytest.raises(kind) as raised:
            migrate(url)
        assert [rows(earlier_url, statement) for statement in STANDS] == before
        says(str(raised.value))
        return str(raised.value)

    with pytest.raises(CatalogError) as raised:
        Catalog.connect(earlier_url)
    says(str(raised.value))
    # A role that may read the catalog, and owns nothing in it.
    rows(
        earlier_url,
        "create role visitor login password 'rolepw'; grant usage on schema nats3 to visitor; "
        "grant select on all tables in schema nats3 to visitor",
    )
    try:
        owner = rows(earlier_url, "select current_user")[0][0]
        visitor = make_conninfo(earlier_url, user="visitor", password="rolepw")
        assert f"name the role {owner} in NATS3_POSTGRES_URL" in refused(visitor)
    finally:
        rows(earlier_url, "drop owned by visitor; drop role visitor")
    # A transaction that goes on.
    monkeypatch.setattr(schema, "_PATIENCE", "200ms")
    with psycopg.connect(earlier_url) as busy:
        busy.execute("select pg_advisory_xact_lock_shared(hashtextextended('nats3.schema', 0))")
        assert "a transaction there did not end" in refused(earlier_url, Conflict)
    with psycopg.connect(earlier_url) as busy:
        busy.execute("update nats3.hour set messages = messages")
        assert "a transaction there did not end" in refused(earlier_url, Conflict)
    # A part that a restore left out would never be missed again.
    rows(earlier_url, "alter table nats3.chunk drop constraint chunk_no_overlap")
    assert "constraint chunk_no_overlap" in refused(earlier_url)
    for version in ("0010", "9999"):
        rows(earlier_url, f"update nats3.alembic_version set version_num = '{version}'")
        refused(earlier_url)


def test_a_migration_that_is_killed_is_made_by_another(earlier_url: str) -> None:
    program = [sys.executable, "-c", "import sys; from nats3_dagster.catalog import migrate; migrate(sys.argv[1])"]
    waits = "select count(*) from pg_locks where not granted and relation = 'nats3.hour'::regclass"
    queues = "select count(*) from pg_locks l join pg_database d on d.oid = database where not granted and "
    queues += "locktype = 'advisory' and datname = current_database()"
    parts = "select part from nats3.present_part order by 1"
    before = rows(earlier_url, parts)
    with psycopg.connect(earlier_url) as busy:
        busy.execute("update nats3.hour set messages = messages")
        first = subprocess.Popen([*program, earlier_url])
        eventually(lambda: rows(earlier_url, waits) == [(1,)], "the migration in its middle")
        second = subprocess.Popen([*program, earlier_url])
        eventually(lambda: rows(earlier_url, queues) == [(1,)], "the second migration")
        first.kill()
        first.wait()
        eventually(lambda: rows(earlier_url, queues) == [(0,)], "the second migration's turn")
        assert (rows(earlier_url, VERSION), rows(earlier_url, parts)) == ([("0100",)], before)
        busy.rollback()
        assert second.wait(60) == 0
    assert rows(earlier_url, VERSION) == [(schema.VERSION,)]
