"""The memory that a process of a benchmark needed."""

import re
import resource
from contextlib import suppress
from pathlib import Path


def own_peak_mb() -> float:
    """Peak resident memory of this process in MB. Not by getrusage on Linux: a fork begins with its parent's peak."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) * 1024 / 1e6  # type: ignore[index]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # macOS counts bytes


def reset_own_peak() -> None:
    """Set the peak to what this process has now, where the system can (proc(5), clear_refs): a process that is used
    again would report the peak of an earlier row."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
