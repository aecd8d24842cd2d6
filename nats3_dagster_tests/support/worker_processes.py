"""Spark's Python workers as the kernel sees them: their memory, read from outside (Linux)."""

from contextlib import suppress
from subprocess import Popen, TimeoutExpired

import psutil

from nats3_dagster_tests.support.process_use import status_mb, tree_of

_DAEMON = "nats3_dagster.pipeline.worker_daemon"


def peak_mb(pid: int) -> float:
    """The most memory that the process has had so far (VmHWM). Raises OSError when it is gone."""
    return status_mb(pid, "VmHWM")


def resident_mb(pid: int) -> float:
    """The memory that the process has now (VmRSS). Raises OSError when it is gone."""
    return status_mb(pid, "VmRSS")


def worker_peaks_mb(command: Popen[bytes], timeout_s: float) -> dict[int, float]:
    """The peaks of the workers that a command starts, by process, looked at until it ends. Raises TimeoutExpired when
    it does not."""
    peaks: dict[int, float] = {}
    for _ in range(int(timeout_s / 0.05)):
        for process in tree_of(command.pid)[1:]:
            with suppress(psutil.Error, OSError):
                # Spark's JVM has the module's name among its settings, and is none.
                if _DAEMON in process.cmdline()[1:3]:
                    peaks[process.pid] = peak_mb(process.pid)
        with suppress(TimeoutExpired):
            command.wait(0.05)
            return peaks
    raise TimeoutExpired(command.args, timeout_s)
