"""Streams with a past hold exactly what was asked for."""

import asyncio
import base64
import json
import random

import nats as nats_py
import pytest

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import EngineError, OperatorError, SourceError
from nats3_dagster.hours import HOUR_NS, parse_time

START = parse_time("2026-11-19T07:00:00Z")
ODD_HEADERS = b"NATS/1.0\r\nA: 1\r\na:2\r\nA: 1\r\nStatus: 503\r\nEmpty:\r\nBytes: \xff\xfe\x00\r\n\r\n"


def _past(count):
    """Messages over 48 hours, every third sequence missing, with headers that no client would keep."""
    chance = random.Random(7)
    for n in range(count):
        yield Past(
            5 + n + n // 2,
            START + n * 48 * HOUR_NS // count + chance.randrange(1000),
            f"logs.p{n % 4}.host",
            ODD_HEADERS if n % 3 else b"",
            chance.randbytes(n % 300),
        )


def _stored(url, stream, seqs):
    """What the server says it holds, byte for byte, as (seq, RFC 3339 time, subject, headers, data)."""

    async def read():
        client = await nats_py.connect(url)
        found = []
        for seq in seqs:
            said = (await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", b'{"seq": %d}' % seq)).data
            message = json.loads(said)["message"]
            found.append(
                Past(
                    message["seq"],
                    parse_time(message["time"]),
                    message["subject"],
                    base64.b64decode(message.get("hdrs", "")),
                    base64.b64decode(message.get("data", "")),
                )
            )
        await client.close()
        return found

    return asyncio.run(read())


@pytest.mark.needs_nats("2.15")
def test_a_stream_with_a_past_holds_what_was_asked_for(nats):
    asked = list(_past(3000))
    state = restore_stream(nats.options, "LOGS", ["logs.>"], asked, max_age=0)
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (3000, 5, asked[-1].seq)
    assert state["num_deleted"] == asked[-1].seq - 5 + 1 - 3000
    chosen = asked[::97] + asked[-1:]
    assert _stored(nats.url, "LOGS", [m.seq for m in chosen]) == chosen


@pytest.mark.needs_nats("2.15")
def test_many_messages_are_quick_and_the_stream_takes_more(nats):
    state = restore_stream(nats.url, "MANY", ["logs.>"], (m._replace(data=b"x" * 200) for m in _past(60_000)))
    assert state["messages"] == 60_000

    async def publish():
        client = await nats_py.connect(nats.url)
        ack = await client.jetstream().publish("logs.p0.host", b"now")
        await client.close()
        return ack.seq

    assert asyncio.run(publish()) == state["last_seq"] + 1


@pytest.mark.needs_nats("2.15")
def test_a_name_that_is_taken_is_refused(nats):
    restore_stream(nats.url, "LOGS", ["logs.>"], _past(3))
    with pytest.raises(SourceError, match=r"already in use"):
        restore_stream(nats.url, "LOGS", ["logs.>"], _past(3))


def test_messages_out_of_order_are_refused(nats):
    first, second = _past(2)
    with pytest.raises(OperatorError, match="Sequence 5 does not come after 6"):
        restore_stream(nats.url, "LOGS", ["logs.>"], [second, first])
    with pytest.raises(OperatorError, match="needs a message"):
        restore_stream(nats.url, "LOGS", ["logs.>"], [])


def test_an_older_server_is_named_and_keeps_nothing(nats):
    if nats.version >= (2, 15):
        pytest.skip("this server can")
    with pytest.raises(EngineError, match=r"cannot restore a past\. Set NATS_SERVER to one from 2\.15"):
        restore_stream(nats.url, "LOGS", ["logs.>"], _past(3))
