"""Servers of a benchmark in a temporary folder, with a migrated catalog, and how a catalog gets millions of rows."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from nats3_dagster.catalog import migrate
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

BUCKET = "bench"
# Indexes of the table of chunks, which are made again when it is full.
_INDEXES = ("chunk_key", "chunk_hour", "chunk_order", "chunk_times", "chunk_reach", "chunk_no_overlap")


@dataclass(frozen=True)
class Servers:
    """What runs."""

    folder: Path
    # They name the servers, as the environment of this process does.
    settings: Settings
    postgres: Postgres
    s3: S3Server
    # None unless it was asked for.
    nats: NatsServer | None


@contextmanager
def running(*, nats: bool = False) -> Iterator[Servers]:
    """Postgres and S3, and NATS where asked for. They end with it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nats3-bench-")))
        server = stack.enter_context(NatsServer(folder / "nats")) if nats else None
        postgres = stack.enter_context(Postgres(folder / "postgres"))
        s3 = stack.enter_context(S3Server(folder / "s3"))
        os.environ.update(
            {
                "NATS3_POSTGRES_URL": postgres.url(),
                "AWS_ENDPOINT_URL_S3": s3.endpoint,
                "AWS_REGION": s3.region,
                "AWS_ACCESS_KEY_ID": s3.access_key,
                "AWS_SECRET_ACCESS_KEY": s3.secret_key,
            }
        )
        if server:
            os.environ["NATS3_NATS_URL"] = server.url
        settings = Settings.load()
        migrate(settings.postgres)
        yield Servers(folder, settings, postgres, s3, server)


@contextmanager
def workspace() -> Iterator[Workspace]:
    """A workspace on Postgres and S3 of its own, with the bucket BUCKET."""
    with running() as servers:
        create_bucket(servers.settings.store, BUCKET)
        with Workspace(servers.settings) as opened:
            yield opened


@contextmanager
def bulk(postgres: str) -> Iterator[psycopg.Connection]:
    """A connection for millions of rows of chunks and their subjects: no trigger sums them, and the indexes are made
    when they are there."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        found: dict[str, str] = dict(
            connection.execute("select indexname, indexdef from pg_indexes where schemaname = 'nats3'").fetchall()
        )
        for table in ("chunk", "chunk_subject"):
            connection.execute(f"alter table nats3.{table} disable trigger user".encode())
        connection.execute("alter table nats3.chunk drop constraint if exists chunk_no_overlap")
        for name in _INDEXES:
            connection.execute(f"drop index if exists nats3.{name}".encode())
        yield connection
        for name in _INDEXES:
            connection.execute(found[name].encode())
        # A connection looks for the constraint by its name.
        connection.execute("alter table nats3.chunk add constraint chunk_no_overlap check (true) not valid")
        connection.execute("vacuum analyze")
