"""Connecting to NATS, and links: connections for callers without an event loop (Spark tasks, Dagster, commands).

Invariant: an exception of nats-py leaves here as a nats3 error, in one line that holds no secret.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import Future as ThreadFuture
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from nats.aio.msg import Msg
from nats.errors import Error, SecureConnRequiredError
from nkeys import NkeysError  # pyright: ignore[reportMissingTypeStubs]

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.client import Connection, is_login_fault, login_refused
from nats3_dagster.jetstream.nats_options import NatsOptions

P = ParamSpec("P")
T = TypeVar("T")
CLOSE_S = 10.0
# How often a creds file is read that is about to be replaced.
RENEWED_S = 0.3


async def connect(
    options: NatsOptions,
    *,
    reconnect: bool = True,
    echo: bool = True,
    on_wait: Callable[[SourceError], None] = lambda _: None,
) -> Connection:
    """A connection to one of the servers. A creds file that has just expired is waited for, and `on_wait` called with
    the refusal. Raises OperatorError if a file of the login is invalid, SourceError if no server accepts the
    connection."""
    while True:
        options.check_files()
        options.learn_secrets()
        client = Connection(options)
        try:
            return await _opened(client, reconnect, echo)
        except SourceError as refusal:
            if not client.awaits_renewal:
                raise
            on_wait(refusal)
        await asyncio.sleep(RENEWED_S)


async def _opened(client: Connection, reconnect: bool, echo: bool) -> Connection:
    """The client, connected. Raises SourceError."""
    try:
        await client.open(reconnect, echo)
    except asyncio.CancelledError:
        await client.give_up()
        raise
    except (TimeoutError, Error, OSError) as error:
        refused = client.login_error if client.login_ended else None
        await client.close()
        raise refused or _failure(client.faults) from error
    except (NkeysError, ValueError) as error:
        with suppress(AssertionError):  # nats-py, of a client that did not come as far as a socket
            await client.close()
        raise SourceError("The NATS login's key is malformed", "Check the creds file or nkey seed") from error
    return client


class Link:
    """One connection for callers without an event loop: it lives in a loop of its own thread.

    Use it as a context manager. Entering raises OperatorError or SourceError as `connect` does. `patience_s` bounds the
    time of connecting and of each call, for callers who would rather do without an answer; what takes longer raises
    SourceError. Without `echo` its own messages do not come to its own subscriptions."""

    def __init__(
        self, options: NatsOptions, *, reconnect: bool = True, patience_s: float | None = None, echo: bool = True
    ) -> None:
        self._options, self._reconnect, self._patience_s, self._echo = options, reconnect, patience_s, echo
        self._ready: ThreadFuture[Connection] = ThreadFuture()
        self._thread = threading.Thread(target=self._run, name="nats", daemon=True)
        self._started = threading.Event()
        # Why it is still connecting: the login that is waited for.
        self._refusal: SourceError | None = None

    def __enter__(self) -> "Link":
        self._thread.start()
        self._started.wait()
        try:
            self.client = self._ready.result(self._patience_s)
        except TimeoutError:
            self._leave()
            addresses = ", ".join(urlsplit(server).netloc for server in self._options.servers)
            raise self._refusal or self._too_late(addresses) from None
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed for good: no call can succeed any more."""
        return not self._thread.is_alive() or self.client.is_closed

    def call(
        self, work: Callable[Concatenate[Connection, P], Coroutine[Any, Any, T]], *args: P.args, **more: P.kwargs
    ) -> T:
        """Run `work(connection, *args)` in the loop and wait for what it returns or raises."""
        if not self._thread.is_alive():
            raise SourceError("The connection to NATS was closed")
        future = asyncio.run_coroutine_threadsafe(work(self.client, *args, **more), self.loop)
        try:
            return future.result(self._patience_s)
        except TimeoutError as error:
            if future.cancel():
                raise self.client.login_error or self._too_late(self.client.address) from None
            raise self._unanswered(error) from error
        except CancelledError:
            raise SourceError("The connection to NATS was closed") from None
        except (Error, OSError) as error:
            # What nats-py raises where we do not say it better; a Nats3Error passes as it is.
            raise self._unanswered(error) from error
        except BaseException:
            future.cancel()
            raise

    def subscribe(self, subject: str, callback: Callable[[bytes], None]) -> Callable[[], None]:
        """Call `callback(payload)` for each message, in the loop's thread: it must not wait. Returns what ends it."""

        async def receive(message: Msg) -> None:
            callback(message.data)

        async def start(client: Connection) -> Callable[[], Coroutine[Any, Any, None]]:
            subscription = await client.subscribe(subject, cb=receive)  # pyright: ignore[reportUnknownMemberType]
            await client.flush()
            return subscription.unsubscribe

        async def stop(client: Connection) -> None:
            if not client.is_closed:
                await unsubscribe()

        unsubscribe = self.call(start)
        return lambda: self.call(stop)

    def publish(self, subject: str, data: bytes) -> None:
        """Send and forget; while the connection is down it is dropped."""

        async def send() -> None:
            if self.client.is_connected:
                await self.client.publish(subject, data)

        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(send(), self.loop)

    def _leave(self) -> None:
        """End the thread, also in the middle of connecting."""
        with suppress(RuntimeError):  # its loop is closed: connecting failed
            self.loop.call_soon_threadsafe(self._end.set)
        self._thread.join(CLOSE_S)

    def _unanswered(self, error: Exception) -> SourceError:
        """Returns nats-py's error, or that the login was refused at a reconnect or has expired."""
        what = f"NATS at {self.client.address} does not answer: {error}"
        return self.client.login_error or SourceError(what, "Is the server up?")

    def _too_late(self, address: str) -> SourceError:
        return SourceError(
            f"NATS at {address} did not answer within {self._patience_s:g} s",
            "Check NATS3_NATS_URL, and that the server runs",
        )

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            self.loop = runner.get_loop()
            self._end = asyncio.Event()
            self._started.set()
            runner.run(self._main())

    async def _main(self) -> None:
        connecting = asyncio.ensure_future(
            connect(self._options, reconnect=self._reconnect, echo=self._echo, on_wait=self._wait)
        )
        ending = asyncio.ensure_future(self._end.wait())
        await asyncio.wait((connecting, ending), return_when=asyncio.FIRST_COMPLETED)
        if not connecting.done():
            connecting.cancel()
        try:
            client = await connecting
        except BaseException as error:
            self._ready.set_exception(error)
            return
        self._ready.set_result(client)
        await ending
        # Of a socket that the server has closed, while nats-py tries to connect again: uvloop's own is a RuntimeError.
        with suppress(OSError, RuntimeError):
            await client.close()

    def _wait(self, refusal: SourceError) -> None:
        self._refusal = refusal


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _failure(faults: Mapping[str, Exception]) -> SourceError:
    """Returns the reason why no server accepted the connection: the last fault of each, in one line."""
    described = [_describe(address, fault) for address, fault in faults.items()]
    whats = list(dict.fromkeys(what for what, _ in described))
    hint = next((hint for _, hint in described if hint), "Check NATS3_NATS_URL, and that the server runs")
    return SourceError("; ".join(whats) or "NATS does not answer", hint)


def _describe(address: str, error: Exception) -> tuple[str, str]:
    """One line and a hint for the fault of a server, or of the way to it."""
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
    if is_login_fault(error):
        refused = login_refused(address)
        return refused.what, str(refused.hint)
    if isinstance(error, TimeoutError):
        return f"NATS at {address} did not answer in time", "Check NATS3_NATS_URL, and that it is a NATS server"
    if isinstance(error, OSError):
        return f"NATS at {address} cannot be reached: {error.strerror or error}", ""
    return f"NATS at {address}: {str(error).removeprefix('nats: ') or type(error).__name__}", ""
