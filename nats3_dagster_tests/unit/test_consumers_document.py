"""The object that has a stream's consumers: what goes in comes out, and nothing else is taken for it."""

import json
from dataclasses import replace

import pytest
import zstandard

from nats3_dagster.chunks.consumers import ConsumersDocument, consumers_key, decode_consumers
from nats3_dagster.errors import ChunkError
from nats3_dagster.model.consumer import ConsumerPosition, Pair

ONE = ConsumerPosition(
    "app",
    {"durable_name": "app", "ack_policy": "explicit", "filter_subject": "größe.>"},
    Pair(21, 20),
    Pair(3, 3),
    {7: (21, 1_795_968_167_715_167_277), 10: (10, 5)},
    {7: 1},
)
HOUR = 1_795_968_000_000_000_000
DOCUMENT = ConsumersDocument("a", "EV", "team", 1_795_000_000_000_000_123, HOUR + 5, 20, (ONE,))


def encoded(fields: object) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(json.dumps(fields).encode())


def test_it_comes_back_and_its_key_says_what_it_is() -> None:
    data, key = DOCUMENT.encode()
    assert DOCUMENT.encode() == (data, key)
    assert decode_consumers(data, key) == DOCUMENT
    hour = DOCUMENT.hour
    assert key.startswith(f"team/archive=a/date={hour[:10]}/hour={hour[11:13]}/consumers-20261118T")
    assert consumers_key(key) == (hour, key.split("consumers-")[1][:25], HOUR + 5)
    later = replace(DOCUMENT, observed_ns=HOUR + 6).encode()[1]
    assert later > key
    assert consumers_key(key.replace("consumers-", "manifest-")) is None


def test_the_time_alone_is_no_other_content() -> None:
    assert replace(DOCUMENT, observed_ns=HOUR + 9, last_seq=99).content == DOCUMENT.content
    others = (
        replace(ONE, name="b"),
        replace(ONE, config={**ONE.config, "ack_wait": 1}),
        replace(ONE, delivered=Pair(22, 20)),
        replace(ONE, ack_floor=Pair(3, 4)),
        replace(ONE, pending={**ONE.pending, 11: (11, 1)}),
        replace(ONE, redelivered={7: 2}),
        replace(ONE, exact=False),
    )
    assert len({replace(DOCUMENT, consumers=(one,)).content for one in (ONE, *others)}) == 1 + len(others)


def test_what_is_not_such_an_object_is_refused() -> None:
    data, key = DOCUMENT.encode()
    fields = json.loads(zstandard.ZstdDecompressor().decompress(data))
    with pytest.raises(ChunkError, match="version 2.*Upgrade"):
        decode_consumers(encoded({**fields, "consumers_version": 2}), key)
    for wrong in (
        b"",
        b"x",
        data[:-1],
        encoded([]),
        encoded({**fields, "last_seq": "x"}),
        encoded({**fields, "last_seq": 21}),
    ):
        with pytest.raises(ChunkError, match="does not have the consumers of its key"):
            decode_consumers(wrong, key)


def test_a_position_in_a_part_of_the_stream() -> None:
    assert ONE.cut(1, 100, {7, 10}.__contains__) == ONE
    # What is not restored does not wait for an acknowledgement.
    cut = ONE.cut(1, 9, {7, 10}.__contains__)
    assert (cut.delivered, cut.ack_floor, list(cut.pending), dict(cut.redelivered)) == (
        Pair(21, 9),
        Pair(3, 3),
        [7],
        {7: 1},
    )
    assert list(ONE.cut(1, 100, {10}.__contains__).pending) == [10]
    # Without one the floor is where the deliveries are.
    cut = ONE.cut(1, 6, {7, 10}.__contains__)
    assert (cut.delivered, cut.ack_floor, dict(cut.pending), dict(cut.redelivered)) == (
        Pair(21, 6),
        Pair(21, 6),
        {},
        {},
    )
    # A stream that begins later: what is before it is done.
    cut = ONE.cut(30, 40, {7, 10}.__contains__)
    assert (cut.delivered.stream, cut.ack_floor.stream) == (29, 29)
