"""Pace: when the next messages of a replay may go out.

Invariant: slices are small enough that a limit holds over any second, and a late publisher does not make up for the
past by a burst above its limit.
"""

import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Pace

# A slice is at most what may go out in this time, so that a limit is smooth and a cancel is noticed.
SLICE_S = 0.05


class Pacer:
    """Cuts batches into slices and waits before each. `clock` and `sleep` are in seconds. `origin`: where an original
    timing that goes on began, by this clock and in nanoseconds of the messages' time; None: with the first message."""

    def __init__(
        self,
        pace: Pace,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        origin: tuple[float, int] | None = None,
    ) -> None:
        self._pace, self._clock, self._sleep = pace, clock, sleep
        self._free_at = clock()  # when the limits allow the next slice
        self._origin = origin  # (our time, message time) at which the original timing started

    def slices(self, sizes: NDArray[np.int64], times_ns: NDArray[np.int64]) -> Iterator[slice]:
        """Consecutive slices of a batch whose messages have these sizes and store times; each when it may go out."""
        at, count = 0, len(sizes)
        total = np.concatenate(([0], np.cumsum(sizes)))
        while at < count:
            end = self._end(at, count, total, times_ns)
            self._wait(end - at, int(total[end] - total[at]))
            yield slice(at, end)
            at = end

    def _end(self, at: int, count: int, total: NDArray[np.int64], times_ns: NDArray[np.int64]) -> int:
        end = count
        if self._pace.rate:
            end = min(end, at + max(1, int(self._pace.rate * SLICE_S)))
        if self._pace.byte_rate:
            room = int(total[at]) + self._pace.byte_rate * SLICE_S
            end = min(end, max(at + 1, int(np.searchsorted(total, room, "right")) - 1))
        if self._pace.speed:
            due = self._due(int(times_ns[at]))
            if (early := due - self._clock()) > 0:
                self._sleep(early)
            horizon = int(times_ns[at] + SLICE_S * self._pace.speed * SECOND_NS)
            end = min(end, max(at + 1, at + int(np.searchsorted(times_ns[at:count], horizon, "right"))))
        return end

    def _due(self, time_ns: int) -> float:
        if self._origin is None:
            self._origin = (self._clock(), time_ns)
        return self._origin[0] + (time_ns - self._origin[1]) / SECOND_NS / (self._pace.speed or 1)

    def _wait(self, messages: int, size: int) -> None:
        now = self._clock()
        if self._free_at > now:
            self._sleep(self._free_at - now)
        cost = max(
            messages / self._pace.rate if self._pace.rate else 0.0,
            size / self._pace.byte_rate if self._pace.byte_rate else 0.0,
        )
        self._free_at = max(self._free_at, self._clock()) + cost
