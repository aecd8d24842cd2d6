"""A filter in Swift's proxy that keeps what it has asked about accounts and buckets, as memcached does elsewhere.

Without a cache Swift asks its account server and its container server for each request: of 11 ms for a GET that was
half. There is one proxy process, through which all changes go, and Swift drops what it changes.

Invariant: what is not there is asked for again each time.
"""

import json
from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any

from nats3_dagster.dev.health import is_healthy
from nats3_dagster.dev.process import HOST

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
# Accounts and buckets, of about 1 KB each. When there are more, all are forgotten.
_MOST = 1000
# How long the other servers may take to start.
_PATIENCE_S = 60.0


class InfoCache:
    """The interface of Swift's client for memcached. Values are copied, because Swift changes those it gets."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[float, str]] = {}  # key -> (end by the monotonic clock, JSON)

    def get(self, key: str, raise_on_error: bool = False) -> Any:
        end, text = self._entries.get(key, (0.0, ""))
        return json.loads(text) if monotonic() < end else None

    def set(self, key: str, value: Any, time: float = 0, **_options: object) -> None:
        """`time`: seconds to keep it."""
        if isinstance(value, dict) and value.get("status") in (404, 410):
            return
        if len(self._entries) >= _MOST:
            self._entries.clear()
        self._entries[key] = monotonic() + time, json.dumps(value)

    def delete(self, key: str, server_key: str | None = None) -> None:
        self._entries.pop(key, None)


class CacheFilter:
    """A WSGI filter that gives each request the cache."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self._cache = InfoCache()

    def __call__(self, env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        env["swift.cache"] = self._cache
        return self.app(env, start_response)


def factory(_global_conf: dict[str, str], backends: str = "", **_conf: str) -> Callable[[Application], CacheFilter]:
    """The `paste.filter_factory` of the proxy's configuration. Returns when the servers at the ports `backends` answer:
    a proxy that came first would say of each bucket that it does not exist."""
    waiting = [f"http://{HOST}:{port}/healthcheck" for port in backends.split()]
    until = monotonic() + _PATIENCE_S
    while (waiting := [one for one in waiting if not is_healthy(one)]) and monotonic() < until:
        sleep(0.02)
    return CacheFilter
