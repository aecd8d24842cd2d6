"""Servers of this installation are asked without a proxy of the environment."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nats3_dagster.archive.health import nats_health
from nats3_dagster.dev.health import is_healthy
from nats3_dagster.direct_http import open_directly
from nats3_dagster.runs import webserver


@contextmanager
def server(asked: list[str]) -> Iterator[str]:
    """Answers everything with one document, and notes what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = json.dumps({"data": {"a": 1}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()


def test_no_proxy_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    by_proxy: list[str] = []
    asked: list[str] = []
    with server(by_proxy) as proxy, server(asked) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        assert webserver.ask(url, "{ a }") == {"a": 1}
        assert nats_health._variables(url) == {"data": {"a": 1}}
        assert is_healthy(f"{url}/health")
    assert asked == ["/graphql", "/varz", "/health"]
    assert by_proxy == []


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/x", "/etc/hostname", ""])
def test_only_http_is_opened(address: str) -> None:
    with pytest.raises(ValueError, match="not an http"):
        open_directly(address, 1)
