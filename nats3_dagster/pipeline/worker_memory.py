"""Memory of a Python worker between two tasks."""

import ctypes
import sys

import pyarrow as pa


def release_memory() -> None:
    """Give the system the memory back that a task has freed.

    A worker lives longer than its task, in a Spark Connect server for weeks. Arrow and the C library keep what was
    freed for the next allocation: after a task of an archive of the mode `consumer` that was 150 MB."""
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # glibc has it
        trim(0)
