"""The connection: one clear line for each way it fails, never the password, and made again only between calls."""

import traceback
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nats3_dagster.catalog import Catalog, migrate
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.errors import CatalogError
from nats3_dagster_tests.catalog_case import chunk, spec, state


@pytest.fixture
def catalog(postgres_url):
    with Catalog.connect(postgres_url) as catalog:
        yield catalog


def _end_sessions(url):
    """As a restart of the server does to every session."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )


@pytest.mark.parametrize(
    ("change", "say"),
    [
        ({"password": "planted-secret"}, "refused us: password authentication failed.*Correct the user or password"),
        ({"user": "nobody", "password": "planted-secret"}, "refused us: .*Correct the user or password"),
        ({"dbname": "not_there"}, 'database "not_there" does not exist.*Create the database'),
        ({"port": "1"}, "not reachable: Connection refused.*Start it"),
        ({"host": "no-such-host.invalid"}, "Correct the host"),
    ],
)
@pytest.mark.parametrize("call", [Catalog.connect, migrate])
def test_a_connection_that_fails_says_why_and_what_to_do(postgres_url, change, say, call):
    password = str(conninfo_to_dict(postgres_url)["password"])
    with pytest.raises(CatalogError, match=say) as raised:
        call(make_conninfo(postgres_url, **change))
    everything = "".join(traceback.format_exception(raised.value))
    assert "planted-secret" not in everything
    assert password not in everything
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["postgresql//user:planted-secret@host/db", "postgresql://user:planted-secret@host/db?what=1", "planted-secret"],
)
def test_an_address_that_is_none_is_not_repeated(url):
    with pytest.raises(CatalogError, match="not the address of a Postgres.*postgresql://user:password@host") as raised:
        Catalog.connect(url)
    assert "planted-secret" not in "".join(traceback.format_exception(raised.value))


def test_a_server_restarted_between_two_calls_is_not_noticed(tmp_path):
    with Postgres(tmp_path / "postgres", fast=True) as server:
        migrate(server.url())
        with Catalog.connect(server.url()) as catalog:
            archive = catalog.archives.create(spec(), state())
            server.stop()
            with pytest.raises(CatalogError, match="not reachable"):
                catalog.archives.all()
            server.start()
            assert catalog.archives.all() == (archive,)
            catalog.chunks.commit(archive, [chunk(1, 10)])
            assert len(catalog.chunks.select(archive)) == 1


def test_a_connection_lost_in_a_transaction_is_an_error_and_keeps_nothing(catalog, postgres_url):
    archive = catalog.archives.create(spec(), state())

    def change_and_be_cut_off():
        with catalog.session.transaction():
            catalog.chunks.commit(archive, [chunk(1, 10)])
            _end_sessions(postgres_url)
            catalog.chunks.commit(archive, [chunk(11, 20)])

    with pytest.raises(CatalogError, match="connection to Postgres at .* was lost.*Run it again"):
        change_and_be_cut_off()
    assert catalog.chunks.select(archive) == ()


def test_a_session_ended_between_two_calls_is_made_again(catalog, postgres_url):
    _end_sessions(postgres_url)
    assert catalog.archives.all() == ()
    assert catalog.now().utcoffset().total_seconds() == 0


def test_calls_of_several_threads_do_not_mix(catalog):
    archive = catalog.archives.create(spec(), state())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: catalog.chunks.commit(archive, [chunk(n * 10 + 1, n * 10 + 10)]), range(40)))
        assert set(pool.map(lambda _: len(catalog.chunks.select(archive)), range(16))) == {40}


def test_a_failure_inside_a_transaction_undoes_it(catalog):
    class Stop(Exception):
        pass

    def change_and_stop():
        with catalog.session.transaction():
            catalog.archives.create(spec(), state())
            raise Stop

    with pytest.raises(Stop):
        change_and_stop()
    assert catalog.archives.all() == ()


def test_a_commit_that_waits_too_long_says_for_what(catalog, postgres_url):
    archive = catalog.archives.create(spec(), state())
    with psycopg.connect(postgres_url) as other, catalog.session.reading() as sql:
        other.execute("select from nats3.archive for update")
        sql.connection.execute("set lock_timeout = '50ms'")
        with pytest.raises(CatalogError, match="Another process holds a lock"):
            catalog.chunks.commit(archive, [chunk(1, 10)])
