"""nats-py's WebSocket transport for the bulk path: what is written is sent at once, in its order.

Invariant: what fails here is an OSError, as of a socket: nats-py reconnects on that.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable
from typing import Any

from nats.aio.transport import WebSocketTransport

SCHEMES = ("ws", "wss")
# For what the loop has to do after a connection was dropped.
CLOSED_S = 0.05


class WebSocket(WebSocketTransport):
    """One connection. It has no limit for what waits to be sent: callers bound it by what is not acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self._sending: asyncio.Task[None] | None = None
        self._fault: OSError | None = None

    async def connect(self, uri: Any, buffer_size: int, connect_timeout: float) -> None:
        await self._within(super().connect(uri, buffer_size, _closing(connect_timeout)), connect_timeout)

    async def connect_tls(
        self, uri: Any, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: float
    ) -> None:
        connecting = super().connect_tls(uri, ssl_context, buffer_size, _closing(connect_timeout))
        await self._within(connecting, connect_timeout)

    def write(self, payload: bytes | memoryview) -> None:
        super().write(bytes(payload))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def drain(self) -> None:
        if self._sending:
            await asyncio.shield(self._sending)
        if self._fault:
            raise self._fault

    def abort(self) -> None:
        """Drops the connection, and the data that the system has not sent."""
        if transport := self._transport:
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()

    async def wait_closed(self) -> None:
        transport = self._transport
        await super().wait_closed()
        if transport:
            # TLS takes its time to say goodbye, and the loop is closed before.
            transport.abort()
            await asyncio.sleep(CLOSED_S)

    @property
    def _transport(self) -> Any:
        """The transport of the loop; None without a connection."""
        connection = getattr(self._ws, "_conn", None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return connection.transport if connection else None

    async def give_up(self) -> None:
        """Ends a connection that was not made."""
        self.close()
        await self.wait_closed()

    async def _within(self, connecting: Awaitable[None], timeout: float) -> None:
        import aiohttp

        try:
            await asyncio.wait_for(connecting, timeout)
        except aiohttp.ClientConnectorError as error:
            raise error.os_error from error
        except (OSError, TimeoutError):
            raise
        except aiohttp.ClientError as error:
            raise ConnectionError(f"it is no WebSocket of NATS ({type(error).__name__})") from error

    async def _send(self) -> None:
        try:
            await super().drain()
        except OSError as error:
            self._fault = error


def _closing(seconds: float) -> Any:
    """Returns the time that a connection may take to close, as aiohttp has it where nats-py hands on a number."""
    import aiohttp

    return aiohttp.ClientWSTimeout(ws_close=seconds)  # pyright: ignore[reportCallIssue]
