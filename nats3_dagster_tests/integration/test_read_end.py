"""The end of a read: what a consumer says of it is believed only when the stream's leader says the same."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import SourceError, StreamChanged
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read import breaks, consumer
from nats3_dagster.jetstream.read.contents import first_held
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import SeqRange
from nats3_dagster_tests.support.servers.nats_proxy import Frame, NatsProxy, skipping, zero_pending
from nats3_dagster_tests.support.wire import Wire

COUNT = 1000
SUBJECTS = ("s.a", "s.b", "s.c", "s.d")


@pytest.fixture
def wire(nats: NatsServer) -> Iterator[Wire]:
    with Wire(nats.url) as wire:
        wire.create_stream("S", "s.>")
        wire.publish((SUBJECTS[n % 4], b"", b"%d" % n) for n in range(1, COUNT + 1))
        yield wire


@pytest.fixture
def proxy(nats: NatsServer, wire: Wire) -> Iterator[NatsProxy]:
    with NatsProxy(nats.port) as proxy:
        yield proxy


@pytest.fixture
def spec(nats: NatsServer, wire: Wire) -> ReadSpec:
    with Link(nats.options) as link:
        return ReadSpec(stream_state(link, "S").incarnation, SeqRange(1, COUNT))


def read(url: str, spec: ReadSpec) -> list[int]:
    options = NatsOptions(servers=(url,))
    return [seq for batch in read_batches(options, spec) for seq in batch.column("seq").to_pylist()]


def is_message(frame: Frame) -> bool:
    return b" $JS.ACK." in frame[0]


def is_consumer(frame: Frame) -> bool:
    """The answer to CONSUMER.CREATE or CONSUMER.INFO."""
    return b'"num_pending":' in frame[1]


def requests(proxy: NatsProxy) -> list[str]:
    """The API requests that go through the proxy from now on, without names."""
    seen: list[str] = []

    def note(frame: Frame) -> Frame:
        if match := re.match(rb"H?PUB \$JS\.API\.([A-Z.]+)\.", frame[0]):
            seen.append(match[1].decode())
        return frame

    proxy.from_client = note
    return seen


# Consumers that say too early that nothing is pending


@pytest.mark.parametrize("subjects", [(), ("s.>",), ("s.b",), ("s.a", "s.c"), ("s.a", "s.*"), ("*.b", "s.*")])
def test_every_message_says_that_nothing_is_pending(
    proxy: NatsProxy, spec: ReadSpec, subjects: tuple[str, ...]
) -> None:
    proxy.from_server = lambda frame: zero_pending(frame) if is_message(frame) else frame
    wanted = {("s.b",): range(1, COUNT, 4), ("s.a", "s.c"): range(2, COUNT + 1, 2)}.get(subjects, range(1, COUNT + 1))
    assert read(proxy.url, replace(spec, subjects=subjects)) == list(wanted)


def test_a_new_consumer_says_that_nothing_is_pending(
    proxy: NatsProxy, spec: ReadSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More often than a read may break for other reasons."""
    monkeypatch.setattr(breaks, "LAG_WAIT_S", 0.05)
    proxy.from_server = lambda frame: zero_pending(frame) if is_consumer(frame) and proxy.connections < 8 else frame
    assert read(proxy.url, spec) == list(range(1, COUNT + 1))
    assert proxy.connections == 8


