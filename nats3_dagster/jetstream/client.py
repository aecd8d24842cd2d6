"""The client: nats-py's, with the bulk path, and its errors in one clear line.

The rule kept here: nothing that nats-py meets is logged as an error or lost: it is noted, and told by whoever asked in
vain. No line holds a secret.
"""

import asyncio
import logging
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, Error, SecureConnRequiredError
from nkeys import NkeysError  # pyright: ignore[reportMissingTypeStubs]

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.bulk import BulkParser
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.scan import Frames

log = logging.getLogger(__name__)
# nats-py reads 32 KiB at once: ten times the system calls and parser runs that the bulk path needs.
READ_BYTES = 1 << 20
RECONNECT_WAIT_S = 0.5
RECONNECTS = 60


class WideTransport(TcpTransport):
    """nats-py's TCP transport with reads as large as what has arrived."""

    async def connect(self, uri: Any, buffer_size: int, connect_timeout: float) -> None:
        await super().connect(uri, READ_BYTES, connect_timeout)  # type: ignore[arg-type]

    async def connect_tls(
        self, uri: Any, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: float
    ) -> None:
        try:
            await super().connect_tls(uri, ssl_context, buffer_size, connect_timeout)  # type: ignore[arg-type]
        except BaseException:
            # After a failed handshake nothing tells the plain stream that its socket is gone: nats-py would wait for
            # that for ever when it closes.
            if self._io_writer is not None:
                self._io_writer.transport.abort()
            self._io_reader = self._io_writer = None
            raise

    async def read(self, buffer_size: int) -> bytes:
        return await super().read(READ_BYTES)

    def __bool__(self) -> bool:
        return True  # otherwise nats-py, which finds it unconnected, would make one of its own instead


class Connection(Client):
    """nats-py's client with the bulk path. Make it with `connect`."""

    def __init__(self, options: NatsOptions) -> None:
        super().__init__()
        self._ps = BulkParser(self)
        self._nats3_options = options
        self._address = ""
        self._asked_login = False
        self._faults: dict[str, Exception] = {}
        self._refusals: deque[str] = deque(maxlen=8)
        self._refusal_came = asyncio.Event()
        self.lost = asyncio.Event()
        self.on_loss: list[Callable[[], None]] = []

    @property
    def info(self) -> dict[str, Any]:
        """The server's INFO: version, max_payload and the like."""
        return self._server_info

    @property
    def address(self) -> str:
        """`host:port` of the server that is, or was, used."""
        return self._address

    def divert(self, marker: bytes, sink: Callable[[Frames], None]) -> None:
        """Hand the frames whose control line holds `marker` to `sink`, past nats-py's queues."""
        assert isinstance(self._ps, BulkParser)
        self._ps.divert(marker, sink)

    def post(self, subject: str, reply: str, payload: bytes) -> None:
        """Send one small message, in order with what `send` sends."""
        self.send(b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(payload), payload))

    def send(self, frames: bytes | memoryview) -> bool:
        """Send whole frames past nats-py's pending buffer, which has no bound of use; False when the connection is
        gone. What the socket does not take is kept: the caller bounds it by what is not acknowledged."""
        if self._transport is None or not self.is_connected:
            return False
        self._transport.write(frames)  # type: ignore[arg-type]
        return True

    async def open(self, reconnect: bool) -> None:
        """Connect to one of the servers; each is tried twice. A connection lost later is made again, or is the end."""
        options = self._nats3_options
        await self.connect(
            servers=list(options.servers), name=options.name, error_cb=self._note, disconnected_cb=self._on_loss,
            closed_cb=self._on_loss, connect_timeout=options.connect_timeout_s,  # type: ignore[arg-type]
            max_reconnect_attempts=1, reconnect_time_wait=0.1, ping_interval=20,  # type: ignore[arg-type]
            tls=options.ssl_context() if options.wants_tls else None, tls_handshake_first=options.tls_first,
            user=options.user, password=options.password, token=options.token, user_credentials=options.creds,
            nkeys_seed=options.nkey,
        )  # fmt: skip
        if not self.is_connected:
            # A server that hangs up instead of answering; nats-py would try again for ever in the background.
            fault = ConnectionResetError("it closed the connection")
            await self._note(fault)
            raise fault
        self.options |= {
            "allow_reconnect": reconnect, "max_reconnect_attempts": RECONNECTS, "reconnect_time_wait": RECONNECT_WAIT_S,
        }  # fmt: skip

    def abort(self) -> None:
        """Drop the connection, and what the system has not sent of it: nothing of ours may arrive later."""
        writer = self._transport._io_writer if isinstance(self._transport, WideTransport) else None  # pyright: ignore[reportPrivateUsage]
        if writer is not None and self.is_connected:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def refused(self, subject: str) -> str:
        """Wait until the server says that we may not publish to `subject`, or receive answers; what it said."""
        self._refusals.clear()
        while True:
            self._refusal_came.clear()
            for refusal in self._refusals:
                if f'"{subject.lower()}"' in refusal or "subscription" in refusal:
                    return refusal
            await self._refusal_came.wait()

    def failure(self) -> SourceError:
        """Why no server took us: the last fault of each, in one line."""
        faults = [_describe(address, fault) for address, fault in self._faults.items()]
        whats = list(dict.fromkeys(what for what, _ in faults))
        hint = next((hint for _, hint in faults if hint), "Check NATS3_NATS_URL, and that the server runs")
        return SourceError("; ".join(whats) or "NATS does not answer", hint)

    async def _connect_to_server(self, s: Srv) -> None:
        self._address = f"{s.uri.hostname}:{s.uri.port or 4222}"
        self._asked_login = False
        if s.uri.scheme in ("nats", "tls"):
            self._transport = WideTransport()
        await super()._connect_to_server(s)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._nats3_options.wants_tls and info.get("tls_available"):
            info["tls_required"] = True  # nats-py knows only servers that insist
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        options = self._nats3_options
        self._asked_login = bool(self._server_info.get("auth_required"))
        if options.wants_tls and not options.tls_first and not self._server_info.get("tls_required"):
            raise SecureConnRequiredError  # before a login goes out in clear
        return super()._connect_command()

    async def _note(self, error: Exception) -> None:
        log.debug("NATS at %s: %s", self._address, error)
        if "permissions violation" in str(error).lower():
            self._refusals.append(str(error).removeprefix("nats: "))
            self._refusal_came.set()
        elif self._asked_login and isinstance(error, ConnectionError):
            # The server refuses and hangs up, and the reset may overtake its words.
            self._faults[self._address] = AuthorizationError()
        else:
            self._faults[self._address] = error

    async def _on_loss(self) -> None:
        self.lost.set()
        for callback in self.on_loss:
            callback()


