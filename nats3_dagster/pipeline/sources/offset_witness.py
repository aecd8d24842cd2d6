"""The witness of an offset: a message at or before it, by what never changes while the stream keeps its history.

A server that was cut off from power, or got older files, may forget its newest messages and give their sequences to new
ones: then the stream has another message at the witness' sequence.

Invariant: an offset whose witness is contradicted is an error. A witness that the stream has removed says nothing.
"""

import hashlib
import json
from typing import Any

from nats3_dagster.errors import StreamChanged
from nats3_dagster.hours import format_time, parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import next_json
from nats3_dagster.model import StreamState

OffsetWitness = dict[str, Any]
HINT = (
    "Start the query with a new checkpoint and startingOffsets: the sequences of this one say nothing of the stream as "
    "it is. Messages that the query has read may come again, under other sequences"
)


def witness_of(link: Link, state: StreamState, seq: int, earlier: OffsetWitness | None) -> OffsetWitness | None:
    """The witness of an offset: `{"seq": n, "time_ns": n, "digest": text}`. `earlier`: that of an offset before it,
    which is taken where the stream has no message after that one. None where there is neither. Raises SourceError."""
    least = max(state.first_seq, earlier["seq"] + 1 if earlier else 1)
    back = 0
    while seq >= least:
        at = max(least, seq - back)
        message = link.call(next_json, state.name, at, ">")
        if message and message["seq"] <= seq:
            return _witness(message)
        if at == least:
            break
        back = 2 * back or 1
    return earlier


def check_witness(link: Link, state: StreamState, witness: OffsetWitness | None) -> None:
    """Raises StreamChanged if the stream has another message at the witness' sequence, or ends before it."""
    if not witness or witness["seq"] < state.first_seq:
        return
    seq = witness["seq"]
    then = f"the query has read one of {format_time(witness['time_ns'])} there"
    if seq > state.last_seq:
        raise StreamChanged(
            f"Stream {state.name} ends at sequence {state.last_seq}, before {seq}, and {then}: a server does not have "
            "its newest messages",
            f"If a server of its cluster is away, run the query again when it is back. If they are lost: {HINT}",
        )
    message = link.call(next_json, state.name, seq, ">")
    if message is None or message["seq"] != seq or _witness(message) == witness:
        return
    raise StreamChanged(
        f"Stream {state.name} has a message of {format_time(parse_time(message['time']))} at sequence {seq}, and "
        f"{then}: the server forgot messages, and gave their sequences to new ones",
        HINT,
    )


def _witness(message: dict[str, Any]) -> OffsetWitness:
    parts = [message.get(key) or "" for key in ("subject", "hdrs", "data")]
    digest = hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()
    return {"seq": int(message["seq"]), "time_ns": parse_time(message["time"]), "digest": digest}
