"""Administration: what streams are, exactly, and where in them a time is."""

import time
from dataclasses import replace

import pytest

from nats3_dagster.errors import OperatorError, UnknownStream
from nats3_dagster.hours import format_time, parse_time
from nats3_dagster.jetstream import api
from nats3_dagster.jetstream.api import Refused
from nats3_dagster.jetstream.codes import version_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.probe import await_stored
from nats3_dagster.jetstream.read.contents import message_from
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.jetstream.streams import create_stream, delete_stream, stream_names, stream_state, streams_listening
from nats3_dagster_tests.support.servers.nats_proxy import NatsProxy


def test_server_info(nats, link):
    info = server_info(link)
    assert info.version == nats.version
    assert info.address == f"127.0.0.1:{nats.port}"
    assert info.max_payload == 1 << 20
    assert info.jetstream


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.9.10", (2, 9, 10)), ("2.14.0-RC.3", (2, 14, 0)), ("2.12", (2, 12, 0)), ("", (0, 0, 0)), ("dev", (0, 0, 0))],
)
def test_versions(text, version):
    assert version_of({"version": text}) == version


def test_stream_state_is_what_the_server_says(link, wire):
    wire.create_stream("S", "s.>", max_msgs=3)
    wire.publish((f"s.{n}", b"", b"x") for n in range(5))
    told = wire.api("STREAM.INFO.S")
    state = stream_state(link, "S")
    assert (state.first_seq, state.last_seq, state.messages) == (3, 5, 3)
    assert state.bytes == told["state"]["bytes"]
    assert state.subjects == ("s.>",)
    assert state.config["max_msgs"] == 3
    assert parse_time(told["created"]) == state.incarnation.created_ns
    assert state.first_ns == parse_time(told["state"]["first_ts"])
    assert state.last_ns == parse_time(told["state"]["last_ts"])
    assert abs(state.last_ns - time.time_ns()) < 60e9


def test_a_stream_without_messages_has_no_times(link, wire):
    wire.create_stream("S", "s")
    state = stream_state(link, "S")
    assert (state.first_ns, state.last_ns, state.messages, state.last_seq) == (0, 0, 0, 0)


def test_a_stream_made_again_is_another_incarnation(link, wire):
    wire.create_stream("S", "s")
    first = stream_state(link, "S").incarnation
    delete_stream(link, "S")
    wire.create_stream("S", "s")
    assert stream_state(link, "S").incarnation.created_ns > first.created_ns


def test_an_unknown_stream_is_told_with_near_names(link, wire):
    with pytest.raises(OperatorError, match="no stream LOG .*no streams at all"):
        stream_state(link, "LOG")
    for name in ("LOGS", "ORDERS"):
        wire.create_stream(name, name.lower())
    for ask in (stream_state, delete_stream, lambda link, name: first_seq_at(link, name, 0)):
        with pytest.raises(OperatorError, match="There is no stream LOG at .*There is LOGS and 1 more$") as caught:
            ask(link, "LOG")
        assert caught.value.exit_status == 2
    for number in range(5):
        wire.create_stream(f"x{number}", f"x.{number}")
    with pytest.raises(UnknownStream, match="There is LOGS, ORDERS, x0, x1, x2 and 2 more$"):
        stream_state(link, "%")


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ("logs.a", ["LOGS"]),
        ("logs.>", ["LOGS"]),
        (">", ["LOGS", "OTHER"]),
        ("a.b.x", ["OTHER"]),
        ("a.>", ["OTHER"]),
        ("*", ["OTHER"]),
        ("nobody", []),
    ],
)
def test_streams_listening(link, wire, subject, names):
    wire.create_stream("OTHER", "a.*.x", "b")
    wire.create_stream("LOGS", "logs.>")
    assert [s.name for s in streams_listening(link, subject)] == names
    assert stream_names(link, subject) == names


def test_listings_of_many_pages(link, wire):
    for n in range(300):
        wire.create_stream(f"S{n:03}", f"s.{n}", storage="memory")
    assert stream_names(link) == [f"S{n:03}" for n in range(300)]
    assert [s.name for s in streams_listening(link, "s.*")] == stream_names(link)


def test_create_stream_leaves_out_what_the_server_does_not_know(nats, link):
    config = {"name": "T", "subjects": ["t.>"], "storage": "file", "allow_batched": True, "compression": "s2"}
    state = create_stream(link, config)
    assert bool(state.config.get("allow_batched")) == (nats.version >= (2, 14))
    assert (state.config.get("compression") == "s2") == (nats.version >= (2, 10))
    assert create_stream(link, config).incarnation == state.incarnation


