"""A command and what it costs: seconds, processor time, memory.

Invariant: the clock runs from before the start of the process until `finish` or the end of the process. Processor time
is that of the whole tree of processes, also of those that have ended.
"""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from nats3_dagster_tests.support.process_use import memory_mb, processor_s, status_mb, tree_of

SAMPLE_S = 0.1
# In the first second: a short command has peaks too.
FIRST_SAMPLE_S = 0.02


class PeerError(Exception):
    """A tool did not do what it was asked for; the text says what happened."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of one command."""

    seconds: float
    # Processor time in seconds: of the command, of the NATS servers, of Postgres and the S3 server.
    tool_s: float
    nats_s: float
    stores_s: float
    # The largest sum of the memory of its processes, in MB.
    peak_mb: float


@dataclass(frozen=True, slots=True)
class ServerPids:
    """The processes of the servers that every tool uses."""

    nats: Sequence[int]
    stores: Sequence[int]


class Meter:
    """Runs one command under a clock, in a session of its own. It is ended with the context."""

    def __init__(self, servers: ServerPids, argv: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._servers = servers
        self._argv = argv
        self._environment = environment
        self._log = log
        self._peak, self._cpu_s, self._is_over = 0.0, 0.0, threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "Meter":
        self._nats_s, self._stores_s = _cpu_s(self._servers.nats), _cpu_s(self._servers.stores)
        self._ended_s = _ended_children_s()
        self._began = time.perf_counter()
        with self._log.open("ab") as output:
            self.process = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self._log.parent,
                start_new_session=True,
            )
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._sampler.join()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def wait(self, limit_s: float) -> Usage:
        """Returns the cost when the command has ended with status 0. Raises PeerError."""
        try:
            status = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise PeerError(f"{self._name} did not end within {limit_s:g} s") from None
        seconds = time.perf_counter() - self._began
        if status:
            raise PeerError(f"{self._name} ended with status {status}: {self.last_line()}")
        # A process that its parent did not wait for is in the samples alone.
        return self._usage(seconds, max(_ended_children_s() - self._ended_s, self._cpu_s))

    def finish(self) -> Usage:
        """Returns the cost until now of a command that goes on. Raises PeerError where it has ended."""
        seconds = time.perf_counter() - self._began
        if self.process.poll() is not None:
            raise PeerError(f"{self._name} ended by itself: {self.last_line()}")
        self._look()
        return self._usage(seconds, self._cpu_s)

    def last_line(self) -> str:
        """Returns the last line that the command has written."""
        lines = self._log.read_text(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")

    @property
    def _name(self) -> str:
        return Path(self._argv[0]).name

    def _usage(self, seconds: float, tool_s: float) -> Usage:
        nats_s = _cpu_s(self._servers.nats) - self._nats_s
        stores_s = _cpu_s(self._servers.stores) - self._stores_s
        return Usage(seconds, tool_s, nats_s, stores_s, self._peak)

    def _sample(self) -> None:
        while not self._is_over.wait(FIRST_SAMPLE_S if time.perf_counter() < self._began + 1 else SAMPLE_S):
            self._look()

    def _look(self) -> None:
        processes = tree_of(self.process.pid)
        memory = [_memory_mb(process) for process in processes]
        # The kernel knows the peak of one process exactly.
        whole = _peak_of_one_mb(self.process.pid) if len(memory) == 1 else sum(memory)
        self._peak = max(self._peak, whole)
        self._cpu_s = max(self._cpu_s, _cpu_s([self.process.pid]))


def _cpu_s(pids: Sequence[int]) -> float:
    """Processor time of these trees of processes, with that of children that ended and were waited for."""
    total = 0.0
    for process in [process for pid in pids for process in tree_of(pid)]:
        with suppress(psutil.Error):
            total += processor_s(process)
    return total


def _ended_children_s() -> float:
    """Processor time of all children of this process that have ended, with their own."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _memory_mb(process: psutil.Process) -> float:
    """Memory of a process in MB, 0 when it is gone."""
    with suppress(psutil.Error):
        return memory_mb(process)
    return 0.0


def _peak_of_one_mb(pid: int) -> float:
    """Peak memory of a process as the kernel noted it, in MB; elsewhere what it has now."""
    with suppress(OSError):
        return status_mb(pid, "VmHWM")
    with suppress(psutil.Error):
        return memory_mb(psutil.Process(pid))
    return 0.0
