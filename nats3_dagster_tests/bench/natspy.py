"""The plain client, used as an engineer would first: `fetch` in a loop, and `publish_async`."""

import asyncio
import time

import nats


def fetch(url: str, stream: str, subject: str, messages: int) -> float:
    """Seconds to fetch that many messages of an ack-none pull consumer, 1000 at a time."""

    async def run() -> float:
        from nats.js.api import AckPolicy, ConsumerConfig

        client = await nats.connect(url)
        js = client.jetstream()
        subscription = await js.pull_subscribe(subject, stream=stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
        received, began = 0, time.perf_counter()
        while received < messages:
            received += len(await subscription.fetch(min(1000, messages - received), timeout=10))
        elapsed_s = time.perf_counter() - began
        await client.close()
        return elapsed_s

    return asyncio.run(run())


def publish(url: str, subject: str, payloads: list[bytes], headers: dict[str, str] | None, messages: int) -> float:
    """Seconds until `messages` asynchronous publishes are acknowledged, 4000 (the client's default) under way."""

    async def run() -> float:
        client = await nats.connect(url)
        js = client.jetstream(publish_async_max_pending=4000)
        began = time.perf_counter()
        for at in range(messages):
            await js.publish_async(subject, payloads[at % len(payloads)], headers=headers)
        await js.publish_async_completed()
        elapsed_s = time.perf_counter() - began
        await client.close()
        return elapsed_s

    return asyncio.run(run())