async def connect(options: NatsOptions, *, reconnect: bool = True) -> Connection:
    """A connection to one of the servers. Raises OperatorError for files that are none, SourceError in one line when no
    server takes us."""
    options.check_files()
    client = Connection(options)
    try:
        await client.open(reconnect)
    except (TimeoutError, Error, OSError) as error:
        await client.close()
        failure = client.failure()
        raise failure from error
    except (NkeysError, ValueError) as error:
        with suppress(AssertionError):  # nats-py, of a client that did not come as far as a socket
            await client.close()
        raise SourceError("The NATS login's key is malformed", "Check the creds file or nkey seed") from error
    return client


def _describe(address: str, error: Exception) -> tuple[str, str]:
    """One line and a hint for what a server, or the way to it, did."""
    text = str(error).lower()
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message or "it cannot be verified"
        what = f"The TLS certificate of NATS at {address} is not trusted: {reason}"
        return what, "Set NATS3_NATS_TLS_CA to the file of its authority"
    if isinstance(error, SecureConnRequiredError):
        return f"NATS at {address} offers no TLS", "Use nats:// without TLS files, or configure tls on the server"
    if isinstance(error, ssl.SSLError):
        return (
            f"TLS with NATS at {address} failed: {error.reason or 'no common protocol'}",
            "Check the TLS files; a server that verifies clients needs NATS3_NATS_TLS_CERT and NATS3_NATS_TLS_KEY",
        )
    if isinstance(error, socket.gaierror):
        return f"The host of NATS at {address} is unknown", "Check NATS3_NATS_URL"
    if isinstance(error, ConnectionRefusedError):
        return f"Nothing listens for NATS at {address}", "Start the server, or check NATS3_NATS_URL"
    if "authorization" in text or "authentication" in text:
        return f"NATS at {address} refused the login", "Check the user, password, token, creds file or nkey"
    if isinstance(error, TimeoutError):
        return f"NATS at {address} did not answer in time", "Check NATS3_NATS_URL, and that it is a NATS server"
    if isinstance(error, OSError):
        return f"NATS at {address} cannot be reached: {error.strerror or error}", ""
    return f"NATS at {address}: {str(error).removeprefix('nats: ') or type(error).__name__}", ""
