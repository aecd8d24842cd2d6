"""nats-py's client with the bulk path: frames of one subscription pass from the socket to a callback in blocks.

Invariant: nothing that nats-py meets is logged as an error or lost. It is kept for who asked in vain.
"""

import asyncio
import json
import logging
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from nats.aio.client import Client, RawCredentials, Srv
from nats.aio.transport import TcpTransport
from nats.errors import AuthorizationError, Error, ProtocolError, SecureConnRequiredError
from nats.protocol.parser import Parser
from nkeys import NkeysError  # pyright: ignore[reportMissingTypeStubs]

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.blocks import read_block
from nats3_dagster.jetstream.login_files import jwt_end, seed_of
from nats3_dagster.jetstream.nats_options import API, NatsOptions
from nats3_dagster.jetstream.read.scan import FrameError, Frames, frame_end, scan
from nats3_dagster.jetstream.websocket import SCHEMES, WebSocket

log = logging.getLogger(__name__)
# The loop stops reading when twice as much waits. nats-py's 32 KiB would stop it at each read of uvloop.
READ_BYTES = 1 << 20
# A read of this size is not copied for the part of a frame that came before it.
_LARGE_READ = 32 << 10
RECONNECT_WAIT_S = 0.5
RECONNECTS = 60
# Where a URL names none.
_PORTS = {"ws": 80, "wss": 443}
# How long after its end a creds file may be replaced.
RENEWAL_S = 10.0
# More than any payload a server can be configured for (64 MiB): a length beyond it is garbage and not a message.
MAX_FRAME = 1 << 28


# What a server says before it ends the connection of a JWT, or of an authentication callout, that has expired.
_EXPIRED = "authentication expired"


def is_login_fault(error: Exception) -> bool:
    """True if the server refused the login. One that expired was good until then."""
    text = str(error).lower()
    return ("authorization" in text or "authentication" in text) and _EXPIRED not in text


def login_refused(address: str, *, expired: bool = False) -> SourceError:
    """The error of a login that the server refused, because its JWT has `expired` or for another reason."""
    if expired:
        return SourceError(
            f"NATS at {address} refused the login: it has expired", "Give a new creds file: does what renews it run?"
        )
    return SourceError(
        f"NATS at {address} refused the login", "Check the user, password, token, creds file or nkey: was it changed?"
    )


class BulkParser(Parser):
    """nats-py's parser, with the frames of one subscription taken out of it in blocks.

    Invariants: whatever is not such a frame goes to nats-py's own parser, whole, in its order. Only ProtocolError
    leaves it, because nats-py reconnects on that and stops reading for good on anything else."""

    _marker: bytes | None = None
    _sink: Callable[[Frames], None] | None = None

    def divert(self, marker: bytes, sink: Callable[[Frames], None]) -> None:
        """Hand frames with `marker` in their control line to `sink` from now on, in blocks."""
        self._marker, self._sink = marker, sink

    def reset(self) -> None:
        """Forget what came before: the connection is a new one."""
        super().reset()
        self._unparsed: list[bytes] = []
        self._unparsed_size = 0
        self._wanted_size = 0

    async def parse(self, data: bytes = b"") -> None:
        """Take all complete frames out of what came so far. Raises ProtocolError."""
        self._unparsed.append(data)
        self._unparsed_size += len(data)
        # A large message comes in many reads: joining them at each would copy it again and again.
        if self._unparsed_size < self._wanted_size:
            return
        before = b"".join(self._unparsed[:-1])
        self._unparsed, self._unparsed_size, self._wanted_size = [], 0, 0
        try:
            start = self._rest_of(before, data)
            if start and await self._parse(before + data[:start]) < len(before) + start:
                raise FrameError("NATS sent a message whose end is not where its size says")
            buffer, at = (data, start) if start or not before else (before + data, 0)
            at = await self._parse(buffer, at)
        except (ProtocolError, OSError):
            raise
        except Exception as error:
            raise ProtocolError from error
        if at < len(buffer):
            self._unparsed = [buffer[at:]]
            self._unparsed_size = len(buffer) - at

    def _rest_of(self, before: bytes, data: bytes) -> int:
        """Returns where in a large read the frame ends that began in `before`, so that only this frame is copied; 0
        where there is none, or it goes on, or all may be joined. Raises FrameError."""
        if not before or len(data) < _LARGE_READ:
            return 0
        start = before + data[:_LARGE_READ]
        if b"\r\n" not in start:
            return 0
        end = frame_end(start, 0) - len(before)
        return end if end <= len(data) else 0

    async def _parse(self, buffer: bytes, at: int = 0) -> int:
        """Takes the frames from `at` on, and returns where the first one begins that is not whole."""
        while at < len(buffer):
            if self._marker is not None and self._sink is not None:
                frames = scan(buffer, at, self._marker)
                if len(frames):
                    self._sink(frames)
                    at = frames.end
                    continue
            end = frame_end(buffer, at)
            if end > len(buffer):
                if end - at > MAX_FRAME:
                    raise FrameError(f"NATS announced a message of {end - at} bytes")
                self._wanted_size = end - at
                break
            await super().parse(buffer[at:end])
            at = end
        return at


