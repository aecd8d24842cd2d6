"""Turns: tasks that pull from one durable do so one after another. The driver gives the turns, over core NATS.

Invariant: a turn is handed on once, by the attempt of the task that has it. No task pulls outside its turn: silence is
no turn.
"""

import asyncio
import json
import secrets
from types import TracebackType

from nats.aio.msg import Msg
from nats.errors import Error

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.take.driver_requests import ask_driver

# How often a task asks for its turn, and for how long: the one before may wait for what a dead client holds.
ASK_S, TURN_S = 0.02, 600.0
# How long a task waits for an answer, and how long it repeats a request: the driver's connection may be lost meanwhile.
ANSWER_S, SILENCE_S = 5.0, 15.0
# The driver's answers: have it, or ask again; nothing is left to pull; the task had its turn.
_GO, _WAIT, _NONE, _OVER = "go", "wait", "none", "over"


def new_subject() -> str:
    """A subject for the turns of one round."""
    return f"_NATS3.turns.{secrets.token_hex(8)}"


class Turns:
    """The driver's side, while the tasks run. A task that Spark starts again gets the turn that its first attempt had
    not handed on."""

    def __init__(self, link: Link, subject: str) -> None:
        self._link, self._subject = link, subject
        self._task, self._attempt = 0, ""  # whose turn it is
        self._before = ""  # the attempt that handed on last
        self._state: object = {}  # what it handed on; None when nothing is left

    def __enter__(self) -> "Turns":
        self._link.call(self._subscribe)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.call(self._unsubscribe)

    async def _subscribe(self, client: Connection) -> None:
        self._subscription = await client.subscribe(self._subject, cb=self._on_request)  # pyright: ignore[reportUnknownMemberType]
        await client.flush()

    async def _unsubscribe(self, client: Connection) -> None:
        if not client.is_closed:
            await self._subscription.unsubscribe()

    async def _on_request(self, message: Msg) -> None:
        request = json.loads(message.data)
        answer = self._hand_on(**request) if "state" in request else self._ask(**request)
        await message.respond(json.dumps({"answer": answer, "state": self._state}).encode())

    def _ask(self, task: int, attempt: str) -> str:
        if task < self._task:
            return _OVER
        if self._state is None:
            return _NONE
        if task > self._task:
            return _WAIT
        self._attempt = attempt
        return _GO

    def _hand_on(self, task: int, attempt: str, state: object) -> str:
        if (task, attempt) == (self._task, self._attempt):
            self._task, self._attempt, self._before, self._state = task + 1, "", attempt, state
        # Asked again, for the first answer was late.
        return _GO if (task + 1, attempt) == (self._task, self._before) else _OVER


class Turn:
    """A task's turn, as a context manager: entering waits for it, leaving hands it on. Without a subject the task is
    alone.

    Raises SourceError when the turn does not come, or was given to another attempt of the task meanwhile."""

    # What the task before has handed on, as JSON values; None: no turn.
    state: dict[str, int] | None = {}  # noqa: RUF012
    # What is handed on; None when nothing is left to pull.
    next: dict[str, int] | None = None
    # Whether an earlier attempt of the task had the turn: what that one pulled comes again.
    was_given = False

    def __init__(self, options: NatsOptions, subject: str | None, task: int) -> None:
        # Not the connection that pulls: when that one is lost the turn is handed on all the same.
        self._link, self._subject, self._task = Link(options), subject, task
        self._attempt = secrets.token_hex(8)

    def __enter__(self) -> "Turn":
        if self._subject is not None:
            self._link.__enter__()
            try:
                self.state = self._link.call(self._wait)
            except BaseException:
                self._link.__exit__(None, None, None)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._subject is None:
            return
        try:
            if self.state is not None:
                self._link.call(self._hand_on, self.next if error is None else None)
        finally:
            self._link.__exit__(None, None, None)

    async def _wait(self, client: Connection) -> dict[str, int] | None:
        loop = asyncio.get_running_loop()
        until = loop.time() + TURN_S
        while loop.time() < until:
            answer, state = await self._request(client, {})
            if answer == _GO:
                return state
            if answer != _WAIT:
                self.was_given = answer == _OVER
                return None
            await asyncio.sleep(ASK_S)
        raise SourceError(f"Task {self._task} got no turn to pull within {TURN_S:g} s", "Run it again: it is safe")

    async def _hand_on(self, client: Connection, state: dict[str, int] | None) -> None:
        if (await self._request(client, {"state": state}))[0] != _GO:
            raise SourceError(f"Another attempt of task {self._task} pulls messages", "Run it again: it is safe")

    async def _request(self, client: Connection, more: dict[str, object]) -> tuple[str, dict[str, int] | None]:
        assert self._subject
        body = json.dumps({"task": self._task, "attempt": self._attempt, **more}).encode()
        loop = asyncio.get_running_loop()
        until = loop.time() + SILENCE_S
        while loop.time() < until:
            try:
                answer = json.loads((await ask_driver(client, self._subject, body, ANSWER_S)).data)
                return answer["answer"], answer["state"]
            except Error:
                await asyncio.sleep(0.5)
        raise client.login_error or SourceError("The driver gives no turns to pull", "Run it again: it is safe")
