"""The schema: made from nothing, made once, and refused where it does not fit the code."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from importlib.resources import files
from typing import Any, get_args

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nats3_dagster.catalog import Catalog, migrate
from nats3_dagster.catalog.contents.hours import HourRow
from nats3_dagster.catalog.rows import ArchiveRow, ChunkRow, CoverageRow, StreamRow
from nats3_dagster.catalog.session import schema
from nats3_dagster.catalog.session.connection import open_connection
from nats3_dagster.catalog.session.health import health
from nats3_dagster.catalog.session.schema import VERSION
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.dev.postgres import programs
from nats3_dagster.errors import CatalogError
from nats3_dagster.model import Mode, Reason, ReplayChunk, ReplayState
from nats3_dagster_tests.support.catalog import spec, state
from nats3_dagster_tests.support.waiting import eventually

_TABLES = "select oid from pg_class where relnamespace = 'nats3'::regnamespace order by 1"


def _run(url, *statements: Any):
    """Run the statements; the rows of the last one."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursors = [connection.execute(statement) for statement in statements]
        return cursors[-1].fetchall() if cursors[-1].description else None


@pytest.fixture
def role(empty_postgres_url):
    """Makes roles of the test's own that may log in; gives the URL of each."""
    made = []

    def make(name, *grants):
        name = f"{name}_{len(made)}"
        made.append(name)
        _run(empty_postgres_url, f"create role {name} login password 'rolepw'", *(g.format(name) for g in grants))
        return make_conninfo(empty_postgres_url, user=name, password="rolepw")

    yield make
    for name in made:
        _run(empty_postgres_url, f"drop owned by {name} cascade", f"drop role {name}")


def test_an_empty_database_becomes_a_catalog_and_stays_one(empty_postgres_url):
    migrate(empty_postgres_url)
    before = _run(empty_postgres_url, _TABLES)
    migrate(empty_postgres_url)
    assert _run(empty_postgres_url, _TABLES) == before
    with Catalog.connect(empty_postgres_url) as catalog:
        assert catalog.archives.all() == ()


@pytest.mark.parametrize("damage", ["delete from nats3.alembic_version", "drop table nats3.alembic_version"])
def test_a_catalog_without_its_version_is_named_and_left_as_it_is(empty_postgres_url, damage):
    migrate(empty_postgres_url)
    _run(empty_postgres_url, damage)
    before = _run(empty_postgres_url, _TABLES)
    for ask in (migrate, lambda url: Catalog.connect(url).archives.all()):
        with pytest.raises(CatalogError, match="does not say their version. Nothing was changed. Restore") as raised:
            ask(empty_postgres_url)
        assert "defect" not in str(raised.value)
    assert _run(empty_postgres_url, _TABLES) == before


def test_a_dump_of_the_schema_alone_is_told_as_that(postgres_url, empty_postgres_url, tmp_path):
    """pg_dump -n leaves the extension out. What needs it is not restored, and psql goes on after each error."""

    def run(program: str, url: str, *words: str) -> str:
        done = subprocess.run(
            [str(programs() / program), "-d", url, *words], capture_output=True, text=True, check=False
        )
        return done.stderr

    with Catalog.connect(postgres_url) as catalog:
        catalog.archives.create(spec(), state())
    dumped = str(tmp_path / "dump.sql")
    assert run("pg_dump", postgres_url, "-n", "nats3", "-f", dumped) == ""
    assert "does not exist" in run("psql", empty_postgres_url, "-q", "-f", dumped)
    for call in (migrate, Catalog.connect):
        with pytest.raises(CatalogError, match="is without .* was not restored as a whole.*CREATE EXTENSION"):
            call(empty_postgres_url)
    missing = health(empty_postgres_url).missing
    assert {"function distance with 2 parameters", "constraint chunk_no_overlap"} <= set(missing)
    # As the error says.
    _run(
        empty_postgres_url,
        "drop schema nats3 cascade",
        "create schema nats3",
        "create extension btree_gist schema nats3",
    )
    run("psql", empty_postgres_url, "-q", "-f", dumped)
    migrate(empty_postgres_url)
    assert health(empty_postgres_url).missing == ()
    with Catalog.connect(empty_postgres_url) as catalog:
        assert [archive.name for archive in catalog.archives.all()] == ["logs"]


