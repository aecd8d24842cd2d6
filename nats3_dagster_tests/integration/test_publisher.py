"""Publishing: in order, byte for byte, every message acknowledged, and after trouble nothing more is sent."""

import base64
import json
import logging
import re
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from nats3_dagster.errors import Interrupted, SourceError, TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish import fence as fence_module
from nats3_dagster.jetstream.publish import probe
from nats3_dagster.jetstream.publish import publisher as publisher_module
from nats3_dagster.jetstream.publish.atomic import LINES_BYTES
from nats3_dagster.jetstream.publish.fence import PAUSE, fence_subject, raise_fence
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.model import Incarnation
from nats3_dagster.replay.messages.headers import original_headers, replay_headers
from nats3_dagster.steps import Next
from nats3_dagster_tests.conftest import freeze
from nats3_dagster_tests.support.wire import Wire

MODES = [
    "window",
    pytest.param("batch", marks=pytest.mark.needs_nats("2.14")),
    pytest.param("atomic", marks=pytest.mark.needs_nats("2.14")),
]
# The lines of an atomic batch in a stored header block.
BATCH_LINES = re.compile(rb"Nats-Batch-Id: [\w-]{7}\r\nNats-Batch-Sequence: \d+\r\n(Nats-Batch-Commit: 1\r\n)?")
HARD = [
    ("t.a", None, b""),
    ("t.a", b"NATS/1.0\r\n\r\n", b""),
    ("t.a", b"NATS/1.0\r\nStatus: 503\r\n\r\n", b"x"),
    ("t.a", b"NATS/1.0\r\nA: 1\r\na: 2\r\nA:1\r\nA:\r\nEmpty: \r\n\r\n", b"x"),
    ("t.a", b"NATS/1.0\r\nX: \xff\xfe\x80\r\n\xff: y\r\n\r\n", b"\xff\x00"),
    ("t.é.日本.💾", b"NATS/1.0\r\nBig: " + b"v" * 61_440 + b"\r\n\r\n", b"\r\n" * 300),
    ("t.a", None, b"PUB t.b 3\r\nabc\r\n"),
    ("t." + "t" * 200, None, bytes(range(256)) * 4096),  # as large as max_payload
]
_TRACEPARENT = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
# With these values a server refuses the message, drops it, or stores other headers.
ACTING = [
    ["Nats-Expected-Last-Sequence: 99"],
    ["Nats-Expected-Stream: OTHER"],
    ["Nats-Rollup: all"],
    ["Nats-TTL: 1s"],
    ["Nats-Schedule: @every 1s", "Nats-Schedule-Target: t.b"],
    ["Nats-Scheduler: t.b", "Nats-Schedule-Next: purge"],
    ["Nats-Batch-Id: b", "Nats-Batch-Sequence: 7"],
    ["Nats-Incr: +1"],
    ["Nats-Stream-Source: A 1 > > a.b"],
    ["Nats-Required-Api-Level: 1"],
    ["Nats-Required-Api-Level: 99"],
    ["Nats-Trace-Dest: t.traces"],
    ["Nats-Trace-Dest: traces", "Nats-Trace-Only: true"],
    [_TRACEPARENT, "Nats-Trace-Origin-Account: X", "Nats-Trace-Hop: 1"],
    ['Nats-Request-Info: {"acc":"X"}'],
    # A server stores these as they are.
    ["Nats-Marker-Reason: MaxAge", "KV-Operation: PURGE"],
    ["Nats-Stream: S", "Nats-Subject: s", "Nats-Sequence: 4", "Nats-Last-Sequence: 3", "Nats-Msg-Size: 9"],
    ['Nats-Counter-Sources: {"S":{"s":"1"}}'],
    [_TRACEPARENT],
]


@pytest.fixture
def wire(nats):
    with Wire(nats.url) as wire:
        make(nats, wire)
        yield wire


def make(server, wire, name="T", subject="t.>", **more):
    batched = {"allow_batched": True, "allow_atomic": True} if server.version >= (2, 14) else {}
    wire.create_stream(name, subject, **batched, **more)


def arrays(rows):
    subjects, headers, data = zip(*rows, strict=True)
    return pa.array(subjects, pa.string()), pa.array(headers, pa.binary()), pa.array(data, pa.binary())


def numbered(count, first=0, subject="t.a"):
    return arrays([(subject, None, b"%d" % n) for n in range(first, first + count)])


