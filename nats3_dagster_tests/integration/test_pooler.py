"""A real PgBouncer between nats3 and Postgres: what it shares is refused by name, and what it keeps apart works."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nats3_dagster.catalog import migrate
from nats3_dagster.catalog.session.health import health
from nats3_dagster.dev.process import HOST, Process, answers, free_port
from nats3_dagster.errors import CatalogError
from nats3_dagster.settings import Settings
from nats3_dagster.tables import tables
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.tables import logs, numbers, put, rows, seqs, synced


@pytest.fixture(params=["session", "transaction", "statement"])
def pooled(request: pytest.FixtureRequest, settings: Settings, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A `pool_mode`, and the address of a PgBouncer that has it, before the test's Postgres."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        why = "there is no PgBouncer: run make test"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    at, port = urlsplit(settings.postgres), free_port(0)
    database = at.path.strip("/")
    (tmp_path / "pooler.ini").write_text(
        f"""[databases]
{database} = host={at.hostname} port={at.port} user={at.username} password={at.password}
[pgbouncer]
listen_addr = {HOST}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {request.param}
"""
    )
    argv = [program, str(tmp_path / "pooler.ini")]
    if os.geteuid() == 0:  # it refuses to run as root, and reads its settings before it gives that up
        argv[1:1] = ["-u", "nobody"]
    with ExitStack() as stack:
        process = Process.start(argv, (argv[-1],), tmp_path / "pooler.log")
        stack.callback(process.stop)
        process.wait_until(lambda: answers(port), "PgBouncer")
        yield request.param, f"postgresql://any@{HOST}:{port}/{database}"


def test_only_a_pooler_that_keeps_connections_apart_is_used(
    pooled: tuple[str, str], nats3: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, url = pooled
    monkeypatch.setenv("NATS3_POSTGRES_URL", url)
    if mode == "session":
        migrate(url)
        nats3.ok("store", "list")
        assert health(url).schema
        # What it refuses by itself is told as the word of a server that answers, and not as one that is away.
        for wrong in (f"{url}_missing", f"{url}?options=-cjit%3Doff"):
            with pytest.raises(CatalogError, match=r"refused the connection: .* \([0-9A-Z]{5}\)"):
                migrate(wrong)
        return
    for call in (migrate, health):
        with pytest.raises(CatalogError, match="shares its connections"):
            call(url)
    refused = nats3.refused("store", "list")
    assert "as PgBouncer does with pool_mode = transaction" in refused


@pytest.mark.s3
@pytest.mark.parametrize("pooled", ["session"], indirect=True)
def test_a_table_is_kept_through_one(
    pooled: tuple[str, str], settings: Settings, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    """PgBouncer refuses a search path that comes with the connection's start (pgbouncer#89, pgbouncer#674)."""
    with Workspace(settings) as direct:
        put(direct, logs(direct, bucket), rows(1, 10))
        monkeypatch.setenv("NATS3_POSTGRES_URL", pooled[1])
        with Workspace(Settings.load()) as through:
            tables.create(through, "logs")
            synced(through)
        assert not tables.find(direct, "logs").is_behind
        assert seqs(direct) == numbers((1, 10))