def test_everything_is_in_one_schema(empty_postgres_url):
    migrate(empty_postgres_url)
    elsewhere = """
        select nspname, proname::text from pg_proc p join pg_namespace n on n.oid = pronamespace
        where nspname not in ('nats3', 'pg_catalog', 'information_schema')
        union all
        select nspname, relname from pg_class c join pg_namespace n on n.oid = relnamespace
        where nspname not in ('nats3', 'pg_catalog', 'information_schema', 'pg_toast')"""
    assert _run(empty_postgres_url, elsewhere) == []
    _run(empty_postgres_url, "drop schema nats3 cascade")
    migrate(empty_postgres_url)


def test_the_code_knows_its_first_and_its_newest_migration():
    versions = files("nats3_dagster.catalog").joinpath("migrations/versions").iterdir()
    numbers = sorted(path.name[:4] for path in versions if path.name.endswith(".py"))
    assert (numbers[0], numbers[-1]) == (schema._FIRST, VERSION)


@pytest.mark.parametrize(
    ("relation", "row", "joined"),
    [
        ("archive", ArchiveRow, set()),
        ("incarnation", StreamRow, set()),
        ("coverage_view", CoverageRow, set()),
        ("chunk_view", ChunkRow, set()),
        ("replay_chunk", ReplayChunk, {"hour"}),
        ("hour", HourRow, {"stream", "created_ns"}),
    ],
)
def test_a_row_has_a_field_for_each_column(postgres_url, relation, row, joined):
    columns = "select column_name from information_schema.columns where table_schema = 'nats3' and table_name = '{}'"
    rows = _run(postgres_url, columns.format(relation)) or []
    assert {name for (name,) in rows} | joined == {field.name for field in fields(row)}


@pytest.mark.parametrize(
    ("constraint", "kind"),
    [("gap_reason_check", Reason), ("archive_mode_check", Mode), ("replay_state_check", ReplayState)],
)
def test_the_schema_and_the_model_know_the_same_words(postgres_url, constraint, kind):
    rule = f"select pg_get_constraintdef(oid) from pg_constraint where conname = '{constraint}'"
    ((rule,),) = _run(postgres_url, rule) or []
    assert set(re.findall(r"'(\w+)'::text", rule)) == set(get_args(kind))


def test_processes_that_race_to_migrate_make_it_once(empty_postgres_url):
    program = "import sys; from nats3_dagster.catalog import migrate; migrate(sys.argv[1])"
    racers = [subprocess.Popen([sys.executable, "-c", program, empty_postgres_url]) for _ in range(3)]
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    assert _run(empty_postgres_url, "select version_num from nats3.alembic_version") == [(VERSION,)]


def test_a_catalog_that_another_process_makes_between_two_questions(empty_postgres_url):
    class Slow(Statements):
        """The other process is done once the version was asked for."""

        def value_or_none(self, *asked, **values):
            try:
                return super().value_or_none(*asked, **values)
            finally:
                migrate(empty_postgres_url)

    with open_connection(empty_postgres_url) as connection:
        assert schema.installed_version(Slow(connection), "here") == VERSION


def test_threads_that_race_to_migrate_make_it_once(empty_postgres_url):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, [empty_postgres_url] * 4))
    assert _run(empty_postgres_url, "select version_num from nats3.alembic_version") == [(VERSION,)]


def test_a_database_without_the_schema_is_refused_with_the_way_out(empty_postgres_url):
    with pytest.raises(CatalogError, match="There is no catalog in .*Make the catalog's schema"):
        Catalog.connect(empty_postgres_url)


