"""Durables of a restored stream stand where they stood: an application goes on, with no message twice and none left
out."""

from typing import Any

import pytest

from nats3_dagster.archive.captures.consumers import keep_consumers
from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.archive.restore.run import Restored, restore
from nats3_dagster.model.consumer import KeptConsumers
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.applications import Application
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")


def app(workspace: Workspace, durable: str = "app", stream: str = "EV") -> Application:
    return Application(workspace.settings.nats.servers[0], stream, durable)


def filled(wire: Wire, count: int = 20, **config: Any) -> None:
    wire.create_stream("EV", "ev.>", **config)
    wire.publish([(f"ev.{n % 3}", b"", b"%d" % n) for n in range(1, count + 1)])


def kept(workspace: Workspace, wire: Wire, bucket: str, **spec: Any) -> KeptConsumers | None:
    """Capture the stream, and keep its consumers."""
    archived(workspace, wire, "EV", bucket, **spec)
    return keep_consumers(workspace, workspace.catalog.archives.get("a"))


def restored(workspace: Workspace, wire: Wire, *names: str, **spec: Any) -> Restored:
    wire.api("STREAM.DELETE.EV")
    return restore(workspace, plan(workspace, RestoreSpec("a", consumers=names or ("all",), **spec)))


def test_explicit_acknowledgements_out_of_order(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Acknowledged ones above the floor do not come again; those that were not do, with the count that they had."""
    filled(wire)
    one = app(workspace)
    one.make(ack_policy="explicit", ack_wait=1)
    assert one.take(12, acked=[1, 2, 3, 5, 6, 9, 11], nacked=[8]) == [*range(1, 13)]
    assert one.take(1) == [8]
    assert kept(workspace, wire, bucket)
    restored(workspace, wire)
    taken = one.rest(2.5)
    assert sorted(taken) == [(4, 2), (7, 2), (8, 3), (10, 2), (12, 2), *((seq, 1) for seq in range(13, 21))]
    assert one.rest() == []
