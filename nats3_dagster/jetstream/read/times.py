"""Times of a stream: the sequence at which a time begins. Times come from the server and are exact."""

import asyncio
import secrets
from collections.abc import Sequence

from nats3_dagster.hours import SECOND_NS, format_time
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import next_message
from nats3_dagster.jetstream.streams import request_of_stream, stream_info

# Questions that are under way at a time: a server makes a consumer for each.
AT_ONCE = 16


def first_seq_at(link: Link, stream: str, time_ns: int) -> int:
    """The first sequence stored at `time_ns` or later; the last one plus 1 when there is none."""
    return link.call(_first_seq_at, stream, time_ns)


def first_seqs_at(link: Link, stream: str, times_ns: Sequence[int]) -> list[int]:
    """`first_seq_at` of each of these times, AT_ONCE of them asked at a time; one after another where the stream or the
    account may have only a few consumers."""
    try:
        return link.call(_first_seqs_at, stream, times_ns, AT_ONCE)
    except Refused:
        return link.call(_first_seqs_at, stream, times_ns, 1)


def first_held_at(link: Link, stream: str, time_ns: int) -> int:
    """The first sequence that the stream holds and that was stored at `time_ns` or later; the last one plus 1 when
    there is none. Unlike `first_seq_at` it makes no consumer, which a work queue would refuse: about 20 requests."""
    return link.call(_first_held_at, stream, time_ns, 1)


async def _first_seqs_at(client: Connection, stream: str, times_ns: Sequence[int], at_once: int) -> list[int]:
    room = asyncio.Semaphore(at_once)

    async def one(time_ns: int) -> int:
        async with room:
            return await _first_seq_at(client, stream, time_ns)

    asking = [asyncio.ensure_future(one(time_ns)) for time_ns in times_ns]
    try:
        return list(await asyncio.gather(*asking))
    finally:
        for question in asking:  # the first one that fails ends the others
            question.cancel()


async def _first_seq_at(client: Connection, stream: str, time_ns: int) -> int:
    name = f"nats3-{secrets.token_hex(8)}"
    config = {
        "name": name,
        "ack_policy": "none",
        "deliver_policy": "by_start_time",
        "opt_start_time": format_time(time_ns),
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 10 * SECOND_NS,
    }
    body = {"stream_name": stream, "config": config}
    try:
        created = await request_of_stream(client, stream, f"CONSUMER.CREATE.{stream}.{name}", body)
    except Refused as error:
        if error.code in (ErrCode.MAX_CONSUMERS, ErrCode.INACTIVE_THRESHOLD):
            return await _first_held_at(client, stream, time_ns, 1)
        raise
    try:
        await request(client, f"CONSUMER.DELETE.{stream}.{name}")
    except Refused as error:
        if error.code != ErrCode.CONSUMER_NOT_FOUND:  # the first of two requests, whose answer was lost
            raise
    # A new consumer counts as delivered what lies before its start.
    first = int(created["delivered"]["stream_seq"]) + 1
    # Where messages were deleted, 2.9 may name one that is too early, the one before the deleted ones: then look.
    message = await next_message(client, stream, first)
    if message is None or message[1] >= time_ns:
        return first
    return await _first_held_at(client, stream, time_ns, message[0] + 1)


async def _first_held_at(client: Connection, stream: str, time_ns: int, first: int) -> int:
    """Searches by halves, from `first` on."""
    end = (await stream_info(client, stream)).last_seq + 1
    while first < end:
        middle = (first + end) // 2
        message = await next_message(client, stream, middle)
        if message is None or message[1] >= time_ns:
            end = middle
        else:
            first = message[0] + 1
    message = await next_message(client, stream, end)
    return message[0] if message else (await stream_info(client, stream)).last_seq + 1
