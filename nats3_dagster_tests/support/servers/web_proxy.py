"""A reverse proxy for HTTP in front of a server's WebSocket: another path, and frames of other sizes."""

import asyncio
import threading
from types import TracebackType
from typing import Any

import aiohttp
from aiohttp import web

from nats3_dagster.dev.process import free_port

# Bytes of a frame that it passes on, at most: a frame of the server, or of the client, becomes several.
PIECE = 10_000


class WebProxy:
    """Listens on `url`, as a context manager, and passes on to the WebSocket of a server at `target`."""

    def __init__(self, target: str) -> None:
        self._target, self._port = target, free_port()
        self.url = f"ws://127.0.0.1:{self._port}/nats/ws"
        self.passed = 0  # connections
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "WebProxy":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_get("/nats/ws", self._pass_on)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def _pass_on(self, request: web.Request) -> web.WebSocketResponse:
        self.passed += 1
        client = web.WebSocketResponse(max_msg_size=0)
        await client.prepare(request)
        async with aiohttp.ClientSession() as session, session.ws_connect(self._target, max_msg_size=0) as server:
            ways = [asyncio.create_task(_relay(*way)) for way in ((client, server), (server, client))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
        return client


async def _relay(source: Any, target: Any) -> None:
    async for message in source:
        for at in range(0, len(message.data), PIECE):
            await target.send_bytes(message.data[at : at + PIECE])
