"""Breaks: why a read breaks off and goes on with a new consumer, and when that is too often."""

import time

from nats3_dagster.errors import SourceError

# How long consumers may be behind, and how often a read may break for other reasons, without a message in between.
LAG_S = 60.0
BREAKS = 5
# The longest of the growing waits before another consumer is made where the last one was behind.
LAG_WAIT_S = 2.0


class Lost(SourceError):
    """This consumer is no more, or cannot be trusted: go on with a new one after the last message taken."""


class Behind(Lost):
    """The consumer is at its end, and the stream's leader holds a message of the range that it did not send."""


def behind(stream: str, server: str, seen: int, held: int) -> Behind:
    """The consumer on `server` (empty without a cluster) has nothing after sequence `seen`, the leader has `held`."""
    on, reason = "", "the server counts too few messages as pending"
    hint = "Run this again when less is published"
    if server:
        on, reason = f" on server {server}", f"its replica lags behind the leader, or {reason}"
        hint = f"Run this again when all replicas are current (nats stream info {stream})"
    what = f"The consumer{on} has nothing of {stream} after sequence {seen}, and the stream's leader holds {held}"
    return Behind(f"{what}: {reason}", hint)


class Breaks:
    """How often, and since when, a read broke off without a message in between.

    A consumer that is behind gets time instead of a number of breaks: the next one is put on a replica drawn anew, and
    a replica that lags catches up in seconds, mostly."""

    def __init__(self) -> None:
        self.count = 0
        self._behind = 0  # how many of them because a consumer was behind
        self._first = 0.0  # time.monotonic() of the first one

    def add(self, error: SourceError) -> None:
        if not self.count:
            self._first = time.monotonic()
        self.count += 1
        self._behind += isinstance(error, Behind)

    @property
    def too_many(self) -> bool:
        return self.count - self._behind > BREAKS or (self._behind > 0 and time.monotonic() - self._first > LAG_S)

    def wait(self) -> None:
        if self._behind:
            time.sleep(min(LAG_WAIT_S, 0.05 * 2**self._behind))
