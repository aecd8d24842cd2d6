"""The consumers in a server's own backup of a stream, which alone says what is acknowledged above the floor.

A backup begins with its consumers, and a client that goes away ends it: the server sends one part at a time, reads no
further and forgets it. So this costs the same for a small stream and for a large one. The server's log has a warning
that the backup had no more interest.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from nats import errors as nats_errors

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.api import TIMEOUT_S, Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.consumers import s2
from nats3_dagster.model.consumer import ConsumerPosition, Pair

# The first nats-server whose backups have this form.
BACKUP_SINCE = (2, 15)
_MAGIC = b"NATSARC1"
# Bytes of one part: the server sends the next one when this one is acknowledged.
_PART = 16 << 10
# Bytes of all entries: more are not read.
_MOST = 64 << 20
_FOLDER = "consumers/"
# Numbers of an entry before its name: size of the name, time, sequence, size of the headers and of the payload.
_NUMBERS = 5


class _Unfinished(Exception):
    """More is needed to read the next entry."""


async def consumers_in_backup(client: Connection, stream: str) -> list[ConsumerPosition]:
    """All consumers of the stream with their exact positions. Raises Refused if this user may not ask it; SourceError
    if the server sends something else, or nothing."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)  # pyright: ignore[reportUnknownMemberType]
    try:
        body = {"deliver_subject": inbox, "chunk_size": _PART, "window_size": _PART}
        answer = await request(client, f"STREAM.SNAPSHOT.{stream}", body, 0.0)
        number = int(answer["state"].get("consumer_count") or 0)
        return [_position(entry) for entry in await _entries(client, subscription, stream)] if number else []
    except (nats_errors.Error, TimeoutError, OSError) as error:
        if refusal := client.refusal_of(f"$JS.SNAPSHOT.ACK.{stream}"):
            raise Refused(f"NATS at {client.address} refused: {refusal}", "Permit this user to do it") from error
        raise SourceError(f"The server did not send the consumers of stream {stream}", "Is it overloaded?") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"The server sent consumers of stream {stream} in a form that is not known") from error
    finally:
        # The server hears of it, and ends its backup.
        with suppress(nats_errors.Error, OSError):
            await subscription.unsubscribe()
            await client.flush()


async def _entries(client: Connection, subscription: Any, stream: str) -> list[Any]:
    """The JSON of each consumer. Raises SourceError if the backup ends before, ValueError, TimeoutError."""
    reader, content = s2.Reader(), bytearray()
    while len(content) < _MOST:
        message = await asyncio.wait_for(subscription.next_msg(timeout=TIMEOUT_S), TIMEOUT_S + 1)
        content += reader.feed(message.data)
        with suppress(_Unfinished):
            return _parsed(content)
        if not message.data or not message.reply:
            break
        await client.publish(message.reply, b"")
    raise SourceError(f"The server's backup of stream {stream} ends before its consumers do")


def _parsed(content: bytearray) -> list[Any]:
    """The consumers of a backup, if they are whole. Raises _Unfinished, ValueError."""
    if not content.startswith(_MAGIC[: len(content)]):
        raise ValueError("another form of backup")
    name, body, at = _entry(content, len(_MAGIC))
    if name != "state.json":
        raise ValueError(name)
    entries: list[Any] = []
    for _ in range(int(json.loads(body).get("consumer_count") or 0)):
        name, body, at = _entry(content, at)
        if not name.startswith(_FOLDER):
            raise ValueError(name)
        entries.append({**json.loads(body), "name": name.removeprefix(_FOLDER)})
    return entries


def _entry(content: bytearray, at: int) -> tuple[str, bytes, int]:
    """Name and payload of the entry here, and where it ends. Raises _Unfinished."""
    numbers: list[int] = []
    try:
        for _ in range(_NUMBERS):
            number = shift = 0
            while content[at] >= 0x80:
                number, shift, at = number | (content[at] & 0x7F) << shift, shift + 7, at + 1
            numbers.append(number | content[at] << shift)
            at += 1
    except IndexError as error:
        raise _Unfinished from error
    begin = at + numbers[0]
    end = begin + numbers[3] + numbers[4]
    if end > len(content):
        raise _Unfinished
    return bytes(content[at:begin]).decode(), bytes(content[begin:end]), end


def _position(entry: Any) -> ConsumerPosition:
    state = entry["state"]
    pending: dict[str, dict[str, int]] = state.get("pending") or {}
    redelivered: dict[str, int] = state.get("redelivered") or {}
    return ConsumerPosition(
        entry["name"],
        entry["config"],
        Pair(state["delivered"]["consumer_seq"], state["delivered"]["stream_seq"]),
        Pair(state["ack_floor"]["consumer_seq"], state["ack_floor"]["stream_seq"]),
        {int(seq): (one["Sequence"], one["Timestamp"]) for seq, one in pending.items()},
        {int(seq): times for seq, times in redelivered.items()},
    )
