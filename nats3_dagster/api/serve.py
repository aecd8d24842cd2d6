"""The server: uvicorn runs the application until it is interrupted."""

import contextlib
import errno
import logging
import os
import socket
import threading
from collections.abc import Callable, Generator

import uvicorn

from nats3_dagster.addresses import malformed
from nats3_dagster.api.app import create_app
from nats3_dagster.api.connections import limits, tls_context
from nats3_dagster.api.security import check_reach, is_loopback, names_of
from nats3_dagster.api.tokens import Tokens
from nats3_dagster.documents.domain_metrics import DomainCounts
from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.settings.fields import listen_address

log = logging.getLogger(__name__)
# How long requests that are under way may take when the server ends.
GRACE_S = 60
# And from then on until the process ends by itself.
_LAST_S = 5
_BACKLOG = 2048


def address(listen: str) -> tuple[str, int]:
    """Host and port of `--listen` (settings.fields.listen_address). Raises OperatorError."""
    try:
        return listen_address(listen)
    except ValueError as error:
        raise malformed("--listen", str(error)) from None


def host_alone(host: str) -> str:
    """The host of `--host`. Raises OperatorError for a text that can be none."""
    bare = host.strip("[]")
    try:
        return listen_address(f"[{bare}]:0" if ":" in bare else f"{bare}:0")[0]
    except ValueError:
        raise OperatorError("The host is not one to listen on", "Write it as 127.0.0.1, ::1 or 0.0.0.0") from None


def serve(
    settings: Settings,
    host: str,
    port: int,
    on_listening: Callable[[str], object],
    domains: Callable[[], list[DomainCounts]] = list,
) -> None:
    """Serve until SIGINT or SIGTERM; requests that are under way are answered first. `on_listening` is called with the
    URL once it answers; of port 0 it has the port that was free. `domains`: see `create_app`. Raises EngineError if it
    cannot listen there, OperatorError if tokens or TLS are not set as they must be."""
    tokens, files = Tokens.of(settings), settings.api_tls
    tls = tls_context(files) if files else None
    with _listener(host, port) as listener:
        shown, actual = listener.getsockname()[:2]
        check_reach(tokens, shown)
        if tokens and not tls and not is_loopback(shown):
            log.warning("Tokens come unencrypted. Set NATS3_API_TLS_CERT and NATS3_API_TLS_KEY, or put TLS before it")
        url = f"{'https' if tls else 'http'}://{f'[{shown}]' if ':' in shown else shown}:{actual}"
        app = create_app(settings, names_of(tokens, host), domains)
        # Its own lines are for --debug: nats3 logs everything for the operator. Its log of requests would have their
        # unfiltered addresses, tokens included: request_log.py replaces it.
        config = uvicorn.Config(
            app,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=GRACE_S,
            access_log=False,
            ssl_context_factory=(lambda *_: tls) if tls else None,
            **limits(),
        )
        # A thread that works on a request is waited for without an end. Then the process ends by itself, as if it were
        # killed: every piece of work has to stand that.
        last = threading.Timer(GRACE_S + _LAST_S, _exit)
        last.daemon = True

        def end() -> None:
            app.state.ending.set()
            last.start()

        server = _Server(config, lambda: on_listening(url), end)
        try:
            server.run(sockets=[listener])
        finally:
            last.cancel()
    if not server.started:
        raise EngineError("The API did not start", "Run it again in debug mode: the log has the reason")


def _exit() -> None:
    log.warning("Requests that do not end: the server ends without them")
    os._exit(1)


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, on_listening: Callable[[], object], on_ending: Callable[[], object]
    ) -> None:
        super().__init__(config)
        self._on_listening, self._on_ending = on_listening, on_ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_ending()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """A signal ends the server, and that is a success: uvicorn would raise it once more."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise OperatorError(f"There is no address {host} to listen on: {error.strerror}", "Correct the host") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise EngineError(
                f"Port {port} of {host} is in use",
                "End what listens there, or choose another port (0: any that is free)",
            ) from error
        raise EngineError(
            f"The API cannot listen on {host}:{port}: {error.strerror}", "Choose another host or port"
        ) from error
    return listener
