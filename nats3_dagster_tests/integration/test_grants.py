"""A role that uses the catalog and may not change the schema; and TLS to Postgres by `sslmode`."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import trustme
from dagster import DagsterInstance, JobDefinition, job, op

from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.catalog import Catalog
from nats3_dagster.catalog.session.schema import VERSION
from nats3_dagster.defs.instance.instance import instance_file
from nats3_dagster.errors import CatalogError
from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.replays import archived, replayed
from nats3_dagster_tests.support.runs import hours_of
from nats3_dagster_tests.support.servers.roles import ROLE, role
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def worker(settings: Settings, nats3: Command, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a role that `nats3 migrate --grant` has granted, in the environment as well."""
    with role(settings.postgres) as url:
        assert nats3.ok("migrate", "--grant", ROLE, "-o", "json").json == {"schema": VERSION, "granted": ROLE}
        nats3.ok("migrate", "--grant", ROLE)
        monkeypatch.setenv("NATS3_POSTGRES_URL", url)
        yield url


def test_a_granted_role_does_everything_but_change_the_schema(
    worker: str, wire: Wire, bucket: str, nats3: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.create_stream("BACK", "back.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(50)])
    with Workspace(Settings.load()) as workspace:
        archived(workspace, wire, "EV", bucket)
        spec = ReplaySpec("a", "back.>", Selection(subjects=("ev.>",)))
        assert replayed(workspace, spec).state == "succeeded"
        archived(workspace, wire, "EV", bucket)
        assert list(seal_hours(workspace, workspace.catalog.archives.get("a"), hours_of(wire, "EV")))

    for words in (("list",), ("get", "a"), ("pause", "a"), ("resume", "a"), ("delete", "a", "--yes")):
        nats3.ok("store", *words)
    said = nats3("doctor", "-o", "json").out
    assert "permission denied" not in said
    (tmp_path / "dagster.yaml").write_text(instance_file().read_text())
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with DagsterInstance.get() as instance:
        instance.add_run_tags(instance.create_run_for_job(_job(), run_config={}).run_id, {"x": "y"})
        (run,) = instance.get_runs()
        instance.report_run_canceled(run)
        instance.delete_run(run.run_id)
    refused = (
        "alter table nats3.chunk add column x int",
        "drop table nats3.gap",
        "create table nats3.x ()",
        "truncate nats3.chunk",
        "delete from nats3.archive",
        "drop schema nats3 cascade",
        "create function nats3.f() returns int language sql as 'select 1'",
        "create schema mine",
        "alter table nats3.chunk disable trigger all",
        "update nats3.alembic_version set version_num = '1'",
        "alter table public.runs add column x int",
        "drop table public.event_logs",
        "create extension hstore",
    )
    with psycopg.connect(worker, autocommit=True) as connection:
        for statement in refused:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
        # The cleaning of the catalog deletes rows of retired chunks, and no others.
        with pytest.raises(psycopg.IntegrityError):
            connection.execute("delete from nats3.chunk")
        _audit_stays(connection)


def _audit_stays(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
    """What was done to an archive, by whom and why, stays as it is."""
    connection.execute(
        "insert into nats3.erasure (archive_id, record_id, number, digest, reason, chosen_by, messages, decided_at) "
        "select min(id), gen_random_uuid(), 1, repeat('a', 64), 'a', '{}', 5, now() from nats3.archive"
    )
    changes = ("update nats3.{} set archive_id = 1", "delete from nats3.{}")
    for statement in (change.format(table) for change in changes for table in ("event", "erasure", "erased_range")):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())
    events = connection.execute("select what, happened_at from nats3.event order by id").fetchall()
    assert {"created", "deleted", "changed"} <= {what for what, _ in events}
    # Not even by the function that forgets what nats3 does by itself.
    assert connection.execute("select nats3.forget_events(-1000000, 100)").fetchone() == (0,)
    assert connection.execute("select what, happened_at from nats3.event order by id").fetchall() == events


def _job() -> JobDefinition:

    @op
    def nothing() -> None: ...

    @job
    def idle() -> None:
        nothing()

    return idle


def test_a_role_without_grants_and_roles_that_cannot_be_granted(settings: Settings, nats3: Command) -> None:
    assert nats3.refused("migrate", "--grant", "nobody here") == (
        '2 Error: Postgres has no role nobody here. As an administrator, run there: CREATE ROLE "nobody here" LOGIN '
        "PASSWORD '...'"
    )
    owner = urlsplit(settings.postgres).username
    assert nats3.refused("migrate", "--grant", str(owner)).startswith(f"2 Error: The role {owner} may change the")
    with role(settings.postgres) as url, pytest.raises(CatalogError, match="permission denied") as error:
        Catalog.connect(url).close()
    assert "Grant it the schema nats3" in str(error.value)


@contextmanager
def tls_before(url: str, context: ssl.SSLContext) -> Iterator[int]:
    """The port of a front that speaks TLS as Postgres does and hands on to the real one, which is built without TLS."""
    at = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

        def one(plain: socket.socket) -> None:
            with suppress(OSError), plain:
                assert plain.recv(8)[4:] == bytes.fromhex("04d2162f")  # SSLRequest
                plain.sendall(b"S")
                with (
                    context.wrap_socket(plain, server_side=True) as client,
                    socket.create_connection((str(at.hostname), at.port or 0)) as server,
                ):
                    threading.Thread(target=pump, args=(server, client), daemon=True).start()
                    pump(client, server)

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while part := source.recv(65536):
            sink.sendall(part)
        sink.shutdown(socket.SHUT_RDWR)


def test_verify_full_is_honoured(settings: Settings, tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    at = urlsplit(settings.postgres)
    with tls_before(settings.postgres, context) as port:

        def url(host: str, ca: str) -> str:
            place = at._replace(netloc=f"{at.username}:{at.password}@{host}:{port}")
            return f"{place.geturl()}?sslmode=verify-full&sslrootcert={tmp_path / ca}"

        with Catalog.connect(url("localhost", "ca.pem")) as catalog:
            assert not catalog.archives.all()
        for host, ca in (("127.0.0.1", "ca.pem"), ("localhost", "other.pem")):
            with pytest.raises(CatalogError) as error:
                Catalog.connect(url(host, ca)).close()
            assert "Correct sslmode and the certificate files" in str(error.value)
            assert str(at.password) not in str(error.value)
    # A server without TLS is refused, and not asked in the clear.
    with pytest.raises(CatalogError, match="does not support SSL"):
        Catalog.connect(f"{settings.postgres}?sslmode=verify-full&sslrootcert={tmp_path / 'ca.pem'}").close()
