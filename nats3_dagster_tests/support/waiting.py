"""Waiting for what comes by itself, without a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


# Of the time that a wait takes, one part goes to its questions, and so many to what is waited for: a question of
# Dagster's webserver or of a new connection to Postgres costs the processor more than 20 ms.
_REST = 4


def eventually(ask: Callable[[], _T | None], what: str, timeout_s: float = 90, every_s: float = 0.05) -> _T:
    """The first answer of `ask` that is true."""
    deadline = time.monotonic() + timeout_s
    while True:
        asked = time.monotonic()
        if answer := ask():
            return answer
        now = time.monotonic()
        assert now < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(max(every_s, _REST * (now - asked)))
