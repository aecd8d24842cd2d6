"""A filter in Swift's proxy that makes create-only PUTs of the embedded S3 endpoint exact.

Invariant: PUTs and DELETEs of one object run one after the other. Stock Swift checks `If-None-Match` and writes later,
without a lock: up to 14 of 32 concurrent creates of one key succeeded. There is one proxy process, and this is its last
filter, so check and write are one step.
"""

from collections.abc import Callable, Iterable
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class CreateLock:
    """A WSGI filter that holds a lock per object path. It runs inside Swift's proxy, so its locks are eventlet's."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self._locks: dict[str, list[Any]] = {}  # path -> [semaphore, number of requests that hold or await it]

    def __call__(self, env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = env["PATH_INFO"]
        if env["REQUEST_METHOD"] not in ("PUT", "DELETE") or path.count("/") < 4:  # not /v1/account/container/object
            return self.app(env, start_response)
        from eventlet.semaphore import Semaphore  # here, because eventlet must not be loaded into our own processes

        lock = self._locks.setdefault(path, [Semaphore(1), 0])
        lock[1] += 1
        try:
            with lock[0]:
                return self.app(env, start_response)  # Swift has finished the write when this returns
        finally:
            lock[1] -= 1
            if not lock[1]:
                self._locks.pop(path, None)


def factory(_global_conf: dict[str, str], **_conf: str) -> Callable[[Application], CreateLock]:
    """The `paste.filter_factory` of the proxy's configuration."""
    return CreateLock
