"""Records of writes: when each part of a write began to send, kept in a stream beside the target.

The stream is in the JetStream of the target, so a record outlives the process that wrote it, and its times are those of
one clock. It is named after the target, and keeps the newest record of each subject for as long as it exists.

Invariant: a record is replaced only by a process that has read it. The stream's leader decides, with its quorum.
"""

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nats.errors import Error

from nats3_dagster.errors import OperatorError, SourceError, TargetError
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.api import ASK_AGAIN_S, PATIENCE_S, TIMEOUT_S, Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode, message_passes
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import create_stream, find_stream
from nats3_dagster.model import StreamState

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """A record as the stream has it."""

    # Its sequence in the stream of records.
    seq: int
    # Its store time in nanoseconds, by the server's clock.
    time_ns: int
    # What the writer says: JSON values.
    body: Mapping[str, Any]


def records_stream(target: str) -> str:
    """The name of the stream with the records of writes to a stream."""
    return f"NATS3_WRITES_{target}"


def ensure_records(link: Link, target: StreamState) -> None:
    """Make the stream of records, unless it exists. Raises OperatorError for one that would forget records, SourceError
    if it cannot be made."""
    name = records_stream(target.name)
    state = find_stream(link, name)
    if state is None:
        config = {
            "name": name,
            "subjects": [_subject(target.name, ">")],
            "storage": "file",
            "retention": "limits",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "num_replicas": target.config.get("num_replicas", 1),
            "description": f"When writes of nats3 to stream {target.name} began",
        }
        try:
            state = create_stream(link, config)
        except OperatorError:  # another process made it a moment ago, for a target with other replicas
            if (state := find_stream(link, name)) is None:
                raise
    config = state.config
    limited = [key for key in ("max_age", "max_msgs", "max_bytes") if config.get(key, 0) > 0]
    forgets = config.get("retention", "limits") != "limits" or config.get("sealed")
    if forgets or limited or _subject(target.name, ">") not in (config.get("subjects") or ()):
        raise OperatorError(
            f"Stream {name} would forget when writes to {target.name} began, or takes no records of it",
            "Delete it when no write to that stream is under way, and the next write makes it again; or remove its "
            "limits",
        )


class WriteRecords:
    """The records of one write to a stream. `key`: the id of the write or of the query."""

    def __init__(self, link: Link, target: str, key: str) -> None:
        self._link, self._stream = link, records_stream(target)
        token = key if _PLAIN.fullmatch(key) else f"h{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"
        self._prefix = _subject(target, token)

    def get(self, part: str) -> WriteRecord | None:
        """The newest record of a part of the write. Raises SourceError."""
        return self._link.call(self._get, part)

    def put(self, part: str, body: Mapping[str, Any], replaces: WriteRecord | None) -> bool:
        """Write a record in the place of the one that was read, None where there was none. False where it has to be
        read again: another process wrote, or an answer was late. Raises SourceError, TargetError."""
        return bool(self._link.call(self._put, part, body, replaces.seq if replaces else 0))

    def now_ns(self) -> int:
        """The time of the server that stores records, as it is now or a moment later."""
        return self._link.call(self._now)

    def forget(self) -> None:
        """Remove all records of the write. Raises SourceError."""
        self._link.call(request, f"STREAM.PURGE.{self._stream}", {"filter": f"{self._prefix}.>"})

    async def _get(self, client: Connection, part: str) -> WriteRecord | None:
        body = {"last_by_subj": f"{self._prefix}.{part}"}
        try:
            message = (await request(client, f"STREAM.MSG.GET.{self._stream}", body))["message"]
        except Refused as error:
            if error.code == ErrCode.MESSAGE_NOT_FOUND:
                return None
            raise
        return WriteRecord(
            int(message["seq"]), parse_time(message["time"]), json.loads(base64.b64decode(message.get("data", "")))
        )

    async def _put(self, client: Connection, part: str, body: Mapping[str, Any], expected: int | None) -> int:
        """Returns the record's sequence; 0 if another record is there, or an own one whose answer was late."""
        subject, data = f"{self._prefix}.{part}", json.dumps(body).encode()
        headers = {} if expected is None else {_EXPECTED: str(expected)}
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while True:
            answer = await self._send(client, subject, data, headers)
            error: dict[str, Any] | None = answer.get("error")
            if error is None:
                break
            if error.get("err_code") in (ErrCode.WRONG_LAST_SEQ, ErrCode.WRONG_LAST_SEQ_UNKNOWN):
                return 0
            if not message_passes(error) or loop.time() > until:
                raise TargetError(
                    f"Stream {self._stream} takes no record of a write: {error.get('description')}",
                    "Without it rows could be stored twice. Nothing of this try was written",
                )
            await asyncio.sleep(ASK_AGAIN_S)
        if answer.get("stream") != self._stream:
            raise TargetError(
                f"Stream {answer.get('stream')} took a record of a write, and {self._stream} should have it",
                f"No other stream may capture {self._prefix}.>",
            )
        return int(answer["seq"])

    async def _send(self, client: Connection, subject: str, data: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        """The stream's answer. It is sent again only where no stream listened, or none answered: what was stored
        meanwhile shows as a record that was not expected."""
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while True:
            asking = asyncio.ensure_future(
                client.request(subject, data, timeout=TIMEOUT_S, headers=dict(headers) or None)
            )
            refusing = asyncio.ensure_future(client.refused(subject))
            try:
                await asyncio.wait((asking, refusing), return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    raise Refused(
                        f"NATS at {client.address} refused: {refusing.result()}",
                        f"Permit this user to publish to {self._prefix}.>",
                    )
                return json.loads(asking.result().data)
            except (Error, OSError) as error:
                if loop.time() > until or client.is_closed:
                    raise SourceError(
                        f"Stream {self._stream} does not answer to {self._prefix}.>: when this write began cannot be "
                        "known",
                        "Is the stream there? With another account's JetStream, import this subject as those of the "
                        "target",
                    ) from error
                await asyncio.sleep(ASK_AGAIN_S)
            finally:
                asking.cancel()
                refusing.cancel()

    async def _now(self, client: Connection) -> int:
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while loop.time() < until:
            seq = await self._put(client, "clock", {}, None)
            record = await self._get(client, "clock")
            if record and record.seq >= seq:  # otherwise a leader that was replaced answers
                return record.time_ns
        raise SourceError(f"Stream {self._stream} has no leader that answers", "Write again")


def _subject(target: str, rest: str) -> str:
    return f"_NATS3.writes.{target}.{rest}"
