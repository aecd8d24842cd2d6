"""Connections: TLS, how many there may be, and how long a client may take to ask."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import shown_path

# Connections from which requests are answered with 503, and from which on they are closed at once.
MOST_ANSWERED, MOST_OPEN = 500, 700
# Seconds from a connection, or from the first byte of a further request, until all of the request has come. Against a
# client that sends a byte now and then; 1 MiB in this time is 35 KB/s.
REQUEST_S = 30.0
# Seconds for which a connection waits for a further request.
IDLE_S = 5
# Bytes of a request's line and headers.
HEADER_BYTES = 16_384
_TLS_HINT = "Correct NATS3_API_TLS_CERT and NATS3_API_TLS_KEY: PEM files, the certificate first and then its chain"


def tls_context(files: tuple[str, str]) -> ssl.SSLContext:
    """What serves TLS 1.2 and later by the certificate and key of these PEM files. Raises OperatorError."""
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
    """uvicorn's protocol with a time limit for requests, which it does not have, and a limit of connections."""

    _deadline: asyncio.TimerHandle | None = None

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

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_S, self._too_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self.transport.abort()


def limits() -> dict[str, Any]:
    """What of this uvicorn itself has to know. Its other protocol has no limit for headers."""
    return {
        "http": PatientProtocol, "ws": "none", "limit_concurrency": MOST_ANSWERED, "timeout_keep_alive": IDLE_S,
        "h11_max_incomplete_event_size": HEADER_BYTES,
        # Nothing here asks who the client is, so nobody has to be believed about it.
        "proxy_headers": False,
    }  # fmt: skip