@pytest.mark.parametrize(
    ("version", "say"),
    [
        ("0010", "has schema 0010, which a development version made. This one and its objects stay"),
        ("9999", "has schema 9999, newer than this release's .*Upgrade nats3-dagster here.*start its processes again"),
    ],
)
def test_a_schema_that_this_release_cannot_migrate_is_refused_and_kept(postgres_url, version, say):
    _run(postgres_url, f"update nats3.alembic_version set version_num = '{version}'")
    for call in (Catalog.connect, migrate):
        with pytest.raises(CatalogError, match=say):
            call(postgres_url)
    assert _run(postgres_url, "select version_num from nats3.alembic_version") == [(version,)]


def test_a_process_of_an_earlier_release_writes_nothing_after_a_migration(postgres_url):
    """It was connected before; what it does at the time of the migration is done before or not at all."""
    newer = "update nats3.alembic_version set version_num = '9999'"
    with Catalog.connect(postgres_url) as catalog, psycopg.connect(postgres_url) as migrator:
        archive = catalog.archives.create(spec(), state())
        with catalog.session.transaction():
            with pytest.raises(psycopg.errors.LockNotAvailable):
                migrator.execute("set lock_timeout = '100ms'")
                migrator.commit()
                migrator.execute(_MIGRATES)
            catalog.archives.pause(archive.name)
        migrator.rollback()
        migrator.execute(_MIGRATES)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(catalog.archives.resume, archive.name)
            _until_one_waits(postgres_url)
            migrator.execute(newer)
            migrator.commit()
            with pytest.raises(CatalogError, match="has schema 9999, newer than .*nothing was written"):
                written.result(30)
        # What a process read within the last second may be of before; later it asks.
        with pytest.raises(CatalogError, match="has schema 9999, newer than"):
            catalog.session._idle = [(connection, 0.0) for connection, _ in catalog.session._idle]
            catalog.archives.all()
    assert _run(postgres_url, "select paused from nats3.archive") == [(True,)]


_MIGRATES = "select pg_advisory_xact_lock(hashtextextended('nats3.schema', 0))"


def _until_one_waits(url):
    waiting = """
        select count(*) from pg_locks join pg_database d on d.oid = database
        where locktype = 'advisory' and not granted and datname = current_database()"""
    eventually(lambda: _run(url, waiting) == [(1,)], "a transaction that waits")


def test_a_role_that_may_create_in_the_database_needs_no_administrator(role, empty_postgres_url):
    database = conninfo_to_dict(empty_postgres_url)["dbname"]
    url = role("maker", f"grant create on database {database} to {{}}")
    migrate(url)
    with Catalog.connect(url) as catalog:
        assert catalog.archives.all() == ()


def test_a_role_that_may_not_create_the_schema_is_told_who_must(role):
    with pytest.raises(CatalogError, match="may not create the schema.*CREATE SCHEMA nats3 AUTHORIZATION") as raised:
        migrate(role("guest"))
    assert "rolepw" not in str(raised.value)


def test_a_role_that_may_not_create_the_extension_is_told_who_must(role, empty_postgres_url):
    url = role("owner", "create schema nats3 authorization {}")
    with pytest.raises(CatalogError, match="may not create the extension.*CREATE EXTENSION btree_gist"):
        migrate(url)
    _run(empty_postgres_url, "create extension btree_gist")
    migrate(url)
    with Catalog.connect(url) as catalog:
        assert catalog.archives.all() == ()


def test_a_failed_migration_leaves_nothing(empty_postgres_url):
    # Something of ours is in the way: the transaction ends, and the next try, without it, is whole.
    _run(empty_postgres_url, "create schema nats3", "create table nats3.replay_chunk (x int)")
    with pytest.raises(CatalogError, match="already exists"):
        migrate(empty_postgres_url)
    names = "select relname from pg_class where relnamespace = 'nats3'::regnamespace"
    assert _run(empty_postgres_url, names) == [("replay_chunk",)]
    _run(empty_postgres_url, "drop table nats3.replay_chunk")
    migrate(empty_postgres_url)


def test_a_role_without_rights_on_the_tables_is_told(role, empty_postgres_url):
    migrate(empty_postgres_url)
    with pytest.raises(CatalogError, match="may not.*Grant it the schema nats3"):
        Catalog.connect(role("guest"))
