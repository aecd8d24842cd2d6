"""Streams with consumers, and an archive that keeps them."""

from typing import Any, LiteralString

import psycopg

from nats3_dagster.archive.captures.consumers import record_consumers
from nats3_dagster.model.consumer import KeptConsumers
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.applications import Application
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire


def app(workspace: Workspace, durable: str = "app", stream: str = "EV") -> Application:
    return Application(workspace.settings.nats.servers[0], stream, durable)


def filled(wire: Wire, count: int = 20, **config: Any) -> None:
    wire.create_stream("EV", "ev.>", **config)
    wire.publish([(f"ev.{n % 3}", b"", b"%d" % n) for n in range(1, count + 1)])


def kept(workspace: Workspace, wire: Wire, bucket: str, **spec: Any) -> KeptConsumers | None:
    """Capture the stream, and keep its consumers."""
    archived(workspace, wire, "EV", bucket, **spec)
    return record_consumers(workspace, workspace.catalog.archives.get("a"))


def set_back(postgres_url: str, what: LiteralString) -> None:
    """Change rows as if time had passed."""
    with psycopg.connect(postgres_url) as connection:
        connection.execute("set session_replication_role = replica")  # rows are immutable to everybody else
        connection.execute(what)
