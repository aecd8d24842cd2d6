"""The connection: one clear line for each way it fails, never the password, and made again only between calls."""

import os
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from nats3_dagster.catalog import Catalog, migrate
from nats3_dagster.catalog.session.health import health
from nats3_dagster.catalog.session.pool import MAX_CONNECTIONS
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.errors import CatalogError
from nats3_dagster_tests.support.catalog import chunk, spec, state
from nats3_dagster_tests.support.servers.translating import MESSAGE, translating

_SESSIONS = """
from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""


def _end_sessions(url):
    """As a restart of the server does to every session."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"select pg_terminate_backend(pid, 5000) {_SESSIONS}")


def _has_sessions(url, number):
    """Whether the database has so many connections beside this one: soon, because a closed one ends a moment later."""
    end = time.monotonic() + 10
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(f"select count(*) {_SESSIONS}").fetchall() != [(number,)]:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
    return True


def _all_at_once(catalog, threads=MAX_CONNECTIONS):
    """Run a transaction in each of so many threads, each open until all are."""
    barrier = Barrier(threads)

    def wait_inside(_):
        with catalog.session.transaction() as sql:
            barrier.wait(30)
            return len(sql.values(int, "revision", archive=0))

    with ThreadPoolExecutor(threads) as pool:
        assert list(pool.map(wait_inside, range(threads))) == [0] * threads


