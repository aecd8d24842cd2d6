"""An HTTP server on loopback that stands for a service of a machine or a cloud: it gives tokens and keys."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Request(BaseHTTPRequestHandler):
    """One request, with its body."""

    body = b""

    def answer(self, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(200)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


@contextmanager
def answering(answer: Callable[[Request], None]) -> Iterator[str]:
    """Runs the server: `127.0.0.1:PORT`. `answer`: answers a request."""

    class Handler(Request):
        def do_GET(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer(self)

        do_POST = do_GET

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
