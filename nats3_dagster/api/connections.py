"""Connections: TLS, how many there may be, and how long a client may take to ask."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from nats3_dagster.api.problems import answer, refused
from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import shown_path

# Connections from which requests are answered with 503, and from which on they are closed at once.
MOST_ANSWERED, MOST_OPEN = 500, 700
# Seconds from a connection, or from the first byte of a further request, until all of the request has come. Against a
# client that sends a byte now and then; 1 MiB in this time is 35 KB/s.
REQUEST_S = 30.0
# Seconds for which a connection waits for a further request.
IDLE_S = 5
# Bytes of a request's line and headers: by what has come before their end, and by all of them once they have.
HEADER_BYTES = 16_384
# What a response has before its body where h11 refuses a request.
_REFUSALS = {
    431: ("Request Header Fields Too Large", f"The request's line and headers have more than {HEADER_BYTES:,} bytes"),
    501: ("Not Implemented", "The request's transfer encoding is none that this server knows"),
}
_MALFORMED = ("Bad Request", "The request is no HTTP/1.1")
_TLS_HINT = "Correct NATS3_API_TLS_CERT and NATS3_API_TLS_KEY: PEM files, the certificate first and then its chain"


def tls_context(files: tuple[str, str]) -> ssl.SSLContext:
    """Returns the context that serves TLS 1.2 and later by the certificate and key of these PEM files. Raises
    OperatorError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    cert, key = files
    for file in files:
        try:
            with Path(file).open("rb"):
                pass
        except OSError as error:
            at = f" {shown}" if (shown := shown_path(file)) else ""
            raise OperatorError(f"The API's TLS file{at} cannot be read: {error.strerror}", _TLS_HINT) from None
    try:
        # Without a function OpenSSL would ask for the password at the terminal.
        context.load_cert_chain(cert, key, password=lambda: "")
    except ssl.SSLError as error:
        # OpenSSL gives no reason for a file that it cannot decode.
        reason = error.reason or "one of them is not PEM, or the key is encrypted"
        if reason == "KEY_VALUES_MISMATCH":
            reason = "the key is not that of the certificate"
        raise OperatorError(f"The API's TLS files {cert} and {key} cannot be used: {reason}", _TLS_HINT) from None
    return context


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with a time limit for requests, which it does not have, a limit of connections, a limit of
    line and headers that also holds for what comes in one read, and problems for what it refuses."""

    _deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.conn: _Requests = _Requests(h11.SERVER, HEADER_BYTES)
        self._answering, self.app = self.app, self._answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_OPEN:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._wait()
        super().data_received(data)
        if self.conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR):
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answers what h11 refused by a problem, and ends the connection. Where an answer has begun already, only that
        is possible."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            title, what = _REFUSALS.get(self.conn.refusal, _MALFORMED)
            status = self.conn.refusal if self.conn.refusal in _REFUSALS else 400
            response = answer(refused(status, title, what, "Ask again with less, and as HTTP/1.1 has it"))
            headers = [*response.raw_headers, (b"connection", b"close")]
            for event in (
                h11.Response(status_code=status, headers=headers, reason=title.encode()),
                h11.Data(data=bytes(response.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, or a problem where too many connections are open. uvicorn's own limit answers text."""
        if len(self.connections) < MOST_ANSWERED:
            await self._answering(scope, receive, send)
            return
        what = "The server has too many connections"
        await answer(refused(503, "Service Unavailable", what, "Ask again later"))(scope, receive, send)

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S, self._too_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self.transport.abort()


class _Requests(h11.Connection):
    """h11's requests, those with more than `most` bytes of line and headers refused."""

    def __init__(self, role: type[h11.SERVER], most: int) -> None:
        super().__init__(role, most)
        self._most = most
        # The status of the request that was refused.
        self.refusal = 400

    def next_event(self) -> Any:
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            self.refusal = error.error_status_hint
            raise
        if isinstance(event, h11.Request):
            # Between the parts of a line, and between a name and its value, are two bytes; each line ends with two.
            size = len(event.method) + len(event.target) + len(b"HTTP/1.1") + 4
            size += sum(len(name) + len(value) + 4 for name, value in event.headers) + 2
            if size > self._most:
                self.refusal = 431
                raise h11.RemoteProtocolError("line and headers are too long", self.refusal)
        return event


def limits() -> dict[str, Any]:
    """Returns the limits that uvicorn itself has to know. Its other protocol has no limit for headers."""
    return {
        "http": PatientProtocol,
        "ws": "none",
        "timeout_keep_alive": IDLE_S,
        "h11_max_incomplete_event_size": HEADER_BYTES,
        # Nothing here uses the client's address, so no proxy header has to be trusted.
        "proxy_headers": False,
    }
