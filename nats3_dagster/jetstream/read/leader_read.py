"""Reading through the stream's leader, one request a message: for a stream that refuses a consumer."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from nats3_dagster.errors import SourceError
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import next_json
from nats3_dagster.jetstream.streams import same_stream_info
from nats3_dagster.model import Incarnation, SeqRange
from nats3_dagster.model.messages import MESSAGES


def messages_of(link: Link, incarnation: Incarnation, seqs: SeqRange, filters: Sequence[str]) -> pa.Table:
    """Returns the leader's messages of a range that match a filter (no filters: all), with the schema MESSAGES. One
    request a message: for streams that refuse a consumer. Raises StreamChanged, and SourceError for a subject that is
    not UTF-8, which JSON cannot carry."""

    async def work(client: Connection) -> pa.Table:
        rows: dict[int, dict[str, Any]] = {}
        stream = incarnation.stream
        for subject in filters or (">",):
            seq = seqs.first
            while (message := await next_json(client, stream, seq, subject)) and message["seq"] <= seqs.last:
                seq = message["seq"] + 1
                rows[message["seq"]] = _row(stream, message)
        await same_stream_info(client, incarnation)
        return pa.Table.from_pylist([rows[seq] for seq in sorted(rows)], schema=MESSAGES)

    return link.call(work)


def _row(stream: str, message: Mapping[str, Any]) -> dict[str, Any]:
    if "\ufffd" in message["subject"]:
        raise SourceError(
            f"The subject of message {message['seq']} of stream {stream} is not UTF-8, and cannot be asked for exactly",
            "Compare other hours",
        )
    return {
        "seq": message["seq"],
        "time_ns": parse_time(message["time"]),
        "subject": message["subject"],
        "subject_bytes": None,
        "headers": base64.b64decode(message["hdrs"]) if message.get("hdrs") else None,
        "data": base64.b64decode(message.get("data") or ""),
    }
