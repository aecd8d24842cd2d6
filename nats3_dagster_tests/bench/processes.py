"""Processor time and memory of process trees while something is measured."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from nats3_dagster_tests.support.process_use import memory_mb, own_processor_s, processor_s

# Between two samples.
EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Use:
    """The use of some processes so far."""

    processor_s: float = 0.0
    # Resident memory now, of shared pages the part of these processes.
    memory_mb: float = 0.0

    def __add__(self, other: "Use") -> "Use":
        return Use(self.processor_s + other.processor_s, self.memory_mb + other.memory_mb)


Probe = Callable[[], Use]


@dataclass
class Samples:
    """Samples of several probes, by name."""

    # Seconds since the first sample, and processor seconds so far.
    processor_s: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    # Seconds since the first sample, and the resident memory in MB.
    memory_mb: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])

    def spent_s(self, name: str) -> float:
        """Processor seconds between the first sample and the last one."""
        points = self.processor_s.get(name, [])
        return points[-1][1] - points[0][1] if points else 0.0

    def peak_mb(self, name: str) -> float:
        """The most resident memory in a sample."""
        return max((mb for _, mb in self.memory_mb.get(name, [])), default=0.0)


@contextmanager
def sampled(probes: Mapping[str, Probe]) -> Iterator[Samples]:
    """Asks the probes each second until the end of the block."""
    samples, ended, began = Samples(), threading.Event(), time.monotonic()

    def look() -> None:
        at = time.monotonic() - began
        for name, probe in probes.items():
            use = probe()
            samples.processor_s.setdefault(name, []).append((at, use.processor_s))
            samples.memory_mb.setdefault(name, []).append((at, use.memory_mb))

    def run() -> None:
        while not ended.wait(EVERY_S):
            look()

    look()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()
        look()


def use_of(processes: Iterable[psutil.Process]) -> Use:
    """The use of these processes, and the processor time of their children that have ended."""
    return sum((own_use(process) + Use(ended_s(process)) for process in processes), Use())


def own_use(process: psutil.Process) -> Use:
    """The use of the process itself. Of memory that it shares with others, as a forked worker does, it has its part."""
    with suppress(psutil.Error):
        return Use(own_processor_s(process), memory_mb(process))
    return Use()


def ended_s(process: psutil.Process) -> float:
    """Processor seconds of the children that have ended, and that it has waited for."""
    with suppress(psutil.Error):
        return processor_s(process) - own_processor_s(process)
    return 0.0
