"""Streams with a past: messages at sequences and times of our choosing, byte for byte, gaps and nanoseconds included.

We write a backup in the server's open format (ADR-63, `NATSARC1`) and restore it, which servers from 2.15 can. So a
test or the demo has days of hourly partitions in a second, without waiting and without changing a clock.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from nats3_dagster.errors import EngineError, OperatorError, SourceError
from nats3_dagster.hours import format_time
from nats3_dagster.jetstream.link import Connection, Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.subjects import encoded

# The first nats-server that restores this format.
RESTORE_SINCE = (2, 15)
_MAGIC = b"NATSARC1"
# Bytes that are compressed at a time, so that memory does not grow with the number of messages.
_PIECE = 1 << 20
# Bytes of one request; the server acknowledges each.
_REQUEST = 128 << 10


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
            return nats.call(_restore, stream_config, state, body)
        with Link(nats if isinstance(nats, NatsOptions) else NatsOptions(servers=(nats,))) as link:
            return link.call(_restore, stream_config, state, body)


def _write_entries(out: IO[bytes], messages: Iterable[Past]) -> dict[str, Any]:
    """Write the compressed entries of all messages, and return the state that describes them."""
    from cramjam import snappy  # the S2 stream that the server reads may be framed snappy

    first: Past | None = None
    last: Past | None = None
    subjects: set[str] = set()
    count = size = 0
    piece = bytearray()
    for message in messages:
        seq, time_ns, subject, headers, data = message
        if seq <= (last.seq if last else 0):
            raise OperatorError(f"Sequence {seq} does not come after {last.seq if last else 0}", "Give them in order")
        piece += _entry(encoded(subject), time_ns, seq, headers, data)
        first = first or Past(*message)
        last = Past(*message)
        subjects.add(subject)
        count += 1
        # As the server's file store counts.
        size += 30 + len(subject) + len(data) + (4 + len(headers) if headers else 0)
        if len(piece) >= _PIECE:
            out.write(bytes(snappy.compress(piece)))
            piece.clear()
    if first is None or last is None:
        raise OperatorError("A stream with a past needs a message", "Create an empty stream in the ordinary way")
    out.write(bytes(snappy.compress(piece + _entry(b"", 0, 0, b"", b""))))
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


def _entry(name: bytes, time_ns: int, seq: int, headers: bytes, body: bytes) -> bytes:
    """One entry: a file (named) or a message (named by its subject), all lengths as unsigned varints."""
    zigzag = (time_ns << 1) ^ (time_ns >> 63)
    lengths = _uvarint(len(headers)) + _uvarint(len(body))
    return b"".join((_uvarint(len(name)), _uvarint(zigzag), _uvarint(seq), lengths, name, headers, body))


def _uvarint(number: int) -> bytes:
    if number < 0x80:
        return _ONE_BYTE[number]
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


_ONE_BYTE = [bytes([number]) for number in range(0x80)]


async def _restore(
    client: Connection, config: Mapping[str, Any], state: Mapping[str, Any], body: IO[bytes]
) -> dict[str, Any]:
    """Send a backup, and return the state of the stream that it became."""
    version = client.connected_server_version
    if (version.major, version.minor) < RESTORE_SINCE:
        raise EngineError(
            f"nats-server {version.major}.{version.minor} cannot restore a past",
            "Set NATS_SERVER to one from 2.15; in a checkout, make setup fetches it",
        )
    request = json.dumps({"config": config, "state": state}).encode()
    reply = await client.request(f"{client.api}.STREAM.RESTORE.{config['name']}", request, timeout=10)
    target = _answer(reply.data)["deliver_subject"]
    for part in _parts(state, body, min(_REQUEST, client.max_payload)):
        if data := (await client.request(target, part, timeout=30)).data:
            _answer(data)
    return _answer((await client.request(target, b"", timeout=60)).data)["state"]


def _parts(state: Mapping[str, Any], body: IO[bytes], size: int) -> Iterator[bytes]:
    """The backup in requests of `size` bytes at most."""
    from cramjam import snappy

    head = _MAGIC + _entry(b"state.json", 0, 0, b"", json.dumps(state).encode())
    yield bytes(snappy.compress(head))
    while part := body.read(size):
        yield part


def _answer(data: bytes) -> dict[str, Any]:
    """The fields of an answer. Raises SourceError when it is an error."""
    answer: dict[str, Any] = json.loads(data)
    if error := answer.get("error"):
        raise SourceError(f"The server did not restore the stream: {error.get('description', error)}", "See its log")
    return answer
