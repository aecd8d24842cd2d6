"""Waiting for what comes by itself, without a fixed sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def eventually(ask: Callable[[], _T | None], what: str, timeout_s: float = 90, every_s: float = 0.05) -> _T:
    """The first answer of `ask` that is true."""
    deadline = time.monotonic() + timeout_s
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what}"
        time.sleep(every_s)
    return answer
