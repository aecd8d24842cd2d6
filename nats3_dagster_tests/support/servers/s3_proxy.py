"""An S3 endpoint that fails as real ones do, before a real one."""

import http.client
import random
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    """Forwards each request to the real server, through the fault of the moment."""

    protocol_version = "HTTP/1.1"
    proxy: "S3Proxy"

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.proxy.next_fault(self.command)
        try:
            fault(self) if fault else self.reply(*self.forward())
        except OSError:
            self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer

    def forward(self) -> Answer:
        """The real server's answer."""
        connection = http.client.HTTPConnection(*self.proxy.target, timeout=20)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            connection.putheader(name, value)
        connection.endheaders(self.body)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, dict(response.getheaders()), content

    def reply(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self._head(status, headers, content)
        if self.command != "HEAD":
            self.wfile.write(content)

    def reply_in_part(self, status: int, headers: dict[str, str], content: bytes) -> None:
        """Half of the body, then the end of the connection."""
        self._head(status, headers, content)
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
        self.cut()

    def cut(self) -> None:
        """End the connection without an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _head(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        if not {"content-length", "Content-Length"} & {*headers}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


class S3Proxy:
    """Listens on `endpoint`. `break_at` sets a fault for a part of the requests, until `repair`."""

    def __init__(self, endpoint: str) -> None:
        at = urlsplit(endpoint)
        self.target = str(at.hostname), int(at.port or 80)
        handler = type("BoundHandler", (Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda request, client_address: None  # clients may go away
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self._lock = threading.Lock()
        self.repair()

    def repair(self) -> None:
        """Forward everything."""
        self.break_at(lambda handler: None, ())

    def break_at(
        self, fault: Fault, commands: tuple[str, ...], *, share: float = 1.0, times: int = 1_000_000, seed: int = 0
    ) -> None:
        """Let `fault` answer this share of the requests of these commands, `times` of them at most."""
        with self._lock:
            self._fault, self._commands, self._share, self._times = fault, commands, share, times
            self._random = random.Random(seed)

    def next_fault(self, command: str) -> Fault | None:
        """The fault of the next request; None to forward it."""
        with self._lock:
            if command not in self._commands or self._times < 1 or self._random.random() >= self._share:
                return None
            self._times -= 1
            return self._fault

    def __enter__(self) -> "S3Proxy":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


# Faults


def refuse(status: int, code: str) -> Fault:
    """Answer with this error, and do nothing."""
    body = f"<Error><Code>{code}</Code><Message>Injected.</Message></Error>".encode()
    return lambda handler: handler.reply(status, {"Content-Type": "application/xml"}, body)


def store_and_lose(handler: Handler) -> None:
    """Do what is asked, and lose the answer."""
    handler.forward()
    handler.cut()


def store_and_stall(seconds: float) -> Fault:
    """Do what is asked, and answer nothing for so long."""

    def stall(handler: Handler) -> None:
        handler.forward()
        time.sleep(seconds)
        handler.cut()

    return stall


def cut_body(handler: Handler) -> None:
    """Answer with half of the body."""
    handler.reply_in_part(*handler.forward())
