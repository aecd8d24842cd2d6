"""Reading: every message of a range, byte for byte and in order, whatever happens to the server meanwhile."""

import threading
import time
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest

from nats3_dagster.errors import OperatorError, SourceError, StreamChanged
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read import breaks, consumer, reader
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster_tests.conftest import freeze
from nats3_dagster_tests.support.wire import Wire

HARD = [
    ("s.a", b"", b""),
    ("s.a", b"NATS/1.0\r\n\r\n", b""),
    ("s.a", b"NATS/1.0\r\nStatus: 503\r\nDescription: Idle Heartbeat\r\n\r\n", b""),
    ("s.a", b"NATS/1.0\r\nStatus: 100\r\n\r\n", b"x"),
    ("s.a", b"NATS/1.0\r\nA: 1\r\na: 2\r\nA:1\r\nA:\r\nEmpty: \r\n\r\n", b"x"),
    ("s.a", b"NATS/1.0\r\nX: \xff\xfe\x80\r\n\xff: y\r\n\r\n", b"\xff\x00"),
    ("s.é.日本.💾", b"NATS/1.0\r\nBig: " + b"v" * 61_440 + b"\r\n\r\n", b"\r\n" * 300),
    ("s.MSG", b"", b"MSG s 1 $JS.ACK.S.c.1.1.1.1.0 3\r\nabc\r\n"),
    ("s." + "t" * 200, b"", bytes(range(256)) * 4096),  # as large as max_payload
]


@pytest.fixture
def wire(nats):
    with Wire(nats.url) as wire:
        wire.create_stream("S", "s.>")
        yield wire


def spec_of(server, seqs=None, **more):
    with Link(server.options) as link:
        state = stream_state(link, "S")
    return ReadSpec(state.incarnation, SeqRange(*seqs) if seqs else SeqRange(1, state.last_seq), **more)


def read(server, seqs=None, *, batch_rows=8192, **more):
    batches = list(read_batches(server.options, spec_of(server, seqs, **more), batch_rows=batch_rows))
    return pa.Table.from_batches(batches, schema=MESSAGES).to_pylist()


def seqs_of(rows):
    return [r["seq"] for r in rows]


def fill(wire, count, subjects=("s.a",)):
    wire.publish((subjects[n % len(subjects)], b"", b"%d" % n) for n in range(1, count + 1))


def test_messages_come_as_they_are_stored(nats, wire):
    wire.publish(HARD)
    rows = read(nats)
    assert [(r["subject"], r["headers"] or b"", r["data"]) for r in rows] == HARD
    assert [r["headers"] is None for r in rows] == [not headers for _, headers, _ in HARD]
    stored = [(m.seq, parse_time(m.time), m.subject, m.headers, m.data) for m in wire.messages("S")]
    assert [(*list(r.values())[:3], r["headers"] or b"", r["data"]) for r in rows] == stored


def test_many_batches_are_one_contiguous_range(nats, wire):
    fill(wire, 25_000)
    rows = read(nats, batch_rows=1000)
    assert seqs_of(rows) == list(range(1, 25_001))
    assert [r["data"] for r in rows] == [b"%d" % n for n in range(1, 25_001)]


@pytest.mark.parametrize("seqs", [(1, 1), (1, 10), (4, 6), (10, 10), (7, 100), (1, 10**12)])
def test_a_range_ends_where_it_ends(nats, wire, seqs):
    fill(wire, 10)
    assert seqs_of(read(nats, seqs)) == list(range(seqs[0], min(10, seqs[1]) + 1))


@pytest.mark.parametrize("seqs", [(11, 11), (11, 1000), (10**9, 10**10)])
def test_an_empty_range_ends_at_once(nats, wire, seqs):
    fill(wire, 10)
    began = time.monotonic()
    assert read(nats, seqs) == []
    assert time.monotonic() - began < 20


def test_a_stream_without_messages(nats, wire):
    assert read(nats, (1, 10)) == []


@pytest.mark.parametrize("seqs", [(1, 20), (4, 6), (5, 5), (1, 9), (6, 20), (20, 20)])
def test_deleted_messages_are_left_out(nats, wire, seqs):
    fill(wire, 20)
    gone = {1, 2, 5, 9, 10, 20}
    for seq in gone:
        wire.api("STREAM.MSG.DELETE.S", seq=seq)
    assert seqs_of(read(nats, seqs)) == [n for n in range(seqs[0], seqs[1] + 1) if n not in gone]


