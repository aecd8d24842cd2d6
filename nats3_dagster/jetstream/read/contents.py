"""Contents of a stream: single messages as the stream's leader has them, by sequence or subject.

Invariant: the leader answers, never another replica, and no consumer is made.
"""

import asyncio
import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nats3_dagster.errors import SourceError
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import no_answer, same_stream_info
from nats3_dagster.model import Incarnation, SeqRange

# Requests under way at a time where many are asked.
ASKED_AT_ONCE = 64


def message_from(link: Link, stream: str, seq: int) -> tuple[int, int] | None:
    """Sequence and store time of the first message at `seq` or later; None when the stream holds none."""
    return link.call(next_message, stream, seq)


def message_times(link: Link, messages: Iterable[tuple[str, int]], patience_s: float) -> dict[tuple[str, int], int]:
    """Store times of messages by stream and sequence, asked all at once. A missing message is left out, and so is one
    without an answer within `patience_s`."""
    found = messages_from(link, messages, patience_s)
    return {
        wanted: message[1]
        for wanted, message in found.items()
        if isinstance(message, tuple) and message[0] == wanted[1]
    }


def messages_from(
    link: Link, wanted: Iterable[tuple[str, int]], patience_s: float
) -> dict[tuple[str, int], tuple[int, int] | SourceError | None]:
    """`message_from` of each stream and sequence, asked all at once; SourceError where no answer comes within
    `patience_s`."""

    async def one(client: Connection, stream: str, seq: int) -> tuple[int, int] | SourceError | None:
        try:
            return await asyncio.wait_for(next_message(client, stream, seq), patience_s)
        except TimeoutError:
            return no_answer(client, stream, patience_s)
        except SourceError as error:
            return error

    async def every(client: Connection) -> dict[tuple[str, int], tuple[int, int] | SourceError | None]:
        each = sorted(set(wanted))
        found = await asyncio.gather(*(one(client, stream, seq) for stream, seq in each))
        return dict(zip(each, found, strict=True))

    return link.call(every)


def last_payload(link: Link, stream: str, subject: str) -> bytes | None:
    """The payload of the newest message of this one subject; None when the stream holds none."""

    async def work(client: Connection) -> bytes | None:
        message = await _message(client, stream, {"last_by_subj": subject})
        return None if message is None else base64.b64decode(message.get("data", ""))

    return link.call(work)


async def next_message(client: Connection, stream: str, seq: int, subject: str = ">") -> tuple[int, int] | None:
    """Sequence and store time of the first message at `seq` or later whose subject the filter `subject` takes; None
    when the stream holds none. The stream's leader answers, never another replica."""
    message = await next_json(client, stream, seq, subject)
    return (int(message["seq"]), parse_time(message["time"])) if message else None


async def exact_json(client: Connection, stream: str, seq: int) -> dict[str, Any] | None:
    """The server's JSON of the message with this sequence; None when the stream does not hold it."""
    return await _message(client, stream, {"seq": seq})


async def next_json(client: Connection, stream: str, seq: int, subject: str) -> dict[str, Any] | None:
    """The server's JSON of the first message at `seq` or later that the filter takes."""
    return await _message(client, stream, {"seq": seq, "next_by_subj": subject})


async def _message(client: Connection, stream: str, which: Mapping[str, Any]) -> dict[str, Any] | None:
    try:
        answer = await request(client, f"STREAM.MSG.GET.{stream}", which)
    except Refused as error:
        if error.code == ErrCode.MESSAGE_NOT_FOUND:
            return None
        raise
    return answer["message"]


async def last_json(client: Connection, stream: str, within: SeqRange, subject: str) -> dict[str, Any] | None:
    """The server's JSON of the last message of these sequences that the filter takes; None for none. It takes one
    request if the stream has the last one, else about one for each bit of the number of sequences."""
    last: dict[str, Any] | None = None
    low, high = within.first, within.last
    while low <= high:
        at = high if high == within.last else (low + high) // 2
        message = await next_json(client, stream, at, subject)
        if message is None or int(message["seq"]) > within.last:
            high = at - 1
        else:
            last, low = message, int(message["seq"]) + 1
    return last


def _questions(incarnation: Incarnation, filters: Sequence[str]) -> list[tuple[str, str]]:
    """The streams to be asked, each with a filter. Of a stream that is read from a buffer both are asked: the stream
    may still have what was taken out of the buffer."""
    streams = dict.fromkeys((incarnation.read_stream, incarnation.stream))
    return [(stream, subject) for stream in streams for subject in filters or (">",)]


async def first_held(
    client: Connection, incarnation: Incarnation, seqs: SeqRange, filters: Sequence[str]
) -> int | None:
    """The first sequence of the range that the leader holds and a filter takes (no filters: any), by the first filter
    that takes one. None proves that the leader held none. One request a filter, and one more for None.

    It is the leader's word, because a consumer's is no proof: it lives on any replica, also on one that lags, and its
    server may count too few messages as pending while others are stored and removed at once. Raises StreamChanged."""
    for stream, subject in _questions(incarnation, filters):
        message = await next_message(client, stream, seqs.first, subject)
        if message and message[0] <= seqs.last:
            return message[0]
    # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
    await same_stream_info(client, incarnation)
    return None


def held_ranges(
    link: Link, incarnation: Incarnation, ranges: Sequence[SeqRange], filters: Sequence[str]
) -> list[int | None]:
    """Returns for each range the first sequence that the leader holds and a filter takes (no filters: any); None proves
    that it held none when it was asked. Raises StreamChanged."""

    async def one(client: Connection, seqs: SeqRange, turn: asyncio.Semaphore) -> int | None:
        for stream, subject in _questions(incarnation, filters):
            async with turn:
                message = await next_message(client, stream, seqs.first, subject)
            if message and message[0] <= seqs.last:
                return message[0]
        return None

    async def every(client: Connection) -> list[int | None]:
        turn = asyncio.Semaphore(ASKED_AT_ONCE)
        held = await asyncio.gather(*(one(client, seqs, turn) for seqs in ranges))
        # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
        await same_stream_info(client, incarnation)
        return held

    return link.call(every) if ranges else []