class WideTransport(TcpTransport):
    """nats-py's TCP transport, whose reads are what the loop delivers."""

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
        assert self._io_reader is not None
        return await read_block(self._io_reader)

    def __bool__(self) -> bool:
        return True  # otherwise nats-py, which finds it unconnected, would make one of its own instead


class Connection(Client):
    """A connection with the bulk path. Make it with `link.connect`."""

    def __init__(self, options: NatsOptions) -> None:
        super().__init__()
        self._ps = BulkParser(self)
        self._nats3_options = options
        self._address = ""
        self._asked_login = False
        # Of the login's JWT: when it was sent and when it ends, of time.time; None where it has no end.
        self._login_sent = 0.0
        self._login_ends: float | None = None
        self._login_ended = False  # the server said so
        self._ended_by_login = False  # the login had expired when the connection was lost
        self._faults: dict[str, Exception] = {}
        self._refusals: deque[str] = deque(maxlen=8)
        self._refusal_came = asyncio.Event()
        self.lost = asyncio.Event()
        self.on_loss: list[Callable[[], None]] = []
        self.on_refusal: list[Callable[[str], None]] = []  # called with what the server says

    @property
    def info(self) -> dict[str, Any]:
        """The server's INFO: version, max_payload and the like."""
        return self._server_info

    @property
    def address(self) -> str:
        """`host:port` of the server that is, or was, used."""
        return self._address

    @property
    def api(self) -> str:
        """Returns the prefix of the subjects of JetStream's API (NatsOptions.api)."""
        return self._nats3_options.api

    @property
    def domain(self) -> str | None:
        """The JetStream domain of the streams; None: that of the server."""
        return self._nats3_options.domain

    @property
    def is_imported(self) -> bool:
        """True if JetStream's API is that of another account."""
        return self._nats3_options.api_prefix not in (None, API)

    @property
    def inbox_prefix(self) -> str:
        """Returns the prefix of this client's inboxes."""
        return self._nats3_options.inbox_prefix

    @property
    def is_own_jetstream(self) -> bool:
        """True if JetStream's API is that of the server itself and of this account there."""
        options = self._nats3_options
        return options.api == API or (options.domain is not None and options.domain == self.info.get("domain"))

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

    async def flush(self, timeout: int = 10) -> None:
        """Wait for the server's PONG: it has then read all that was published and subscribed before. nats-py's own PING
        overtakes commands that still wait in its pending buffer."""
        if self._transport is not None and self.is_connected and self._pending_data_size:
            self._transport.writelines(self._pending[:])
            self._pending, self._pending_data_size = [], 0
        await super().flush(timeout)

    async def open(self, reconnect: bool, echo: bool) -> None:
        """Connect to one of the servers; each is tried twice. A connection lost later is made again, or is the end.
        Without `echo` its own messages do not come to its own subscriptions."""
        options = self._nats3_options
        seed = seed_of(options.nkey) if options.nkey else None
        await self.connect(
            servers=list(options.servers),
            name=options.name,
            error_cb=self._note,
            disconnected_cb=self._on_disconnect,
            closed_cb=self._on_loss,
            reconnected_cb=self._on_reconnect,
            connect_timeout=options.connect_timeout_s,  # type: ignore[arg-type]
            max_reconnect_attempts=1,
            reconnect_time_wait=0.1,  # type: ignore[arg-type]
            ping_interval=20,  # type: ignore[arg-type]
            tls=options.ssl_context() if options.wants_tls else None,
            tls_handshake_first=options.tls_first,
            user=options.user,
            password=options.password,
            token=options.token,
            user_credentials=options.credentials or (RawCredentials(options.raw_creds) if options.raw_creds else None),
            nkeys_seed=options.nkey if isinstance(options.nkey, str) and not seed else None,
            nkeys_seed_str=seed,
            no_echo=not echo,
            inbox_prefix=options.inbox_prefix,
        )
        if not self.is_connected:
            # A server that hangs up instead of answering; nats-py would try again for ever in the background.
            fault = ConnectionResetError("it closed the connection")
            await self._note(fault)
            raise fault
        self._faults.clear()
        self.options |= {
            "allow_reconnect": reconnect,
            "max_reconnect_attempts": RECONNECTS,
            "reconnect_time_wait": RECONNECT_WAIT_S,
        }

    @property
    def _uses_wss(self) -> bool:
        return self._current_server is not None and self._current_server.uri.scheme == "wss"

    def abort(self) -> None:
        """Drops the connection, and the data that the system has not sent: no message may arrive later."""
        if isinstance(self._transport, WebSocket) and self.is_connected:
            self._transport.abort()
            return
        writer = self._transport._io_writer if isinstance(self._transport, WideTransport) else None  # pyright: ignore[reportPrivateUsage]
        if writer is not None and self.is_connected:
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def give_up(self) -> None:
        """Drop the socket of an attempt to connect that was cancelled, which nats-py leaves open."""
        if isinstance(self._transport, WebSocket):
            await self._transport.give_up()
            return
        if isinstance(self._transport, WideTransport) and self._transport._io_writer is not None:  # pyright: ignore[reportPrivateUsage]
            self._transport._io_writer.transport.abort()  # pyright: ignore[reportPrivateUsage]
            await asyncio.sleep(0)  # it is closed by the loop's next turn

    async def refused(self, subject: str) -> str:
        """Wait until the server says that we may not publish to `subject`, or receive no answers. Returns its words."""
        self._refusals.clear()
        names = self._names(subject)
        while True:
            self._refusal_came.clear()
            for refusal in self._refusals:
                if any(name in refusal for name in names) or "subscription" in refusal:
                    return refusal
            await self._refusal_came.wait()

    def refusal_of(self, subject: str) -> str | None:
        """Returns the server's refusal if this user may not publish to `subject`, or not subscribe to it. Complete
        after a `flush`."""
        names = self._names(subject)
        return next((refusal for refusal in self._refusals if any(name in refusal for name in names)), None)

    def _names(self, subject: str) -> tuple[str, ...]:
        """Returns the names that a refusal may use for the subject. A server that has the domain itself maps the
        domain's API to its own, and looks at permissions after that (seen on 2.9.10 and 2.15.1)."""
        rest = subject.removeprefix(f"{self.api}.")
        return tuple(f'"{name.lower()}"' for name in {subject, f"{API}.{rest}" if rest != subject else subject})

    @property
    def faults(self) -> Mapping[str, Exception]:
        """The last fault of each server, or of the way to it, by `host:port`."""
        return self._faults

    @property
    def login_error(self) -> SourceError | None:
        """The error if the server refused this login since the connection was last good: a password was changed, or a
        user was removed. The same error if the connection ended with its login and is not made again."""
        # A server whose configuration is loaded again says so before it hangs up: nats-py keeps that as its last error.
        faults = (self._faults.get(self._address), None if self.is_connected else self.last_error)
        if any(fault and is_login_fault(fault) for fault in faults):
            return login_refused(self._address, expired=self.login_ended)
        if self.is_closed and not self.options["allow_reconnect"]:
            # What expires after the connection was lost did not end it.
            has_expired = self._ended_by_login if self.lost.is_set() else self.login_ended
            return login_refused(self._address, expired=True) if has_expired else None
        return None

    @property
    def login_ended(self) -> bool:
        """True if the login has expired since the connection was last good. A server hangs up then, and its words may
        be lost."""
        return self._login_ended or (self._login_ends is not None and time.time() >= self._login_ends)

    @property
    def is_login_old(self) -> bool:
        """True if the login has an end, and less than half of its time is left."""
        return self._login_ends is not None and time.time() > (self._login_sent + self._login_ends) / 2

    @property
    def awaits_renewal(self) -> bool:
        """True if the login is a creds file that has expired just now: what renews it may do so any moment."""
        ends = self._login_ends if self._nats3_options.credentials else None
        return ends is not None and ends <= time.time() < ends + RENEWAL_S

    async def _on_reconnect(self) -> None:
        self._faults.clear()
        self._login_ended = False

    async def _connect_to_server(self, s: Srv) -> None:
        self._address = f"{s.uri.hostname}:{s.uri.port or _PORTS.get(s.uri.scheme, 4222)}"
        self._asked_login = False
        # nats-py leaves the socket of an attempt open that the server refused.
        await self.give_up()
        self._transport = WebSocket() if s.uri.scheme in SCHEMES else WideTransport()
        try:
            await super()._connect_to_server(s)
        except BaseException:
            if isinstance(self._transport, WebSocket):
                await self._transport.give_up()
            raise

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self._nats3_options.wants_tls and info.get("tls_available"):
            info["tls_required"] = True  # nats-py knows only servers that insist
        if isinstance(self._transport, WebSocket):
            info.pop("connect_urls", None)  # nats-py would connect to them without WebSocket
        await super()._process_info(info, initial_connection)

    def _connect_command(self) -> bytes:
        options = self._nats3_options
        self._asked_login = bool(self._server_info.get("auth_required"))
        is_encrypted = self._server_info.get("tls_required") or self._uses_wss
        if options.wants_tls and not options.tls_first and not is_encrypted:
            raise SecureConnRequiredError  # before a login goes out in clear
        try:
            command = super()._connect_command()
        except (NkeysError, ValueError) as error:
            if not self.is_reconnecting:
                raise
            # A creds file that is being written: nats-py would stop connecting for good.
            raise Error("nats: the login's key is malformed") from error
        self._login_sent, self._login_ends = time.time(), jwt_end(json.loads(command.partition(b" ")[2]).get("jwt"))
        return command

    async def _process_err(self, err_msg: str) -> None:
        if _EXPIRED in err_msg.lower():
            # nats-py would close the connection for good. A creds file is read again at each connection.
            self._login_ended = True
            await self._process_op_err(Error(f"nats: {err_msg}"))
        else:
            await super()._process_err(err_msg)

    async def _process_pong(self) -> None:
        waiting: list[asyncio.Future[bool]] = self._pongs  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if waiting and waiting[0].done():
            # Of a flush that was given up: nats-py would fail on the late answer, and reconnect.
            waiting.pop(0)
            self._pings_outstanding = 0
            return
        await super()._process_pong()

    async def _note(self, error: Exception) -> None:
        log.debug("NATS at %s: %s", self._address, error)
        if "permissions violation" in str(error).lower():
            self._refusals.append(str(error).removeprefix("nats: "))
            self._refusal_came.set()
            for callback in self.on_refusal:
                callback(self._refusals[-1])
        elif self._asked_login and not self.is_connected and isinstance(error, ConnectionError):
            # The server refuses and hangs up, and the reset may overtake its words.
            self._faults[self._address] = AuthorizationError()
        else:
            self._faults[self._address] = error

    async def _on_disconnect(self) -> None:
        self._ended_by_login = self.login_ended
        await self._on_loss()

    async def _on_loss(self) -> None:
        self.lost.set()
        for callback in self.on_loss:
            callback()
