"""Processor time and memory of processes that run, of whoever started them."""

import re
from contextlib import suppress
from pathlib import Path

import psutil


def tree_of(pid: int) -> list[psutil.Process]:
    """The process and all that it has started and that live; none when it has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def own_processor_s(process: psutil.Process) -> float:
    """Processor seconds of the process itself. Raises psutil.Error when it is gone."""
    return sum(process.cpu_times()[:2])


def processor_s(process: psutil.Process) -> float:
    """Processor seconds of the process, and of its children that ended and that it has waited for. Raises psutil.Error
    when it is gone."""
    return sum(process.cpu_times()[:4])


def memory_mb(process: psutil.Process) -> float:
    """Resident memory in MB; on Linux each shared page by its share. Raises psutil.Error when it is gone."""
    memory = process.memory_full_info() if psutil.LINUX else process.memory_info()
    return getattr(memory, "pss", memory.rss) / 1e6


def status_mb(pid: int, field: str) -> float:
    """A field of memory as the kernel has it (proc(5), status), in MB: VmHWM is the peak. Raises OSError when the
    process is gone, and where the system has no /proc."""
    match = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if match is None:  # it has ended, and nobody has asked for its exit status
        raise ProcessLookupError(pid)
    return int(match[1]) * 1024 / 1e6