def with_ids(count, name="id"):
    return arrays([("t.a", b"NATS/1.0\r\nNats-Msg-Id: %b:%d\r\n\r\n" % (name.encode(), n), b"x") for n in range(count)])


def stored(wire, stream="T"):
    """What was given: without the lines of an atomic batch, which a message without headers has too."""
    messages = [(m, BATCH_LINES.sub(b"", m.headers, count=1)) for m in wire.messages(stream)]
    bare = b"NATS/1.0\r\n\r\n"
    return [(m.subject, None if h != m.headers and h == bare else h or None, m.data) for m, h in messages]


def number_at(wire, seq):
    """The payload of `numbered` at this sequence."""
    return int(base64.b64decode(wire.api("STREAM.MSG.GET.T", seq=seq)["message"]["data"]))


def is_a_beginning(rows, count):
    return [r[2] for r in rows] == [b"%d" % n for n in range(count)]


@pytest.mark.parametrize("mode", MODES)
def test_messages_are_stored_as_they_are(nats, wire, mode):
    hard = HARD
    if mode == "atomic":  # the lines of the batch need room, and make a block of no block and of an empty one
        subject, block, data = HARD[-1]
        hard = [HARD[0], *HARD[2:-1], (subject, block, data[:-85])]
    with Publisher(nats.options, mode=mode) as publisher:
        publisher.publish(*arrays(hard))
        publisher.flush()
        assert publisher.published == len(hard)
    assert stored(wire) == hard


def replayed(blocks):
    seqs = pa.array(range(1, len(blocks) + 1), pa.int64())
    life = Incarnation("S", 1_700_000_000_000_000_000)
    return replay_headers(pa.array(blocks), "00ff00ff00ff00ff", life, seqs, seqs, with_ids=False)


@pytest.mark.parametrize("mode", MODES)
def test_a_replayed_header_does_not_act(nats, wire, mode):
    expected = []
    for lines in ACTING:
        block = "\r\n".join(["NATS/1.0", "A: 1", *lines, "Z: 2", "\r\n"]).encode()
        sent = replayed([block, block])
        with Publisher(nats.options, mode=mode) as publisher:
            publisher.publish(pa.array(["t.a", "t.a"]), sent, pa.array([b"x", b"y"]))
        expected += [("t.a", header, data) for header, data in zip(sent.to_pylist(), (b"x", b"y"), strict=True)]
        assert stored(wire) == expected, lines
        assert original_headers(sent).to_pylist() == [block, block]


@pytest.mark.parametrize("mode", MODES)
def test_many_batches_and_flushes_keep_their_order(nats, wire, mode):
    sizes = [1, 2, 499, 500, 501, 1, 3000, 20_000, 1]
    given = 0
    with Publisher(nats.options, mode=mode, inflight_messages=2000) as publisher:
        for at, size in enumerate(sizes):
            publisher.publish(*numbered(size, given))
            given += size
            if at % 2:
                publisher.flush()
                assert publisher.published == given
                assert wire.state("T")["messages"] == given
    assert wire.state("T")["messages"] == given
    for seq in (1, 2, 3, 502, 503, 1004, 1503, 1504, 4504, 4505, given):
        assert number_at(wire, seq) == seq - 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [{"inflight_messages": 1}, {"inflight_bytes": 1}, {"inflight_bytes": 5000}])
def test_a_small_window(nats, wire, mode, limit):
    with Publisher(nats.options, mode=mode, **limit) as publisher:
        publisher.publish(*numbered(200))
    assert is_a_beginning(stored(wire), 200)


@pytest.mark.parametrize("mode", MODES)
def test_messages_that_grow_beyond_the_window(nats, wire, mode):
    """The server acknowledges a batch in groups, and a group of large messages would never fit."""
    rows = [("t.a", None, b"x" * size) for size in [10] * 600 + [70_000] * 40 + [10] * 600 + [300_000] * 3]
    with Publisher(nats.options, mode=mode, inflight_bytes=100_000) as publisher:
        for at in range(0, len(rows), 100):
            publisher.publish(*arrays(rows[at : at + 100]))
    assert [len(r[2]) for r in stored(wire)] == [len(r[2]) for r in rows]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_at_all(nats, wire, mode):
    with Publisher(nats.options, mode=mode) as publisher:
        publisher.flush()
        publisher.publish(*(a.slice(0, 0) for a in numbered(1)))
        publisher.flush()
        assert publisher.published == 0


