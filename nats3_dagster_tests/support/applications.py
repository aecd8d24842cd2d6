"""Applications that read a stream through durables, by nats-py: another client than ours."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from typing import Any

import nats
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NothingMore
from nats.js.api import ConsumerConfig


@dataclass(frozen=True, slots=True)
class Application:
    """A pull consumer of a stream, each call on a connection of its own."""

    url: str
    stream: str
    durable: str

    def make(self, **config: Any) -> None:
        """Make the durable."""

        async def work(jetstream: Any) -> None:
            await jetstream.add_consumer(self.stream, ConsumerConfig(durable_name=self.durable, **config))

        _run(self.url, work)

    def take(self, count: int, acked: Container[int] = (), nacked: Container[int] = ()) -> list[int]:
        """Have messages delivered, and answer those of these sequences; all sequences in the order of delivery."""

        async def work(jetstream: Any) -> list[int]:
            subscription = await jetstream.pull_subscribe_bind(self.durable, self.stream)
            messages = await _fetched(subscription, count)
            for message in messages:
                seq = message.metadata.sequence.stream
                if seq in acked:
                    await message.ack_sync(10)
                if seq in nacked:
                    await message.nak()
            return [message.metadata.sequence.stream for message in messages]

        return _run(self.url, work)

    def rest(self, patience_s: float = 0.7, *, acks: bool = True) -> list[tuple[int, int]]:
        """Have all messages delivered that there are, and acknowledge each if it `acks`: sequences, and how often each
        came."""

        async def work(jetstream: Any) -> list[tuple[int, int]]:
            subscription = await jetstream.pull_subscribe_bind(self.durable, self.stream)
            taken: list[tuple[int, int]] = []
            while messages := await _fetched(subscription, 100, patience_s):
                for message in messages:
                    if acks:
                        await message.ack_sync(10)
                    taken.append((message.metadata.sequence.stream, message.metadata.num_delivered))
            return taken

        return _run(self.url, work)

    def pushed(self, subject: str, queue: str, count: int) -> list[int]:
        """Listen as a member of a queue group until there were `count` messages, and a while longer; acknowledge
        each: sequences."""

        async def work(jetstream: Any) -> list[int]:
            taken: list[int] = []

            async def take(message: Msg) -> None:
                await message.ack()
                taken.append(message.metadata.sequence.stream)

            await jetstream._nc.subscribe(subject, queue=queue, cb=take)
            until = time.monotonic() + 10
            while len(taken) < count and time.monotonic() < until:
                await asyncio.sleep(0.05)
            await asyncio.sleep(0.7)
            return taken

        return _run(self.url, work)


async def _fetched(subscription: Any, count: int, patience_s: float = 5.0) -> list[Msg]:
    try:
        return await subscription.fetch(count, timeout=patience_s)
    except (TimeoutError, NothingMore):  # both mean that nothing more comes
        return []


def _run(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def connected() -> Any:
        client = await nats.connect(url)
        try:
            result = await work(client.jetstream())
            await client.flush()
            return result
        finally:
            await client.close()

    return asyncio.run(connected())
