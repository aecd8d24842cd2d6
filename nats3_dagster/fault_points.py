"""Fault points: named steps at which the fault tests break a process. Unless NATS3_FAULT names one they do nothing.

`NATS3_FAULT=capture.object_put:kill:2` ends the process by kill -9 at its second pass of that step. Other actions are
`raise`, `sleep=SECONDS` and `hold=FILE`, which makes FILE and goes on when there is FILE.go. Several are joined by
commas; without a number it is the first pass.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

# What a process waits for at most where it is held.
HOLD_S = 120.0


class InjectedFault(Exception):
    """The exception of a fault point: an unforeseen error."""


@dataclass(slots=True)
class _Fault:
    """The fault that NATS3_FAULT requests at one step."""

    # `kill`, `raise`, `sleep` or `hold`, and the seconds or the file.
    action: str
    value: str
    # Passes until it happens; below 1 it has happened.
    remaining: int


_armed: dict[str, _Fault] = {}


def arm(text: str) -> None:
    """Arm what `text`, in the form of NATS3_FAULT, names, and nothing else. Raises ValueError."""
    _armed.clear()
    for part in filter(None, text.split(",")):
        name, action, *count = part.split(":")
        action, _, value = action.partition("=")
        if action not in ("kill", "raise", "sleep", "hold"):
            raise ValueError(f"NATS3_FAULT has no action {action!r}")
        _armed[name] = _Fault(action, value, int(count[0]) if count else 1)


def fault_point(name: str) -> None:
    """A step that a fault test may break."""
    if _armed and (fault := _armed.get(name)):
        fault.remaining -= 1
        if fault.remaining == 0:
            _break(name, fault)


def _break(name: str, fault: _Fault) -> None:
    if fault.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault.action == "raise":
        raise InjectedFault(f"NATS3_FAULT broke {name}")
    elif fault.action == "sleep":
        time.sleep(float(fault.value))
    else:
        Path(fault.value).touch()
        released = Path(f"{fault.value}.go")
        until = time.monotonic() + HOLD_S
        while not released.exists() and time.monotonic() < until:
            time.sleep(0.005)


arm(os.environ.get("NATS3_FAULT", ""))
