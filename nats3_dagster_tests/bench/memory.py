"""The memory that a process of a benchmark needed.

It imports nothing else of the tests: a worker that measures itself would have their memory as well, 38 MB of it.
"""

import re
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def own_peak_mb() -> float:
    """Peak resident memory of this process in MB. Not by getrusage on Linux: a fork begins with its parent's peak."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024 / 1e6  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes


def report_own_peak(task: int) -> Iterator[float]:
    """A task for each worker: yields its peak since the last call, in MB."""
    time.sleep(0.05)  # so that every worker gets one
    yield own_peak_mb()
    _reset_own_peak()


def _reset_own_peak() -> None:
    """Set the peak to what this process has now, where the system can (proc(5), clear_refs): a process that is used
    again would report the peak of an earlier row."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
