"""A client of the archives' domain."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

from nats.aio.client import Client

T = TypeVar("T")


class DomainClient:
    """A client of nats-py, in a loop of its own."""

    def __init__(self, url: str, **options: Any) -> None:
        self._url, self._options = url, options

    def __enter__(self) -> "DomainClient":
        self._runner = asyncio.Runner()
        self.client = Client()
        self.run(self.client.connect(self._url, **self._options))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.client.close())
        self._runner.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the client's loop."""
        return self._runner.run(work)

    def ask(self, subject: str, body: Any = b"", timeout: float = 10) -> Any:
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.run(self.client.request(subject, payload, timeout=timeout))

    def get(self, seq: int, stream: str = "EV") -> tuple[str, bytes]:
        """The status, empty for a message, and its payload."""
        message = self.ask(f"$JS.archive.API.DIRECT.GET.{stream}", {"seq": seq})
        return status_of(message), message.data

    def batch(
        self, stream: str, body: dict[str, Any], api: str = "$JS.archive.API", *, timeout: float = 10
    ) -> list[Any]:
        """The replies to a request for several messages, the end of them as the last."""

        async def work() -> list[Any]:
            inbox, found = self.client.new_inbox(), list[Any]()
            subscription = await self.client.subscribe(inbox)
            await self.client.publish(f"{api}.DIRECT.GET.{stream}", json.dumps(body).encode(), reply=inbox)
            while not found or not status_of(found[-1]):
                found.append(await subscription.next_msg(timeout=timeout))
            await subscription.unsubscribe()
            return found

        return self.run(work())

    def collect(self, subject: str, seconds: float = 0.5) -> list[dict[str, Any]]:
        """All answers to one request."""

        async def work() -> list[dict[str, Any]]:
            inbox, found = self.client.new_inbox(), list[dict[str, Any]]()

            async def receive(message: Any) -> None:
                found.append(json.loads(message.data))

            await self.client.subscribe(inbox, cb=receive)
            await self.client.publish(subject, b"", reply=inbox)
            await asyncio.sleep(seconds)
            return found

        return self.run(work())


def status_of(message: Any) -> str:
    """The status of a reply that is no message; empty for a message, which may have a header of that name."""
    headers = message.headers or {}
    return "" if "Nats-Sequence" in headers else headers.get("Status", "")
