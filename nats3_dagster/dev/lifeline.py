"""A program that ends the servers of its parent when the parent has died, also by kill -9.

It runs alone and uses the standard library only. Its standard input says which process groups to end
(`+PID SIGNAL`; `-PID` removes one). Linux' PR_SET_PDEATHSIG is no replacement: that signal comes when the *thread* that
started a server ends and is lost when a process changes its user, and macOS has none.
"""

import os
import select
import signal
import sys
import time
from contextlib import suppress


def watch(parent: int) -> dict[int, int]:
    """Read the process groups from standard input until the parent has died: leader's pid -> signal to end it with."""
    wards: dict[int, int] = {}
    rest = b""
    # A fork of the parent keeps the pipe open, so an open pipe does not prove that the parent lives.
    while os.getppid() == parent:
        if not select.select([0], [], [], 0.2)[0]:
            continue
        if not (data := os.read(0, 65536)):
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            pid, *number = line[1:].split()
            if line.startswith(b"+"):
                wards[int(pid)] = int(number[0])
            else:
                wards.pop(int(pid), None)
    return wards


def end(wards: dict[int, int], patience_s: float) -> None:
    """Signal every group, and kill those that still run after `patience_s`."""
    for pid, number in wards.items():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
    deadline = time.monotonic() + patience_s
    while wards and time.monotonic() < deadline:
        time.sleep(0.05)
        wards = {pid: number for pid, number in wards.items() if _alive(pid)}
    for pid in wards:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS' answer for a group of zombies
        return False
    return True


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    end(watch(int(sys.argv[1])), 3)
