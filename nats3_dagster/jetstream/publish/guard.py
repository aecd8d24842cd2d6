"""The guard of a publisher: it listens on the fence's subject, and stops the publisher when a newer attempt asks."""

import asyncio
from contextlib import suppress

from nats.aio.msg import Msg
from nats.errors import Error

from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.publish import roll_call
from nats3_dagster.jetstream.publish.fence import check_in, fence_subject, superseded
from nats3_dagster.jetstream.publish.outbox import STOP_S, Outbox
from nats3_dagster.jetstream.publish.roll_call import PublisherReply, Question, check_allowed, new_nonce, question_of
from nats3_dagster.jetstream.publish.state import Event, State


class Guard:
    """Guards the outbox of one attempt of a replay. Lives in the connection's loop."""

    def __init__(self, client: Connection, outbox: Outbox, replay_id: str, attempt: int) -> None:
        self._client, self._outbox, self._replay_id, self._attempt = client, outbox, replay_id, attempt
        self._name = new_nonce()  # distinguishes this publisher
        self._nonces: set[str] = set()  # of its own questions
        self._stop_task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen, and make sure that no other attempt publishes. Raises as fence.check_in does."""
        # Listening first: of two attempts that come at the same time at least one learns of the other.
        subject = fence_subject(self._replay_id)
        self._listening = await self._client.subscribe(subject, cb=self._on_question)  # pyright: ignore[reportUnknownMemberType]
        await self._client.flush()
        check_allowed(self._client, subject)
        # An older attempt that lost its connection comes back here when the newer one is already at work.
        await check_in(self._client, self._replay_id, self._attempt, self._nonces)

    async def answered(self) -> None:
        """Returns when a newer attempt that waits for an answer has it: the failure it brought has made the caller
        close."""
        if self._stop_task:
            await asyncio.wait({self._stop_task}, timeout=STOP_S + 1)

    def close(self) -> None:
        """Answer no longer."""
        if self._stop_task:
            self._stop_task.cancel()

    async def _on_question(self, message: Msg) -> None:
        """A newer attempt tells this one to stop; an older one, or this one, asks for the running publishers."""
        question = question_of(message.data)
        if question is None or question.nonce in self._nonces or self._outbox.life.state.is_end:
            return
        await self._answer(message, question)
        if question.attempt > self._attempt and self._outbox.stop(superseded(self._replay_id, question.attempt)):
            self._stop_task = asyncio.create_task(self._stop(message, question))

    async def _stop(self, message: Msg, question: Question) -> None:
        """The newer attempt waits for the answer."""
        with suppress(Error, OSError):
            if await self._outbox.all_stored():
                self._outbox.life.on(Event.STORED)
                await self._answer(message, question)
                await self._client.flush()
            else:
                # There is no subscriber left when the server has read this connection to its end: an answer as well.
                self._outbox.life.on(Event.UNSURE)
                self._client.abort()
        with suppress(Error, OSError):
            await self._listening.unsubscribe()

    async def _answer(self, message: Msg, question: Question) -> None:
        if message.reply:
            stopped = self._outbox.life.state is State.STOPPED
            await message.respond(roll_call.encode(PublisherReply(question.nonce, self._name, self._attempt, stopped)))
