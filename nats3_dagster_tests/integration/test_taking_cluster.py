"""Archives of the mode `consumer` of a cluster of three: leaders change and a server is killed during a run."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from nats3_dagster.archive.source import durables
from nats3_dagster.archive.take import commit, plan
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import SourceError
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.take import acknowledge, pull
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.servers.cluster import start, three_servers
from nats3_dagster_tests.support.taking import (
    INTEREST,
    QUEUE,
    content,
    covered,
    durable,
    gaps,
    left,
    make,
    numbers,
    run,
)
from nats3_dagster_tests.support.wire import Wire

# A cluster of 2.9 on one busy machine leaves requests without an answer for longer than a client waits.
pytestmark = [pytest.mark.slow, pytest.mark.nats, pytest.mark.needs_nats("2.14")]
COUNT = 3000
NAMES = count()
Trouble = Callable[[], None]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NatsServer]]:
    with three_servers(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture
def cluster(servers: list[NatsServer]) -> list[NatsServer]:
    start([server for server in servers if not server.find()])
    return servers


@pytest.fixture
def own(cluster: list[NatsServer], settings: Settings) -> Iterator[Workspace]:
    """A workspace of the cluster."""
    urls = ",".join(server.url for server in cluster)
    with Workspace(settings.model_copy(update={"nats_url": urls})) as workspace:
        yield workspace


def until(cluster: list[NatsServer], ask: Callable[[Wire], Any]) -> Any:
    """The first true answer of any server; those that are down or have no leader are asked again."""
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        for server in cluster:
            with suppress(OSError, AssertionError, IndexError, ValueError), Wire(server.url) as wire:
                if answer := ask(wire):
                    return answer
        time.sleep(0.1)
    raise AssertionError("The cluster does not answer")


def made(cluster: list[NatsServer], retention: dict[str, str], ack_wait_s: int = 1) -> str:
    """A stream of three copies with a durable `mine` and messages."""
    name = f"T{next(NAMES)}"
    config = {"name": name, "subjects": [f"{name}.>"], "storage": "file", "num_replicas": 3, **retention}
    until(cluster, lambda wire: "config" in wire.try_api(f"STREAM.CREATE.{name}", **config))
    until(cluster, lambda wire: durable(wire, "mine", name, ack_wait=ack_wait_s * SECOND_NS) is None)
    until(cluster, lambda wire: wire.publish(numbers(1, COUNT, name)) is None)
    return name


def leader(cluster: list[NatsServer], what: str) -> str:
    return until(cluster, lambda wire: (wire.try_api(what).get("cluster") or {}).get("leader"))


def changed(cluster: list[NatsServer], stream: str, how: str) -> None:
    """Let another server lead the durable, or the stream, or kill the durable's leader and start it again."""
    info, step = {
        "consumer steps down": (f"CONSUMER.INFO.{stream}.mine", f"CONSUMER.LEADER.STEPDOWN.{stream}.mine"),
        "stream steps down": (f"STREAM.INFO.{stream}", f"STREAM.LEADER.STEPDOWN.{stream}"),
        "killed": (f"CONSUMER.INFO.{stream}.mine", ""),
    }[how]
    before = leader(cluster, info)
    if how == "killed":
        server = cluster[int(before[1:])]
        server.kill()
        server.start()
        return
    until(cluster, lambda wire: wire.try_api(step).get("success"))
    until(cluster, lambda wire: (wire.try_api(info).get("cluster") or {}).get("leader") not in (None, before))


def at(monkeypatch: pytest.MonkeyPatch, moment: str, act: Trouble) -> None:
    """Let `act` happen once, at this moment of a run."""
    done: list[None] = []

    def once() -> None:
        if not done:
            done.append(None)
            act()

    def before(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def wrapped(*args: Any, **more: Any) -> Any:
            once()
            return real(*args, **more)

        monkeypatch.setattr(owner, name, wrapped)

    def later(owner: Any, name: str) -> None:
        """After a coroutine's first call."""
        real, calls = getattr(owner, name), count(1)

        async def wrapped(*args: Any) -> Any:
            answer = await real(*args)
            if next(calls) == 1:
                await asyncio.to_thread(once)
            return answer

        monkeypatch.setattr(owner, name, wrapped)

    if moment == "pulling":
        monkeypatch.setattr(pull, "PULL_MESSAGES", 500)
        later(pull._Puller, "_pull")
    elif moment == "acknowledging":
        monkeypatch.setattr(acknowledge, "WINDOW", 500)
        later(acknowledge._Confirming, "window")
    else:
        before(*{"claimed": (commit, "commit"), "committed": (commit, "acknowledge")}[moment])


MOMENTS = ("pulling", "claimed", "committed", "acknowledging")
RETENTIONS = (QUEUE, INTEREST, QUEUE, INTEREST)
HOWS = ("consumer steps down", "stream steps down", "killed")


@pytest.mark.parametrize(
    ("moment", "how", "retention"),
    [
        pytest.param(moment, how, retention, id=f"{moment}, {how}, {retention['retention']}")
        for moment in MOMENTS
        for how, retention in zip(HOWS, RETENTIONS[MOMENTS.index(moment) % 2 :], strict=False)
    ],
)
def test_each_message_once(
    moment: str,
    how: str,
    retention: dict[str, str],
    cluster: list[NatsServer],
    own: Workspace,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(durables, "LEAST_ACK_WAIT_S", 1)
    stream = made(cluster, retention)
    archive = make(own, bucket, stream.lower(), stream, durable="mine")
    at(monkeypatch, moment, lambda: changed(cluster, stream, how))
    for _ in range(8):
        with suppress(SourceError):  # its connection was to the server that was killed: it is run again
            run(own, archive)
            break
    assert list(content(own, archive)) == [(n, b"%d" % n) for n in range(1, COUNT + 1)]
    assert (covered(own, archive, COUNT), gaps(own, archive)) == (True, [])
    assert until(cluster, lambda wire: left(wire, "mine", stream) == (0, 0))
    assert until(cluster, lambda wire: wire.state(stream)["messages"] == 0)


def test_each_message_is_delivered_once_where_a_majority_must_know_first(
    cluster: list[NatsServer], own: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server then says that a request has ended before it sends the messages."""
    monkeypatch.setattr(pull, "PULL_MESSAGES", 200)
    monkeypatch.setattr(plan, "CHUNK_MESSAGES", 700)
    stream = made(cluster, QUEUE, 10)
    archive = make(own, bucket, stream.lower(), stream, durable="mine")
    assert [c.messages for c in run(own, archive).chunks] == [700, 700, 700, 700, 200]
    info = until(cluster, lambda wire: wire.api(f"CONSUMER.INFO.{stream}.mine"))
    assert (info["delivered"]["consumer_seq"], info["num_redelivered"]) == (COUNT, 0)
