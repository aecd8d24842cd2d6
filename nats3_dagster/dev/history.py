"""Streams with a past: messages at sequences and times of our choosing, byte for byte, gaps and nanoseconds included.

We write a backup in the server's open format (ADR-63, `NATSARC1`) and restore it, which servers from 2.15 can. So a
test or the demo has days of hourly partitions in a second, without waiting and without changing a clock.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import pyarrow as pa

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.restore.entries import compressed, end, head, message_entries
from nats3_dagster.jetstream.restore.session import RestoreSession
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.subjects import encoded

# Messages that are compressed at a time, so that memory does not grow with their number.
_ROWS = 4096
# Bytes that are read of the body at a time.
_PIECE = 1 << 20


class Past(NamedTuple):
    """One message as the stream will store it."""

    seq: int
    time_ns: int
    subject: str
    # The raw block with `NATS/1.0` at its start and an empty line at its end, or empty.
    headers: bytes
    data: bytes


def restore_stream(
    nats: Link | NatsOptions | str, name: str, subjects: Iterable[str], messages: Iterable[Past], **config: Any
) -> dict[str, Any]:
    """Make the stream `name` with these messages (ascending sequences; read once, never all in memory).

    `config` is added to the stream's configuration. Returns the server's state of the new stream. Raises EngineError
    for a server before 2.15, OperatorError for messages out of order, SourceError when the server refuses."""
    stream_config = {
        "name": name,
        "subjects": list(subjects),
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "num_replicas": 1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_consumers": -1,
        **config,
    }
    with tempfile.TemporaryFile() as body:
        state = _write_entries(body, messages)
        body.seek(0)
        if isinstance(nats, Link):
            return _restore(nats, stream_config, state, body)
        with Link(nats if isinstance(nats, NatsOptions) else NatsOptions(servers=(nats,))) as link:
            return _restore(link, stream_config, state, body)


def _write_entries(out: IO[bytes], messages: Iterable[Past]) -> dict[str, Any]:
    """Write the compressed entries of all messages, and return the state that describes them."""
    first: Past | None = None
    last: Past | None = None
    subjects: set[str] = set()
    count = size = 0
    for part in _parts(messages):
        for message in part:
            seq, _, subject, headers, data = message
            if seq <= (last.seq if last else 0):
                raise OperatorError(
                    f"Sequence {seq} does not come after {last.seq if last else 0}", "Give them in order"
                )
            first, last = first or Past(*message), Past(*message)
            subjects.add(subject)
            count += 1
            # As the server's file store counts.
            size += 30 + len(subject) + len(data) + (4 + len(headers) if headers else 0)
        out.write(compressed(message_entries(_batch(part))))
    if first is None or last is None:
        raise OperatorError("A stream with a past needs a message", "Create an empty stream in the ordinary way")
    out.write(compressed(end()))
    return {
        "messages": count,
        "bytes": size,
        "first_seq": first.seq,
        "first_ts": format_time(first.time_ns),
        "last_seq": last.seq,
        "last_ts": format_time(last.time_ns),
        "num_subjects": len(subjects),
        "consumer_count": 0,
    }


def _batch(messages: list[Past]) -> pa.RecordBatch:
    seqs, times, subjects, headers, data = zip(*messages, strict=True)
    text, exact = subject_columns(pa.array([encoded(subject) for subject in subjects], pa.binary()))
    columns = [
        pa.array(seqs, pa.int64()),
        pa.array(times, pa.int64()),
        text,
        exact,
        pa.array([block or None for block in headers], pa.binary()),
        pa.array(data, pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)


def _parts(messages: Iterable[Past]) -> Iterator[list[Past]]:
    """The messages in parts of a number and a size at most."""
    part, size = list[Past](), 0
    for message in messages:
        part.append(message)
        size += len(message[4])
        if len(part) >= _ROWS or size >= _PIECE:
            yield part
            part, size = [], 0
    if part:
        yield part


def _restore(link: Link, config: Mapping[str, Any], state: Mapping[str, Any], body: IO[bytes]) -> dict[str, Any]:
    """Send a backup, and return the state of the stream that it became."""
    session = RestoreSession(link, config, state)
    session.send(compressed(head(state)))
    while part := body.read(_PIECE):
        session.send(part)
    return session.finish()["state"]