def test_create_stream_under_a_name_that_is_taken(link, wire):
    wire.create_stream("T", "t.>")
    with pytest.raises(OperatorError, match="T exists with another configuration"):
        create_stream(link, {"name": "T", "subjects": ["u"]})
    with pytest.raises(Refused, match="overlap"):
        create_stream(link, {"name": "U", "subjects": ["t.a"]})


def stored_times(wire):
    return {m.seq: parse_time(m.time) for m in wire.messages("S")}


def expected(times, time_ns, last):
    """The definition: the first message at or after the time, else one after the last."""
    return min((seq for seq, t in times.items() if t >= time_ns), default=last + 1)


def check_every_boundary(link, times, last):
    asked = [t + d for t in times.values() for d in (-1, 0, 1)] + [0, time.time_ns() + 10**15]
    assert [first_seq_at(link, "S", t) for t in asked] == [expected(times, t, last) for t in asked]


def test_first_seq_at_is_exact_to_the_nanosecond(link, wire):
    wire.create_stream("S", "s")
    assert first_seq_at(link, "S", time.time_ns()) == 1
    for _ in range(6):
        wire.publish([("s", b"", b"x")])
    check_every_boundary(link, stored_times(wire), 6)


@pytest.mark.parametrize("gone", [(3, 4), (1, 2), (5, 6), (2, 6), (1, 2, 3, 5, 6)])
def test_first_seq_at_where_messages_were_deleted(link, wire, gone):
    wire.create_stream("S", "s")
    for _ in range(6):
        wire.publish([("s", b"", b"x")])
    times = stored_times(wire)
    for seq in gone:
        wire.api("STREAM.MSG.DELETE.S", seq=seq)
        del times[seq]
    check_every_boundary(link, times, 6)


def test_first_seq_at_of_a_purged_stream(link, wire):
    wire.create_stream("S", "s")
    wire.publish([("s", b"", b"x")] * 3)
    wire.api("STREAM.PURGE.S")
    assert first_seq_at(link, "S", 0) == 4
    assert first_seq_at(link, "S", time.time_ns()) == 4


def test_first_seq_at_where_the_answer_to_its_deletion_is_lost(nats, wire, monkeypatch):
    """The request is sent again, and finds nothing to delete."""
    wire.create_stream("S", "s.>")
    wire.publish([("s.a", b"", b"x")] * 3)
    monkeypatch.setattr(api, "TIMEOUT_S", 0.2)
    dropped = []

    def lose(frame):
        if b"consumer_delete_response" in frame[1] and not dropped:
            dropped.append(frame)
            return None
        return frame

    with NatsProxy(nats.port) as proxy:
        proxy.from_server = lose
        with Link(replace(nats.options, servers=(proxy.url,))) as link:
            assert first_seq_at(link, "S", 0) == 1
    assert dropped


def test_first_seq_at_leaves_no_consumer(link, wire):
    wire.create_stream("S", "s")
    first_seq_at(link, "S", 0)
    assert wire.state("S")["consumer_count"] == 0


def test_message_from(link, wire):
    wire.create_stream("S", "s")
    wire.publish([("s", b"", b"x")] * 3)
    wire.api("STREAM.MSG.DELETE.S", seq=2)
    times = stored_times(wire)
    assert [message_from(link, "S", seq) for seq in (1, 2, 3, 4)] == [(1, times[1]), (3, times[3]), (3, times[3]), None]
    assert format_time(times[1]).startswith("20")


@pytest.mark.parametrize("subject", ["s", "s.>", "s.*.x"])
def test_it_waits_for_what_reached_the_stream(link, wire, subject):
    """Published without waiting for an answer: what is there right after is all there will be."""
    wire.create_stream("S", subject)
    to = subject.replace("*", "a").replace(">", "a")
    for turn in range(1, 6):

        async def burst(client):
            client.send(b"PUB %b 5\r\nhello\r\n" % to.encode() * 2000)
            await client.flush()

        link.call(burst)
        await_stored(link, "S")
        assert wire.state("S")["messages"] == 2000 * turn


def test_there_is_nothing_to_wait_for(link, wire):
    wire.create_stream("S", "s")
    await_stored(link, "S")
    assert wire.state("S")["last_seq"] == 0
    wire.api("STREAM.CREATE.M", name="M", mirror={"name": "S"}, storage="file")
    await_stored(link, "M")
    with pytest.raises(OperatorError):
        await_stored(link, "UNKNOWN")
