"""Makes create-only PUTs of the embedded S3 endpoint exact.

The rule kept here: PUT and DELETE of one object happen one after the other. Stock Swift checks `If-None-Match` and
writes later, without a lock: up to 14 of 32 concurrent creates of one key were seen to win. As the last filter before
the only proxy process this makes the check and the write one step.
"""

from collections.abc import Callable, Iterable
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class CreateLock:
    """A WSGI filter that holds a lock per object path. It runs inside Swift's proxy, so its locks are eventlet's."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.held: dict[str, list[Any]] = {}  # path -> [semaphore, how many hold or await it]

    def __call__(self, env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = env["PATH_INFO"]
        if env["REQUEST_METHOD"] not in ("PUT", "DELETE") or path.count("/") < 4:  # not /v1/account/container/object
            return self.app(env, start_response)
        from eventlet.semaphore import Semaphore  # here, because eventlet must not be loaded into our own processes

        entry = self.held.setdefault(path, [Semaphore(1), 0])
        entry[1] += 1
        try:
            with entry[0]:
                return self.app(env, start_response)  # Swift has finished the write when this returns
        finally:
            entry[1] -= 1
            if not entry[1]:
                self.held.pop(path, None)


def factory(_global_conf: dict[str, str], **_conf: str) -> Callable[[Application], CreateLock]:
    """What the proxy's configuration names as `paste.filter_factory`."""
    return CreateLock
