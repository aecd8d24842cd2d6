"""Ends this process by kill -9 before or after a function: for steps where the code has no fault point."""

import os
import signal
from collections.abc import Callable
from typing import Any

# What a step does to the process, the first time.
SIGNALS = [signal.SIGKILL]


def die(*_: Any, **__: Any) -> None:
    if SIGNALS:
        os.kill(os.getpid(), SIGNALS.pop())


def before(owner: Any, name: str, act: Callable[..., None] = die) -> None:
    """Have `act` called before the method does its work."""
    was = getattr(owner, name)
    setattr(owner, name, lambda *args, **more: (act(), was(*args, **more))[1])


def after(owner: Any, name: str) -> None:
    was = getattr(owner, name)
    setattr(owner, name, lambda *args, **more: (was(*args, **more), die())[0])