def test_a_range_before_the_stream_begins(nats, wire):
    fill(wire, 10)
    wire.api("STREAM.PURGE.S", seq=8)
    assert seqs_of(read(nats, (1, 5))) == []
    assert seqs_of(read(nats, (1, 9))) == [8, 9]


def test_messages_that_come_meanwhile_are_not_waited_for(nats, wire):
    fill(wire, 5000)
    spec = spec_of(nats)
    batches = read_batches(nats.options, spec, batch_rows=100)
    rows = next(batches).to_pylist()
    fill(wire, 1000)
    rows += [r for batch in batches for r in batch.to_pylist()]
    assert seqs_of(rows) == list(range(1, 5001))


def test_what_is_deleted_while_it_is_pending_is_not_waited_for_either(nats, wire, monkeypatch):
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 10)
    fill(wire, 1000)
    spec = spec_of(nats, (1, 10**6))
    monkeypatch.setattr(consumer, "ROOM_BYTES", 1)
    batches = read_batches(nats.options, spec, batch_rows=1)
    rows = next(batches).to_pylist()
    wire.api("STREAM.PURGE.S")
    rows += [r for batch in batches for r in batch.to_pylist()]
    assert 0 < len(rows) < 1000
    assert seqs_of(rows) == list(range(1, len(rows) + 1))


def test_a_batch_larger_than_the_room_for_it(nats, wire, monkeypatch):
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 10)
    monkeypatch.setattr(consumer, "ROOM_BYTES", 1)
    fill(wire, 500)
    assert seqs_of(read(nats, batch_rows=200)) == list(range(1, 501))


SUBJECTS = ("s.a", "s.b", "s.b.c", "s.d.e.f")


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (("s.>",), SUBJECTS),
        (("s.a",), ("s.a",)),
        (("s.*",), ("s.a", "s.b")),
        (("s.a", "s.b.c"), ("s.a", "s.b.c")),
        (("s.a", "s.*"), ("s.a", "s.b")),
        (("s.*", "s.b.>", "s.d.>"), SUBJECTS),
        (("s.b.*", "s.*.c"), ("s.b.c",)),
        ((">",), SUBJECTS),
        (("*.a", "nobody"), ("s.a",)),
        (("nobody",), ()),
    ],
)
def test_filters(nats, wire, filters, wanted):
    fill(wire, 100, SUBJECTS)
    rows = read(nats, subjects=filters)
    assert [(r["seq"], r["subject"]) for r in rows] == [
        (n, SUBJECTS[n % 4]) for n in range(1, 101) if SUBJECTS[n % 4] in wanted
    ]


def test_a_filter_with_a_syntax_error(nats, wire):
    with pytest.raises(OperatorError, match="not a subject filter"):
        read(nats, (1, 1), subjects=("s..a",))


def test_headers_only(nats, wire):
    wire.publish([("s.a", b"NATS/1.0\r\nA: 1\r\n\r\n", b"payload"), ("s.a", b"", b"payload")])
    rows = read(nats, headers_only=True)
    assert [r["data"] for r in rows] == [b"", b""]
    assert rows[0]["headers"].startswith(b"NATS/1.0\r\nA: 1\r\n")
    assert all(b"Nats-Msg-Size: 7" in r["headers"] for r in rows)


@pytest.mark.parametrize("ended", ["to its end", "early", "by an error"])
def test_the_consumer_is_deleted(nats, wire, ended):
    fill(wire, 5000)
    batches: Any = read_batches(nats.options, spec_of(nats), batch_rows=10)
    next(batches)
    assert wire.state("S")["consumer_count"] == 1
    if ended == "to its end":
        list(batches)
    elif ended == "early":
        batches.close()
    else:
        with pytest.raises(ZeroDivisionError):
            batches.throw(ZeroDivisionError())
    assert wire.state("S")["consumer_count"] == 0


def test_a_slow_caller_bounds_what_is_asked_for(nats, wire):
    """128 MiB in the stream; a caller that takes one batch and waits holds little more than the room it has."""
    wire.publish(("s.a", b"", b"x" * 65_536) for _ in range(2048))
    tracemalloc.start()
    batches = read_batches(nats.options, spec_of(nats))
    rows = next(batches).num_rows
    held = 0
    while held + 65_536 <= (held := tracemalloc.get_traced_memory()[0]):  # until no more messages come
        time.sleep(0.5)
    rows += sum(batch.num_rows for batch in batches)
    tracemalloc.stop()
    assert rows == 2048
    assert held < 56 << 20


