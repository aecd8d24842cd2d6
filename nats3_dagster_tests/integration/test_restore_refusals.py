"""Restores of a stream that a server cannot do: the plan refuses them, and nothing is made."""

import pytest

from nats3_dagster.archive.restore.plan import RestoreSpec, plan
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import Nats3Error, WrongState
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire


def test_an_older_server_is_refused_by_name(workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str) -> None:
    if nats.version >= (2, 15):
        pytest.skip("this server can")
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"1")])
    archived(workspace, wire, "EV", bucket)
    with pytest.raises(WrongState, match=r"cannot restore messages at their sequences and times: servers from 2\.15"):
        plan(workspace, RestoreSpec("a", name="BACK"))
    assert wire.api("STREAM.NAMES")["streams"] == ["EV"]


@pytest.mark.needs_nats("2.15")
def test_a_message_over_the_limit_of_the_server_is_refused(
    workspace: Workspace, wire: Wire, bucket: str, nats_factory: NatsFactory, settings: Settings
) -> None:
    """The last one that fits does: header block and payload together."""
    headers = b"NATS/1.0\r\nA: 1\r\n\r\n"
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", headers, b"x" * (5000 - len(headers)))])
    archived(workspace, wire, "EV", bucket)
    for limit, fits in ((5000, True), (4999, False)):
        small = nats_factory(config=f"max_payload: {limit}")
        with Workspace(settings.model_copy(update={"nats_url": small.url})) as there:
            if fits:
                assert plan(there, RestoreSpec("a")).stream == "EV"
                continue
            with pytest.raises(Nats3Error, match="max_payload"):
                plan(there, RestoreSpec("a"))
        with Wire(small.url) as other:
            assert not other.api("STREAM.NAMES")["streams"]
