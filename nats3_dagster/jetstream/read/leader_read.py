"""Reading through the stream's leader, one request a message: for a stream that may have no other consumer.

Invariant: each sequence is asked for, or lies in a hole that the leader itself has named.
"""

import asyncio
import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from nats3_dagster.errors import SourceError
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import ASKED_AT_ONCE, exact_json, next_json
from nats3_dagster.jetstream.streams import same_stream, same_stream_info
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.subjects import selects

# The most sequences of a batch, and about the most bytes of its messages.
BATCH, BATCH_BYTES = 1024, 8 << 20
_NO_CONSUMER = "Let the stream have one consumer more (max_consumers), or leave these messages out"


def messages_of(link: Link, incarnation: Incarnation, seqs: SeqRange, filters: Sequence[str]) -> pa.Table:
    """Returns the leader's messages of a range that match a filter (no filters: all), with the schema MESSAGES. Raises
    as `batches_of`."""
    return pa.Table.from_batches(batches_of(link, incarnation, seqs, filters), MESSAGES)


def batches_of(
    link: Link, incarnation: Incarnation, seqs: SeqRange, filters: Sequence[str], *, headers_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yields the leader's messages of a range that match a filter (no filters: all), as batches of MESSAGES.
    `headers_only`: as a consumer sends them. Raises StreamChanged, and SourceError for a subject that is not UTF-8,
    which JSON cannot carry."""
    state, first = same_stream(link, incarnation), seqs.first
    size = max(1, min(BATCH, BATCH_BYTES * state.messages // max(state.bytes, 1)))
    while first <= seqs.last:
        part = SeqRange(first, min(first + size - 1, seqs.last))
        messages = link.call(_messages, incarnation, part)
        taken = [row_of(incarnation.stream, m) for m in messages if selects(filters, m["subject"])]
        taken = [_without_payload(row) for row in taken] if headers_only else taken
        if taken:
            yield pa.RecordBatch.from_pylist(taken, schema=MESSAGES)
        first = part.last + 1 if messages else link.call(_next_seq, incarnation, part.last + 1, seqs.last)


async def _messages(client: Connection, incarnation: Incarnation, seqs: SeqRange) -> list[dict[str, Any]]:
    """The server's JSON of each message of these sequences."""
    turn = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(seq: int) -> dict[str, Any] | None:
        async with turn:
            return await exact_json(client, incarnation.read_stream, seq)

    found = await asyncio.gather(*map(one, range(seqs.first, seqs.last + 1)))
    # Asked last: a stream that was made again meanwhile answered for the one that was asked for.
    await same_stream_info(client, incarnation)
    return [message for message in found if message]


async def _next_seq(client: Connection, incarnation: Incarnation, seq: int, last: int) -> int:
    """The first sequence at `seq` or later, and up to `last`, that the leader holds; the one after `last` for none."""
    message = await next_json(client, incarnation.read_stream, seq, ">")
    await same_stream_info(client, incarnation)
    return min(int(message["seq"]), last + 1) if message else last + 1


def row_of(stream: str, message: Mapping[str, Any], hint: str = _NO_CONSUMER) -> dict[str, Any]:
    """Returns the values of MESSAGES of the server's JSON of a message. Raises SourceError with the hint for a subject
    that is not UTF-8, which JSON cannot carry."""
    if "\ufffd" in message["subject"]:
        raise SourceError(
            f"The subject of message {message['seq']} of stream {stream} is not UTF-8, and only a consumer can read it",
            hint,
        )
    return {
        "seq": int(message["seq"]),
        "time_ns": parse_time(message["time"]),
        "subject": message["subject"],
        "subject_bytes": None,
        "headers": base64.b64decode(message["hdrs"]) if message.get("hdrs") else None,
        "data": base64.b64decode(message.get("data") or ""),
    }


def _without_payload(row: dict[str, Any]) -> dict[str, Any]:
    """The row as a consumer of headers alone sends it."""
    headers, size = row["headers"], len(row["data"])
    block = b"%bNats-Msg-Size: %d\r\n\r\n" % (headers[:-2] if headers else b"NATS/1.0\r\n", size)
    return row | {"headers": block, "data": b""}