@pytest.mark.parametrize("mode", MODES)
def test_headers_may_be_left_out_and_arrays_chunked(nats, wire, mode):
    subjects, _, data = (pa.chunked_array([a, a]) for a in numbered(2))
    with Publisher(nats.options, mode=mode) as publisher:
        publisher.publish(subjects, None, data)
    assert [r[2] for r in stored(wire)] == [b"0", b"1", b"0", b"1"]


def test_duplicates_are_counted(nats, wire):
    with Publisher(nats.options) as publisher:
        publisher.publish(*with_ids(300))
        publisher.flush()
        assert publisher.duplicates == 0
        publisher.publish(*with_ids(500))
        publisher.flush()
        assert (publisher.published, publisher.duplicates) == (800, 300)
    assert wire.state("T")["messages"] == 500


# What a target refuses


@pytest.mark.parametrize("mode", MODES)
def test_no_stream_listens(nats, wire, mode):
    with (
        pytest.raises(TargetError, match="No stream listens on nobody.here") as caught,
        Publisher(nats.options, mode=mode) as publisher,
    ):
        publisher.publish(*numbered(10, subject="nobody.here"))
    assert not isinstance(caught.value, Interrupted)
    assert caught.value.hint == Next.CREATE_TARGET_FIRST()


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_that_takes_no_more(nats, wire, mode):
    make(nats, wire, "F", "f", max_msgs=50, discard="new")
    with (
        pytest.raises(TargetError, match="refused a message on f: maximum messages exceeded") as caught,
        Publisher(nats.options, mode=mode) as publisher,
    ):
        publisher.publish(*numbered(2000, subject="f"))
    assert not isinstance(caught.value, Interrupted)
    # Of an atomic batch nothing is stored.
    assert is_a_beginning(stored(wire, "F"), 0 if mode == "atomic" else 50)


@pytest.mark.needs_nats("2.14")
def test_a_stream_that_takes_no_batches(nats, wire):
    wire.create_stream("N", "n")
    with (
        pytest.raises(TargetError, match="refused a message on n: batch publish is disabled"),
        Publisher(nats.options, mode="batch") as publisher,
    ):
        publisher.publish(*numbered(10, subject="n"))
    assert wire.state("N")["messages"] == 0


@pytest.mark.needs_nats("2.14")
def test_a_stream_that_takes_no_atomic_batches_may_be_published_to_another_way(nats, wire):
    wire.create_stream("N", "n")
    with (
        pytest.raises(Interrupted, match="refused a message on n: atomic publish is disabled"),
        Publisher(nats.options, mode="atomic") as publisher,
    ):
        publisher.publish(*numbered(10, subject="n"))
    assert wire.state("N")["messages"] == 0


@pytest.mark.needs_nats("2.14")
@pytest.mark.parametrize("block", [None, b"NATS/1.0\r\nA: 1\r\n\r\n"])
def test_a_message_without_room_for_the_lines_of_an_atomic_batch(nats, wire, block):
    """The plan of a replay has counted them."""
    room = (1 << 20) - len(block or b"NATS/1.0\r\n\r\n") - LINES_BYTES
    with Publisher(nats.options, mode="atomic") as publisher:
        publisher.publish(*arrays([("t.a", block, b"x" * room)] * 2))
        publisher.flush()
        with pytest.raises(TargetError, match="has 1048577 bytes with its headers"):
            publisher.publish(*arrays([("t.a", block, b"x" * (room + 1))]))
    assert wire.state("T")["messages"] == 2


@pytest.mark.needs_nats("2.14")
def test_an_atomic_batch_with_a_message_that_is_known_is_refused_as_a_whole(nats, wire):
    wire.publish([("t.a", b"NATS/1.0\r\nNats-Msg-Id: id:7\r\n\r\n", b"x")])
    with (
        pytest.raises(Interrupted, match="contains duplicate message id"),
        Publisher(nats.options, mode="atomic", streams=["T"]) as publisher,
    ):
        publisher.publish(*with_ids(10))
    assert wire.state("T")["messages"] == 1