def test_an_idle_consumer_says_that_nothing_is_pending(
    proxy: NatsProxy, spec: ReadSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was made: the first connection's requests for messages are dropped, so that its state is asked for."""
    monkeypatch.setattr(consumer, "HEARTBEAT_S", 0.2)
    proxy.from_client = lambda frame: None if b".MSG.NEXT." in frame[0] and proxy.connections == 1 else frame
    states = count()

    def alter(frame: Frame) -> Frame:
        return zero_pending(frame) if is_consumer(frame) and next(states) == 1 else frame

    proxy.from_server = alter
    assert read(proxy.url, spec) == list(range(1, COUNT + 1))
    assert proxy.connections == 2


def test_consumers_that_never_send_what_the_leader_holds_are_an_error(
    proxy: NatsProxy, spec: ReadSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breaks, "LAG_S", 1)
    proxy.from_server = lambda frame: zero_pending(frame) if is_consumer(frame) else frame
    what = "at sequence 1: The consumer has nothing of S after sequence 0, and the stream's leader holds 1: the server"
    with pytest.raises(SourceError, match=what):
        read(proxy.url, spec)
    assert proxy.connections > 3


# Consumers that leave out a message, or send it twice


@pytest.mark.parametrize(
    ("subjects", "seqs"), [((), SeqRange(1, COUNT)), (("s.a", "s.b", "s.c"), SeqRange(461, 540))], ids=["all", "three"]
)
def test_a_message_that_a_consumer_skips_is_asked_of_the_leader(
    proxy: NatsProxy, spec: ReadSpec, wire: Wire, subjects: tuple[str, ...], seqs: SeqRange
) -> None:
    """As consumers of nats-server 2.10.25 did (nats-server#6526), and those of several filters beside a rollup (#8571).
    Under a filter that takes less, there is too much to ask."""
    for seq in (200, 201, 500):
        wire.api("STREAM.MSG.DELETE.S", seq=seq)
    skip = skipping(502)
    proxy.from_server = lambda frame: skip(frame) if proxy.connections == 1 else frame
    stored = [m.seq for m in wire.messages("S") if not subjects or m.subject in subjects]
    wanted = [seq for seq in stored if seqs.first <= seq <= seqs.last]
    assert read(proxy.url, replace(spec, subjects=subjects, seqs=seqs)) == wanted
    assert proxy.connections == 2


def test_a_message_that_every_consumer_skips_is_an_error(proxy: NatsProxy, spec: ReadSpec) -> None:
    proxy.from_server = skipping(500)
    with pytest.raises(
        SourceError, match="at sequence 500: The consumer left out message 500 of S, which the stream's"
    ):
        read(proxy.url, spec)


def test_a_message_that_comes_twice_is_handed_over_once(proxy: NatsProxy, spec: ReadSpec) -> None:
    """As through leaf nodes that were connected twice (nats-server#3191)."""

    def twice(frame: Frame) -> Frame:
        line, payload = frame
        double = proxy.connections == 1 and b".500.500." in line
        return (line, payload + line + payload) if double else frame

    proxy.from_server = twice
    assert read(proxy.url, spec) == list(range(1, COUNT + 1))
    assert proxy.connections == 2


# The leader's word


def test_made_again_before_the_leader_is_asked(proxy: NatsProxy, spec: ReadSpec, wire: Wire) -> None:
    """The new stream has none of these messages, which says nothing of the old one's. That the consumer went with its
    stream is told too late."""
    wire.api("STREAM.MSG.DELETE.S", seq=COUNT)

    def make_again(frame: Frame) -> Frame:
        if b"STREAM.MSG.GET" in frame[0]:
            wire.api("STREAM.DELETE.S")
            wire.create_stream("S", "s.>")
        return frame

    proxy.from_client = make_again
    proxy.from_server = lambda frame: None if b"Consumer Deleted" in frame[1] else frame
    with pytest.raises(StreamChanged, match="S was made again at"):
        read(proxy.url, spec)


@pytest.mark.parametrize(
    ("subjects", "last", "asked"),
    [
        ((), COUNT, 0),
        ((), COUNT - 1, 1),
        (("s.a",), COUNT, 0),
        (("s.b",), COUNT, 1),
        # An older server applies one filter only, and so sends all messages up to the last one.
        pytest.param(("s.b", "s.c"), COUNT, 2, marks=pytest.mark.needs_nats("2.10")),
    ],
)
def test_the_leader_is_asked_once_a_filter_and_only_where_the_last_message_is_not_there(
    proxy: NatsProxy, spec: ReadSpec, wire: Wire, subjects: tuple[str, ...], last: int, asked: int
) -> None:
    for seq in range(last + 1, COUNT + 1):
        wire.api("STREAM.MSG.DELETE.S", seq=seq)
    if subjects:
        wire.publish([("s.d", b"", b"later")])  # of none of the filters
    seen = requests(proxy)
    read(proxy.url, replace(spec, subjects=subjects))
    assert seen.count("STREAM.MSG.GET") == asked
    assert proxy.connections == 1


@pytest.mark.parametrize(
    ("seqs", "filters", "held"),
    [
        ((1, COUNT), (), 1),
        ((COUNT, COUNT), (), COUNT),
        ((501, 501), (), None),  # deleted; there are messages behind the range
        ((501, 502), (), 502),
        ((COUNT + 1, COUNT + 9), (), None),
        ((2, 4), ("s.b",), None),
        ((2, 5), ("s.b",), 5),
        ((2, 3), ("s.b", "s.*.x", "s.d"), 3),
        ((1, COUNT), ("nobody", "s.*.x"), None),
    ],
)
def test_what_the_leader_holds_of_a_range(
    link: Link, spec: ReadSpec, wire: Wire, seqs: tuple[int, int], filters: tuple[str, ...], held: int | None
) -> None:
    wire.api("STREAM.MSG.DELETE.S", seq=501)
    assert link.call(first_held, spec.incarnation, SeqRange(*seqs), filters) == held
