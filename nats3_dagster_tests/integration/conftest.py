"""What tests of several files share: a catalog that is put back to an earlier state."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


@pytest.fixture
def put_back(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Callable[[], Workspace]]]:
    """`restored = put_back()` copies the catalog; `restored()` opens the copy, for this process and those it starts."""
    base, _, name = settings.postgres.rpartition("/")
    copy, opened = f"{name}_copy", list[Workspace]()

    def run(statement: str, *names: str) -> None:
        with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
            connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [name])
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]

    def restored() -> Workspace:
        monkeypatch.setenv("NATS3_POSTGRES_URL", f"{base}/{copy}")
        opened.append(Workspace(Settings.load()).__enter__())
        return opened[0]

    def copied() -> Callable[[], Workspace]:
        run("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", copy, name)
        return restored

    yield copied
    for workspace in opened:
        workspace.__exit__(None, None, None)
    run("DROP DATABASE IF EXISTS {} WITH (FORCE)", copy)
