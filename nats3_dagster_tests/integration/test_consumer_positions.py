"""Positions of durables, as exactly as a server says them, and without a trace on the server."""

from dataclasses import replace

import pytest
from nats.aio.msg import Msg

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.consumers.positions import durables_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model.consumer import ConsumerPosition, Pair
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.applications import Application
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def app(link: Link, wire: Wire) -> Application:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x" * 200)] * 3_000)
    app = Application(f"nats://{link.client.address}", "EV", "app")
    app.make(ack_policy="explicit", max_ack_pending=-1)
    return app


def only(link: Link) -> ConsumerPosition:
    (one,) = durables_of(link, "EV").consumers
    return one


def test_what_waits_for_an_acknowledgement(link: Link, wire: Wire, app: Application) -> None:
    """Nothing waits: the list says all. Something waits: its backup says it from 2.15 on, and before that the floor is
    known."""
    assert only(link).exact
    app.take(6, acked=range(1, 7))
    one = only(link)
    assert (one.exact, one.delivered, one.ack_floor, one.pending) == (True, Pair(6, 6), Pair(6, 6), {})
    app.take(6, acked=[8, 10], nacked=[9])
    app.take(1)
    one = only(link)
    if server_info(link).version < (2, 15):
        assert (one.exact, one.delivered.stream, one.ack_floor.stream, one.pending) == (False, 12, 6, {})
        return
    assert (one.exact, one.delivered, one.ack_floor) == (True, Pair(13, 12), Pair(6, 6))
    assert sorted(one.pending) == [7, 9, 11, 12]
    assert one.redelivered == {9: 1}


@pytest.mark.needs_nats("2.15")
def test_a_large_position_comes_in_parts_and_leaves_nothing(link: Link, wire: Wire, app: Application) -> None:
    app.take(3_000, acked=range(2, 3_000, 2))
    eventually(lambda: wire.api("CONSUMER.INFO.EV.app")["num_ack_pending"] > 1_000, "all are delivered")
    names = wire.api("CONSUMER.NAMES.EV")["consumers"]
    one = only(link)
    assert one.exact
    assert set(one.pending) == {seq for seq in range(1, one.delivered.stream + 1) if seq % 2 or seq == 3_000}
    assert wire.api("CONSUMER.NAMES.EV")["consumers"] == names
    assert only(link) == one


def test_a_list_that_is_not_whole_is_an_error(settings: Settings, link: Link) -> None:
    """A server names apart those that it is too old for. No server of ours is, so another client answers."""

    async def respond(client: Connection) -> None:
        async def answer(message: Msg) -> None:
            await message.respond(b'{"consumers": [], "total": 0, "offline": {"app": "unsupported"}}')

        await client.subscribe("JS.other.API.CONSUMER.LIST.EV", cb=answer)
        await client.flush()

    link.call(respond)
    options = replace(settings.nats, api_prefix="JS.other.API")
    with Link(options) as other, pytest.raises(SourceError, match="app is offline, and its state unknown"):
        durables_of(other, "EV")


def test_several_pages(link: Link, wire: Wire) -> None:
    """A server gives 256 consumers a page."""
    wire.create_stream("EV", "ev.>")
    for number in range(300):
        config = {"durable_name": f"d{number}", "ack_policy": "explicit"}
        wire.api(f"CONSUMER.DURABLE.CREATE.EV.d{number}", stream_name="EV", config=config)
    assert len(durables_of(link, "EV").consumers) == 300
