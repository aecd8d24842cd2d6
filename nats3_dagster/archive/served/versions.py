"""Versions: what the catalog has of an archive now, asked once for all requests that come meanwhile.

Invariant: an answer is never older than the question: what was erased before a request came is in no answer to it.
"""

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Together(Generic[K, V]):
    """Calls a function once for all threads that want the same. Any thread may ask."""

    def __init__(self, ask: Callable[[K], V]) -> None:
        self._ask, self._lock = ask, threading.Lock()
        # The call that is under way, which began before a question that comes now; and the one after it.
        self._running: dict[K, Future[V]] = {}
        self._next: dict[K, Future[V]] = {}

    def now(self, key: K) -> V:
        """The result of a call that began after this one. Raises as the function does."""
        with self._lock:
            running, mine = self._running.get(key), self._next.get(key)
            leads = mine is None
            if mine is None:
                mine = Future[V]()
                (self._running if running is None else self._next)[key] = mine
        if not leads:
            return mine.result()
        if running is not None:
            running.exception()  # wait for its end, whatever it is
            with self._lock:
                self._running[key] = self._next.pop(key)
        try:
            mine.set_result(self._ask(key))
        except BaseException as error:
            mine.set_exception(error)
        with self._lock:
            if self._running.get(key) is mine:
                del self._running[key]
        return mine.result()