@pytest.mark.needs_nats("2.14")
@pytest.mark.parametrize("line", [b"Nats-TTL: 1h", b"Nats-Rollup: sub"])
def test_headers_that_act_in_an_atomic_batch(nats, wire, line):
    """Why a live replay sends none."""
    wire.create_stream("L", "l", allow_atomic=True, allow_rollup_hdrs=True, allow_msg_ttl=True)
    messages = arrays([("l", b"NATS/1.0\r\nA: 1\r\n\r\n", b"1"), ("l", b"NATS/1.0\r\n%b\r\n\r\n" % line, b"2")])
    if line == b"Nats-TTL: 1h":
        with Publisher(nats.options, mode="atomic") as publisher:
            publisher.publish(*messages)
    else:
        with (
            pytest.raises(TargetError, match="batch rollup sub invalid"),
            Publisher(nats.options, mode="atomic") as publisher,
        ):
            publisher.publish(*messages)
    assert wire.state("L")["messages"] == (2 if line == b"Nats-TTL: 1h" else 0)


@pytest.mark.needs_nats("2.14")
@pytest.mark.parametrize("most", [1000, 100])
def test_a_server_that_takes_smaller_atomic_batches(nats_factory, tmp_path, most):
    """One message more is refused as a whole, and may be sent again in batches that are smaller."""
    folder = tmp_path / "small"
    limits = "" if most == 1000 else f"limits {{ batch {{ max_msgs: {most} }} }}"
    server = nats_factory(config=f'jetstream {{ store_dir: "{folder}", {limits} }}')
    with Wire(server.url) as wire:
        make(server, wire)
        if most < 1000:
            with (
                pytest.raises(Interrupted, match="batch is too large"),
                Publisher(server.options, mode="atomic", inflight_messages=2 * most + 2) as publisher,
            ):
                publisher.publish(*numbered(most + 1))
            assert wire.state("T")["messages"] == 0
        with Publisher(
            server.options, mode="atomic", inflight_messages=4 * most if most == 1000 else most
        ) as publisher:
            publisher.publish(*numbered(2 * most + 1))
        assert is_a_beginning(stored(wire), 2 * most + 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("t.a", None, b"x" * (1 << 20) + b"x"), "has 1048(577|662) bytes .* max_payload is 1048576"),
        (("t.a", b"NATS/1.0\r\n\r\n", b"x" * (1 << 20)), "has 1048(588|661) bytes"),
        (("t.a\r\nPUB t.b 1", None, b"x"), "not a subject that can be published to"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_of_its_batch_is(nats, wire, mode, row, told):
    with pytest.raises(TargetError, match=told), Publisher(nats.options, mode=mode) as publisher:
        publisher.publish(*arrays([("t.a", None, b"fine"), row]))
    assert stored(wire) == []


def test_a_message_that_is_acknowledged_twice_is_an_error(nats, wire, link):
    """As by two streams of two accounts that share a subject; here by an echo of the stream's answer."""

    async def echo(client):
        async def answer(message):
            await client.publish(message.reply, b'{"stream":"OTHER","seq":1}')

        await client.subscribe("t.>", cb=answer)
        await client.flush()

    link.call(echo)
    with (
        pytest.raises(TargetError, match="was acknowledged twice"),
        Publisher(nats.options) as publisher,
    ):
        for _ in range(50):
            publisher.publish(*numbered(50))
            publisher.wait(0.01)


# Trouble


def publish_until(publisher, happened):
    """Batch after batch until `happened` says that it is enough; numbers go on. How many were given."""
    given = 0
    while not happened():
        publisher.publish(*numbered(500, given))
        given += 500
    return given


def trouble_while_publishing(server, mode, trouble, after=3000, **more):
    """Publish without end; after that many acknowledged messages let trouble happen. What it raised, and how many
    messages it says were acknowledged."""
    happening = None
    publisher = Publisher(server.options, mode=mode, **more)
    with pytest.raises(TargetError) as caught, publisher:

        def happened():
            nonlocal happening
            if happening is None and publisher.published >= after:
                happening = threading.Thread(target=trouble)
                happening.start()
            return False

        publish_until(publisher, happened)
    assert happening
    happening.join()
    return caught.value, publisher.published


@pytest.mark.parametrize("mode", MODES)
def test_server_killed(own_nats, mode):
    with Wire(own_nats.url) as wire:
        make(own_nats, wire)
    error, acknowledged = trouble_while_publishing(own_nats, mode, own_nats.kill)
    assert isinstance(error, Interrupted)
    assert f"at least {acknowledged} messages were stored" in str(error)
    own_nats.start()
    with Wire(own_nats.url) as wire:
        # kill -9 of the server may lose what its operating system had not yet written, never the order.
        assert is_a_beginning(stored(wire)[:2000], 2000)


@pytest.mark.parametrize("mode", MODES)
def test_server_frozen(own_nats, mode):
    """What was on its way is stored before the publisher ends: whoever asks then is not overtaken by it."""
    with Wire(own_nats.url) as wire:
        make(own_nats, wire)

    def freeze_for_a_while():
        freeze(own_nats)
        time.sleep(2.5)
        own_nats.resume()

    began = time.monotonic()
    error, acknowledged = trouble_while_publishing(own_nats, mode, freeze_for_a_while, ack_timeout_s=1)
    with Wire(own_nats.url) as wire:
        count = wire.state("T")["messages"]
        assert time.monotonic() - began < 30
        assert isinstance(error, Interrupted)
        assert "did not acknowledge" in str(error)
        assert count >= acknowledged
        assert number_at(wire, count) == count - 1
        assert wire.quiet("T", 0.5) == count


@pytest.mark.parametrize("mode", MODES)
def test_server_frozen_for_too_long(own_nats, mode, monkeypatch):
    """Then it is no Interrupted, after which the caller would ask the target and go on."""
    monkeypatch.setattr(publisher_module, "UNTIL_QUIET_S", 1)
    with Wire(own_nats.url) as wire:
        make(own_nats, wire)
    options = replace(own_nats.options, connect_timeout_s=0.5)
    try:
        with (
            pytest.raises(TargetError, match="cannot be known") as caught,
            Publisher(options, mode=mode, ack_timeout_s=1) as publisher,
        ):
            publisher.publish(*numbered(1))
            publisher.flush()
            freeze(own_nats)
            publisher.publish(*numbered(1))
            publisher.flush()
        assert not isinstance(caught.value, Interrupted)
    finally:
        own_nats.resume()


@pytest.mark.parametrize("mode", MODES)
def test_stream_deleted_in_the_middle(nats, wire, mode):
    """No Interrupted: there is no target to ask. So too where nobody says no, because all that was under way came to
    the stream before its end."""
    error, acknowledged = trouble_while_publishing(nats, mode, lambda: wire.api("STREAM.DELETE.T"), ack_timeout_s=2)
    assert str(error).startswith("No stream listens on t.a")
    assert not isinstance(error, Interrupted)
    assert "deleted while messages were published" in str(error.hint)
    assert acknowledged >= 3000


@pytest.mark.parametrize("mode", MODES)
def test_after_a_failure_every_call_raises_and_nothing_is_sent(nats, wire, mode):
    with pytest.raises(TargetError), Publisher(nats.options, mode=mode) as publisher:
        publisher.publish(*numbered(1, subject="nobody"))
        for call in (
            publisher.flush,
            lambda: publisher.publish(*numbered(10)),
            lambda: publisher.wait(5),
            publisher.flush,
        ):
            with pytest.raises(TargetError, match="No stream listens on nobody"):
                call()
        publisher.flush()
    assert wire.state("T")["messages"] == 0


def test_server_down(own_nats):
    own_nats.kill()
    with pytest.raises(SourceError, match="Nothing listens"), Publisher(own_nats.options):
        pass


def test_nothing_is_logged(own_nats, caplog):
    caplog.set_level(logging.INFO)
    with Wire(own_nats.url) as wire:
        make(own_nats, wire)
    trouble_while_publishing(own_nats, "window", own_nats.kill)
    assert caplog.records == []


# Waiting


@pytest.mark.parametrize("mode", MODES)
def test_wait_sleeps(nats, wire, mode):
    with Publisher(nats.options, mode=mode) as publisher:
        publisher.publish(*numbered(10))
        began = time.monotonic()
        publisher.wait(0.3)
        assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("mode", MODES)
def test_wait_ends_when_the_connection_is_lost(own_nats, mode):
    with Wire(own_nats.url) as wire:
        make(own_nats, wire)
    threading.Timer(0.3, own_nats.kill).start()
    began = time.monotonic()
    with pytest.raises(Interrupted), Publisher(own_nats.options, mode=mode) as publisher:
        publisher.publish(*numbered(10))
        publisher.wait(20)
    assert time.monotonic() - began < 15


@pytest.mark.needs_nats("2.14")
def test_a_batch_outlives_a_slow_pace(nats, wire):
    """The server forgets a batch after 10 s of silence, and acknowledges a small one only at its end."""
    with Publisher(nats.options, mode="batch", ack_timeout_s=2) as publisher:
        publisher.publish(*numbered(3))
        publisher.wait(11)
        publisher.publish(*numbered(3, 3))
        publisher.flush()
        assert publisher.published == 6
    assert is_a_beginning(stored(wire), 6)


@pytest.mark.parametrize("mode", MODES)
def test_at_a_slow_pace_it_knows_what_is_published(nats, wire, mode):
    with Publisher(nats.options, mode=mode) as publisher:
        for n in range(20):
            publisher.publish(*numbered(5, 5 * n))
            publisher.pause(0.05)
            if n % 10 == 9:
                # No group of a batch is full.
                assert publisher.published >= 5 * (n - 6)
        publisher.pause(0.5)
        assert publisher.published == 100
    assert is_a_beginning(stored(wire), 100)


# The fence


def test_a_fence_where_nobody_publishes_is_instant(link):
    began = time.monotonic()
    raise_fence(link, "r", 2)
    assert time.monotonic() - began < 8  # who waits for an answer asks for 10 s


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attempt", [2, PAUSE])
def test_older_attempts_stop(nats, wire, link, mode, attempt):
    errors = []

    def publish():
        try:
            with Publisher(nats.options, mode=mode, fence=("r", 1)) as publisher:
                running.release()
                publish_until(publisher, lambda: False)
        except TargetError as error:
            errors.append(error)

    running = threading.Semaphore(0)
    threads = [threading.Thread(target=publish) for _ in range(2)]
    for thread in threads:
        thread.start()
        running.acquire()
    while wire.state("T")["messages"] < 1000:
        time.sleep(0.01)
    raise_fence(link, "r", attempt)
    when_raised = wire.state("T")["last_seq"]
    for thread in threads:
        thread.join()
    assert wire.state("T")["last_seq"] == when_raised
    told = "paused" if attempt == PAUSE else "Attempt 2 of replay r took over"
    assert [told in str(e) and not isinstance(e, Interrupted) for e in errors] == [True, True]


def test_wait_ends_when_a_newer_attempt_takes_over(nats, wire, link):
    newer = threading.Timer(0.3, lambda: raise_fence(link, "r", 2))
    newer.start()
    began = time.monotonic()
    with pytest.raises(TargetError, match="took over"), Publisher(nats.options, fence=("r", 1)) as publisher:
        publisher.wait(20)
    assert time.monotonic() - began < 15
    newer.join()


def test_a_fence_of_the_same_attempt_or_another_replay_stops_nobody(nats, wire, link):
    with Publisher(nats.options, fence=("r", 2)) as publisher, Publisher(nats.options, fence=("r", 2)) as sibling:
        raise_fence(link, "other", 9)
        for each in (publisher, sibling):
            each.publish(*numbered(10))
            each.flush()


def test_an_older_attempt_that_comes_back_is_refused(nats, wire, link):
    with Publisher(nats.options, fence=("r", 2)):
        told = "Attempt 2 of replay r took over"
        with pytest.raises(TargetError, match=told), Publisher(nats.options, fence=("r", 1)):
            pass
        with pytest.raises(TargetError, match=told):
            raise_fence(link, "r", 1)


def test_an_older_attempt_that_came_back_unseen_makes_the_newer_one_ask_again(nats, wire):
    with (
        pytest.raises(TargetError, match="Attempt 2 of replay r took over"),
        Publisher(nats.options, fence=("r", 1)) as older,
    ):
        with pytest.raises(Interrupted, match="was still publishing"), Publisher(nats.options, fence=("r", 2)):
            pass
        older.wait(5)
    with Publisher(nats.options, fence=("r", 2)) as publisher:
        publisher.publish(*numbered(1))


def test_a_publisher_that_ends_just_when_another_says_hello(nats, wire, link):
    """It may end without an answer, and the next question finds nobody."""
    stop = link.subscribe(fence_subject("r"), lambda data: threading.Timer(0.1, lambda: stop()).start())
    began = time.monotonic()
    with Publisher(nats.options, fence=("r", 1)) as publisher:
        publisher.publish(*numbered(1))
    assert time.monotonic() - began < 8  # as above


def test_an_older_attempt_that_hangs_is_told(nats, link):
    """Somebody listens and never answers."""
    stop = link.subscribe(fence_subject("r"), lambda data: None)
    began = time.monotonic()
    with pytest.raises(TargetError, match="still publishing"):
        raise_fence(link, "r", 2, timeout_s=1)
    assert time.monotonic() - began < 8
    stop()
    raise_fence(link, "r", 2)


# Others that listen to everything, and users that may not do everything


@pytest.fixture
def overheard(nats, link, monkeypatch):
    """Somebody listens to everything, and answers everything with what it was asked."""
    monkeypatch.setattr(fence_module, "SILENCE_S", 0.8)

    async def listen(client):
        async def echo(message):
            if message.reply.startswith("_INBOX"):
                await client.publish(message.reply, message.data)

        await client.subscribe("_NATS3.>", cb=echo)
        await client.subscribe(">", cb=nothing)
        await client.flush()

    async def nothing(message):
        pass

    with Link(nats.options) as other:
        other.call(listen)
        yield


@pytest.mark.parametrize("mode", MODES)
def test_somebody_who_listens_to_everything_is_no_publisher(nats, wire, link, overheard, mode):
    raise_fence(link, "r", 2)
    with Publisher(nats.options, mode=mode, fence=("r", 2)) as publisher:
        publisher.publish(*numbered(100))
    assert is_a_beginning(stored(wire), 100)


def test_an_older_attempt_is_stopped_whoever_listens(nats, wire, link, overheard):
    when_raised = []
    with (
        pytest.raises(TargetError, match="Attempt 2 of replay r took over"),
        Publisher(nats.options, fence=("r", 1)) as older,
    ):
        publish_until(older, lambda: older.published > 1000)
        raise_fence(link, "r", 2)
        when_raised.append(wire.state("T")["last_seq"])
        older.wait(5)
    assert [wire.state("T")["last_seq"]] == when_raised


def test_a_connection_that_was_given_up_is_gone_whoever_listens(link, nats, monkeypatch):
    inbox = link.client.new_inbox()
    with Link(nats.options) as other:
        stop = other.subscribe(f"{inbox}.>", lambda data: None)
        with pytest.raises(Interrupted, match="still holds a connection"):
            link.call(fence_module.until_gone, inbox, time.monotonic() + 0.5)
        other.subscribe(">", lambda data: None)
        stop()
        link.call(fence_module.until_gone, inbox, time.monotonic() + 5)


def test_a_publisher_that_stood_still_sends_no_more(nats, wire):
    """Its fence may have been raised by somebody who took its silence for an end."""
    with pytest.raises(Interrupted, match="stood still for 1. s"), Publisher(nats.options, fence=("r", 1)) as publisher:
        publisher.publish(*numbered(10))
        publisher.flush()
        publisher._outbox._alive_at -= 10
        publisher.publish(*numbered(10))
        publisher.flush()
    assert wire.state("T")["messages"] == 10


@pytest.mark.parametrize(
    ("denied", "message"),
    [
        ({"subscribe": ["_NATS3.>"]}, "does not let this user subscribe to _NATS3.replay.r.fence. .* to _NATS3.>"),
        ({"publish": ["_NATS3.>"]}, "does not let this user publish to _NATS3.replay.r.fence. .* to _NATS3.>"),
        ({"publish": ["_INBOX.>"]}, "does not let this user publish to _INBOX.*Permit the user to publish to _INBOX.>"),
        ({"publish": ["t.No"]}, "does not let this user publish to t.No; .* Permit the user to publish to t.No"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_what_this_user_may_not_do_is_an_error_at_once(nats_factory, denied, message, mode):
    denials = " ".join(f"{what} {{ deny: {json.dumps(subjects)} }}" for what, subjects in denied.items())
    users = f"{{user: all, password: x}}, {{user: some, password: x, permissions {{ {denials} }} }}"
    server = nats_factory(config=f"authorization {{ users: [{users}] }}")
    with Wire(server.url, user="all", **{"pass": "x"}) as wire:
        make(server, wire)
        began = time.monotonic()
        options = replace(server.options, user="some", password="x")
        publisher = Publisher(options, mode=mode, fence=("r", 1))
        with pytest.raises(TargetError, match=message) as caught, publisher:
            publisher.publish(*numbered(10))
            publisher.publish(*numbered(10, subject="t.No"))
            publisher.flush()
        assert not isinstance(caught.value, Interrupted)
        assert time.monotonic() - began < 20
        if "t.No" in message:
            with Link(options) as link, pytest.raises(TargetError, match="Permit the user to publish to t.No"):
                link.call(probe.until_stored, "t.No", time.monotonic() + 5)
            assert wire.quiet("T", 0.2) == 10
