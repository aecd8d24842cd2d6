"""One restore of a stream: a request for it, its backup in parts, and the end. A server acknowledges each part.

Invariant: the stream is whole when `finish` returned. A server makes the stream at the beginning, and keeps what it got
when a restore is cut: who cuts it deletes the stream.
"""

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from nats3_dagster.errors import EngineError
from nats3_dagster.jetstream.api import Refused, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import restores, version_of
from nats3_dagster.jetstream.link import Link

# Bytes of one request, and requests that may be unanswered: a server answers each when it has stored it.
_REQUEST, _UNDER_WAY = 128 << 10, 16
# Seconds. A server answers a request late where its disk is slow; a restore to which nothing is sent for five it gives
# up by itself (nats-server, jetstream_api.go: activityInterval).
_ANSWER_S = 60.0


class RestoreSession:
    """A restore that was begun. Its methods block."""

    def __init__(self, link: Link, config: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Ask the server for it. `state`: as the backup says it. Raises EngineError for a server before 2.15, Refused
        if there is a stream of this name, or if the server refuses the configuration."""
        self._link = link
        self._under_way = deque[asyncio.Future[Any]]()
        self._rest = bytearray()
        self._subject = link.call(_begin, config, state)
        self._size = min(_REQUEST, link.client.max_payload)

    def send(self, part: bytes) -> None:
        """Send a part of the backup, compressed. Raises SourceError when the server does not store one."""
        self._rest += part
        whole = len(self._rest) - len(self._rest) % self._size
        if whole:
            self._link.call(self._send, bytes(self._rest[:whole]))
            del self._rest[:whole]

    def finish(self, patience_s: float = _ANSWER_S) -> dict[str, Any]:
        """Send the end; the server's description of the stream, as STREAM.INFO has it. Of a backup of before 2.15 the
        server makes the stream only now: `patience_s` is how long that may take."""
        return self._link.call(self._finish, bytes(self._rest), patience_s)

    async def _send(self, client: Connection, data: bytes) -> None:
        for at in range(0, len(data), self._size):
            while len(self._under_way) >= _UNDER_WAY:
                await self._answered()
            asked = client.request(self._subject, data[at : at + self._size], timeout=_ANSWER_S)
            self._under_way.append(asyncio.ensure_future(asked))
            await asyncio.sleep(0)  # so that requests leave in their order

    async def _answered(self) -> None:
        """Waits for the oldest answer."""
        try:
            answer = (await self._under_way.popleft()).data
            if answer:
                _checked(answer)
        except BaseException:
            for waiting in self._under_way:
                waiting.cancel()
            await asyncio.gather(*self._under_way, return_exceptions=True)
            raise

    async def _finish(self, client: Connection, rest: bytes, patience_s: float) -> dict[str, Any]:
        await self._send(client, rest)
        while self._under_way:
            await self._answered()
        return _checked((await client.request(self._subject, b"", timeout=patience_s)).data)


async def _begin(client: Connection, config: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    version = version_of(client.info)
    if not restores(version):
        raise EngineError(
            f"nats-server {version[0]}.{version[1]} cannot restore messages at their sequences and times",
            "Use a server from 2.15; in a checkout, make setup fetches one",
        )
    answer = await request(client, f"STREAM.RESTORE.{config['name']}", {"config": config, "state": state}, 0.0)
    return str(answer["deliver_subject"])


def _checked(data: bytes) -> dict[str, Any]:
    """The fields of an answer. Raises Refused when it is an error."""
    answer: dict[str, Any] = json.loads(data)
    if error := answer.get("error"):
        raise Refused(
            f"The server did not restore the stream: {error.get('description', error)}",
            "See its log",
            int(error.get("err_code", 0)),
        )
    return answer