# A stream that is not the one planned for


def test_another_incarnation(nats, wire):
    fill(wire, 10)
    spec = spec_of(nats)
    wire.api("STREAM.DELETE.S")
    wire.create_stream("S", "s.>")
    fill(wire, 10)
    with pytest.raises(StreamChanged, match="S was made again at"):
        list(read_batches(nats.options, spec))
    assert wire.state("S")["consumer_count"] == 0


@pytest.mark.parametrize("again", [False, True])
def test_deleted_in_the_middle(nats, wire, monkeypatch, again):
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 100)
    monkeypatch.setattr(consumer, "ROOM_BYTES", 1)
    fill(wire, 20_000)
    batches = read_batches(nats.options, spec_of(nats), batch_rows=10)
    next(batches)
    wire.api("STREAM.DELETE.S")
    if again:
        wire.create_stream("S", "s.>")
        fill(wire, 20_000)
    with pytest.raises(StreamChanged):
        list(batches)


def test_unknown(nats):
    with pytest.raises(StreamChanged, match="S was deleted"):
        list(read_batches(nats.options, ReadSpec(Incarnation("S", 1), SeqRange(1, 2))))


# Trouble in the middle


def broken_read(server, wire, trouble, rows_before=1, **patches):
    """All rows, with `trouble()` after the first batch; small requests, so that most is still to come then."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ({"PULL_MESSAGES": 500, "ROOM_BYTES": 1} | patches).items():
            patch.setattr(consumer, name, value)
        batches = read_batches(server.options, spec_of(server), batch_rows=100)
        rows = next(batches).to_pylist()
        trouble()
        for batch in batches:
            rows += batch.to_pylist()
    return rows


def whole(count):
    return [b"%d" % n for n in range(1, count + 1)]


def test_consumer_deleted_on_the_server(nats, wire):
    fill(wire, 10_000)

    def delete():
        for name in wire.api("CONSUMER.NAMES.S")["consumers"]:
            wire.api(f"CONSUMER.DELETE.S.{name}")

    assert [r["data"] for r in broken_read(nats, wire, delete)] == whole(10_000)
    assert wire.state("S")["consumer_count"] == 0


@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("away_s", [0, 1.5])
def test_server_restarted(own_nats, how, away_s):
    with Wire(own_nats.url) as wire:
        wire.create_stream("S", "s.>")
        fill(wire, 10_000)
        stored = wire.state("S")["bytes"]
    # An acknowledged message may still be the server's alone, and a kill -9 lose it.
    while sum(file.stat().st_size for file in own_nats.folder.rglob("*.blk")) < stored:
        time.sleep(0.01)

    def restart():
        getattr(own_nats, how)()
        threading.Timer(away_s, own_nats.start).start()

    rows = broken_read(own_nats, None, restart)
    assert [r["data"] for r in rows] == whole(10_000)


def test_server_frozen_for_a_while(own_nats):
    with Wire(own_nats.url) as wire:
        wire.create_stream("S", "s.>")
        fill(wire, 5_000)

    def freeze_for_a_while():
        freeze(own_nats)
        threading.Timer(1.5, own_nats.resume).start()

    assert [r["data"] for r in broken_read(own_nats, None, freeze_for_a_while)] == whole(5_000)


def test_server_gone_for_good(own_nats, monkeypatch):
    monkeypatch.setattr(reader, "AWAY_S", 0.5)
    with Wire(own_nats.url) as wire:
        wire.create_stream("S", "s.>")
        fill(wire, 5_000)
    began = time.monotonic()
    with pytest.raises(SourceError, match="Nothing listens for NATS"):
        broken_read(own_nats, None, own_nats.kill)
    assert time.monotonic() - began < 10


def test_a_read_that_breaks_off_again_and_again_is_an_error(nats, wire, monkeypatch):
    """Without a message in between: here a filter that the server takes, and a consumer that is always deleted."""
    fill(wire, 10)
    monkeypatch.setattr(breaks, "BREAKS", 2)

    def lost(self):
        self._finish(breaks.Lost("gone"))

    monkeypatch.setattr(consumer.RangeConsumer, "_pull", lost)
    with pytest.raises(SourceError, match="broke off 3 times at sequence 1: gone"):
        list(read_batches(nats.options, spec_of(nats)))