@pytest.mark.parametrize(
    ("change", "say"),
    [
        (
            {"password": "planted-secret"},
            "refused the connection: password authentication failed.*Correct the user or password",
        ),
        ({"user": "nobody", "password": "planted-secret"}, "refused the connection: .*Correct the user or password"),
        ({"dbname": "not_there"}, 'database "not_there" does not exist.*Create the database'),
        ({"port": "1"}, "not reachable: Connection refused.*Start it"),
        ({"host": "no-such-host.invalid"}, "Correct the host"),
        # Also of poolers that answer for a server of the past: pgbouncer#859, yandex/odyssey#450.
        ({"target_session_attrs": "standby"}, "is not in hot standby mode.*Name the primary server"),
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


def test_a_server_of_another_language_is_understood_by_its_codes(postgres_url):
    """Texts are in the server's `lc_messages`: https://www.postgresql.org/docs/current/errcodes-appendix.html"""
    user = f"refused_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection, translating(postgres_url) as port:
        connection.execute(f"create role {user} login password 'pw' connection limit 0".encode())
        try:
            front = {"port": str(port), "connect_timeout": "10"}
            for change, code, say in (
                ({"password": "planted-secret"}, "28P01", "Correct the user or password"),
                ({"dbname": "not_there"}, "3D000", "Create the database"),
                ({"user": user, "password": "pw"}, "53300", "Raise max_connections"),
                ({"dbname": "template0"}, "55000", "Look at NATS3_POSTGRES_URL"),
            ):
                with pytest.raises(CatalogError) as raised:
                    Catalog.connect(make_conninfo(postgres_url, **front, **change))
                told = f"refused the connection: {MESSAGE} ({code}). {say}"
                assert told in str(raised.value), code
                assert "planted-secret" not in str(raised.value)
        finally:
            connection.execute(f"drop role {user}".encode())
    # Before the login a server writes in its own encoding: psycopg#194.
    with translating(postgres_url, "gbk") as port, pytest.raises(CatalogError) as raised:
        migrate(make_conninfo(postgres_url, port=str(port), password="planted-secret"))
    assert "(28P01). Correct the user or password" in str(raised.value)


def test_a_database_that_is_not_in_utf8_is_refused_by_name(postgres_url):
    """As initdb makes them under LANG=C: there texts are bytes."""
    name = f"ascii_{os.getpid()}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        made = f"create database {name} template template0 encoding 'SQL_ASCII' locale_provider libc locale 'C'"
        connection.execute(made.encode())
        try:
            for call in (migrate, Catalog.connect, health):
                with pytest.raises(CatalogError, match="has the encoding SQL_ASCII, and .* ENCODING 'UTF8'"):
                    call(make_conninfo(postgres_url, dbname=name))
        finally:
            connection.execute(f"drop database {name}".encode())


def test_a_statement_that_a_timeout_ends_is_told_as_that(catalog):
    for setting, told in (
        ("statement_timeout", "ended a statement: .*Its statement_timeout is too short"),
        ("lock_timeout", "holds a lock"),
    ):
        with psycopg.connect(catalog.session.url) as other, catalog.session.reading() as sql:
            other.execute("lock table nats3.archive in access exclusive mode")
            sql.connection.execute(f"set {setting} = '50ms'".encode())
            with pytest.raises(CatalogError, match=told):
                catalog.archives.all()
            sql.connection.execute(f"reset {setting}".encode())


def test_a_server_that_ends_idle_sessions_takes_no_lock_away(postgres_url):
    """A session's locks end with it, and another process then has them too."""
    limits = "-c idle_session_timeout=100 -c idle_in_transaction_session_timeout=100"
    with Catalog.connect(make_conninfo(postgres_url, options=limits)) as catalog:
        archive = catalog.archives.create(spec(), state())
        with catalog.locks.exporting(archive, "x", "2026-11-21-07:00", 0) as check_alone:
            with catalog.session.transaction(), psycopg.connect(postgres_url) as other:
                other.execute("select pg_sleep(0.4)")
                assert catalog.archives.all() == (archive,)
            check_alone()


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
            for _ in range(MAX_CONNECTIONS + 1):
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


def test_a_transaction_of_one_thread_does_not_hold_up_another(catalog):
    opened, over = Event(), Event()

    def slow():
        with catalog.session.transaction():
            catalog.archives.create(spec("slow"), state())
            opened.set()
            assert over.wait(60)

    with ThreadPoolExecutor(2) as pool:
        transaction = pool.submit(slow)
        assert opened.wait(30)
        try:
            assert pool.submit(catalog.archives.all).result(20) == ()
        finally:
            over.set()
        transaction.result(30)
    assert [archive.name for archive in catalog.archives.all()] == ["slow"]


def test_as_many_connections_as_threads_at_once_and_no_more_than_the_maximum(catalog, postgres_url):
    for _ in range(20):
        catalog.archives.all()
    with catalog.session.transaction(), catalog.session.transaction():
        catalog.archives.create(spec(), state())
    assert _has_sessions(postgres_url, 1)
    _all_at_once(catalog)
    with ThreadPoolExecutor(2 * MAX_CONNECTIONS) as pool:
        names = list(pool.map(lambda _: catalog.archives.get("logs").name, range(10 * MAX_CONNECTIONS)))
    assert names == ["logs"] * (10 * MAX_CONNECTIONS)
    assert _has_sessions(postgres_url, MAX_CONNECTIONS)


def test_several_connections_lost_between_two_calls_are_made_again(catalog, postgres_url):
    _all_at_once(catalog)
    _end_sessions(postgres_url)
    _all_at_once(catalog)


def test_a_call_that_finds_no_connection_free_says_so(postgres_url, monkeypatch):
    monkeypatch.setattr("nats3_dagster.catalog.session.pool.MAX_CONNECTIONS", 1)
    monkeypatch.setattr("nats3_dagster.catalog.session.pool._WAIT_S", 0.1)
    with (
        Catalog.connect(postgres_url) as catalog,
        ThreadPoolExecutor(1) as pool,
        catalog.session.transaction(),
        pytest.raises(CatalogError, match="All 1 connections of this process .* in use.*pg_stat_activity"),
    ):
        pool.submit(catalog.archives.all).result(30)


def test_a_catalog_closed_during_a_call_leaves_no_connection(postgres_url):
    catalog = Catalog.connect(postgres_url)
    _all_at_once(catalog, 3)
    with catalog.session.transaction():
        catalog.close()
        assert _has_sessions(postgres_url, 1)
        assert catalog.archives.all() == ()
    assert _has_sessions(postgres_url, 0)


def test_a_forked_process_does_not_share_the_connections(catalog):
    child = os.fork()
    if child == 0:
        try:
            catalog.archives.all()
        except CatalogError as error:
            os._exit(17 if "forked" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert catalog.archives.all() == ()


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
