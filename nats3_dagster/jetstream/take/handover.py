"""Handover: what a task brings back goes to the driver while the task runs, over core NATS.

Invariants: each handover is taken once, in order, of one attempt of the task alone; one that is repeated gets the first
answer again. Requests and answers carry a code of a key that only the driver and its task have (HMAC-SHA-256): other
clients of the account can send to the subject, and nothing of theirs is read.
"""

import asyncio
import hashlib
import hmac
import json
import pickle
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error, NoRespondersError

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.take.driver_requests import ask_driver

# How long a task waits for an answer before it asks again, and for any word of the driver before it gives up; and how
# long no process may listen, which the server says at once: the driver connects again, or it is gone.
ANSWER_S, SILENCE_S, GONE_S = 2.0, 30.0, 5.0
_CODE_BYTES = hashlib.sha256().digest_size
_REQUEST, _REPLY = b"request", b"reply"
_DONE, _WAIT, _FAILED = "done", "wait", "failed"
_AGAIN = "Run it again: it is safe"


@dataclass(frozen=True, slots=True)
class Channel:
    """The subject and the key of one job's handovers."""

    subject: str = field(default_factory=lambda: f"_NATS3.handover.{secrets.token_hex(8)}")
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def sealed(self, kind: bytes, body: bytes) -> bytes:
        """The body after its code."""
        return hmac.digest(self.key, kind + body, "sha256") + body

    def opened(self, kind: bytes, data: bytes) -> bytes | None:
        """The body of what `sealed` made; None for anything else."""
        body = data[_CODE_BYTES:]
        return body if hmac.compare_digest(self.sealed(kind, body), data) else None


class Handovers:
    """The driver's side, while the task runs: calls `take` with each handover, one after the other, in a thread. Its
    error ends the task, and is raised again by `check`."""

    def __init__(self, link: Link, channel: Channel, take: Callable[[Any], None]) -> None:
        self._link, self._channel, self._take = link, channel, take
        self._pool = ThreadPoolExecutor(1, "handover")
        self._attempt = ""
        self._number = 0
        self._taking: asyncio.Future[str] | None = None
        self._answering: set[asyncio.Task[None]] = set()  # kept, or the loop would forget them
        self._failure: BaseException | None = None

    def __enter__(self) -> "Handovers":
        self._link.call(self._subscribe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._link.call(self._unsubscribe)
        finally:
            # What is being taken now is finished: the next session looks at what is in the catalog.
            self._pool.shutdown()

    def check(self) -> None:
        """Raises the error of `take`."""
        if self._failure:
            raise self._failure

    async def _subscribe(self, client: Connection) -> None:
        self._subscription = await client.subscribe(self._channel.subject, cb=self._on_request)  # pyright: ignore[reportUnknownMemberType]
        await client.flush()

    async def _unsubscribe(self, client: Connection) -> None:
        if not client.is_closed:
            await self._subscription.unsubscribe()

    async def _on_request(self, message: Msg) -> None:
        if (body := self._channel.opened(_REQUEST, message.data)) is not None and message.reply:
            # A task of its own: another request is answered while one is being taken.
            answering = asyncio.create_task(self._respond(message, body))
            self._answering.add(answering)
            answering.add_done_callback(self._answering.discard)

    async def _respond(self, message: Msg, body: bytes) -> None:
        # Written by our own task: nothing else has the key.
        attempt, number, handed = pickle.loads(body)  # noqa: S301
        self._attempt = self._attempt or attempt
        if attempt != self._attempt or number not in (self._number, self._number + 1):
            answer = _FAILED
        else:
            if number > self._number:
                self._number = number
                self._taking = asyncio.get_running_loop().run_in_executor(self._pool, self._taken, handed)
            assert self._taking is not None
            done, _ = await asyncio.wait((self._taking,), timeout=ANSWER_S / 2)
            answer = self._taking.result() if done else _WAIT
        reply = json.dumps([attempt, number, answer]).encode()
        await message.respond(self._channel.sealed(_REPLY, reply))

    def _taken(self, handed: Any) -> str:
        if self._failure:
            return _FAILED
        try:
            self._take(handed)
        except BaseException as error:
            self._failure = error
            return _FAILED
        return _DONE


class Handover:
    """The task's side, over a link of its own that connects again."""

    def __init__(self, link: Link, channel: Channel) -> None:
        self._link, self._channel = link, channel
        self._attempt, self._number = secrets.token_hex(8), 0

    def give(self, handed: object) -> None:
        """Returns when the driver has taken it. Raises SourceError if it failed, or the driver is gone."""
        self._number += 1
        request = pickle.dumps((self._attempt, self._number, handed))
        self._link.call(self._give, self._channel.sealed(_REQUEST, request))

    async def _give(self, client: Connection, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + SILENCE_S
        while loop.time() < until:
            try:
                reply = await ask_driver(client, self._channel.subject, request, ANSWER_S)
            except NoRespondersError:
                until = min(until, loop.time() + GONE_S)
                await asyncio.sleep(0.2)
                continue
            except Error:
                await asyncio.sleep(0.2)
                continue
            body = self._channel.opened(_REPLY, reply.data)
            attempt, number, answer = json.loads(body) if body else ("", 0, "")
            if (attempt, number) != (self._attempt, self._number):
                continue
            if answer == _DONE:
                return
            if answer == _FAILED:
                raise SourceError("The driver did not take what this task brought", _AGAIN)
            until = loop.time() + SILENCE_S
        raise client.login_error or SourceError("The driver does not take what this task brings", _AGAIN)
