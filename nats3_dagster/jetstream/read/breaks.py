"""Breaks: why a read breaks off and goes on with a new consumer, and when that is too often."""

import time

from nats3_dagster.errors import SourceError
from nats3_dagster.jetstream.read.scan import FrameError

# How long consumers may lag, and how often a read may break for other reasons, without a message in between.
LAG_S = 60.0
BREAKS = 5
# The longest of the growing waits before another consumer is created after one that lagged.
LAG_WAIT_S = 2.0
# The next step where a message comes in a form that is unknown here.
UNKNOWN_FORM = "Upgrade nats3-dagster; if it is the newest release, report the sequence and the version of the server"


class Lost(SourceError):
    """This consumer is gone, or cannot be trusted: continue with a new one after the last message taken."""


class Behind(Lost):
    """The consumer is at its end, and the stream's leader holds a message of the range that it did not send."""


def behind(stream: str, server: str, seen: int, leader_seq: int) -> Behind:
    """The consumer on `server` (empty without a cluster) has nothing after sequence `seen`, the leader has
    `leader_seq`."""
    on, reason = "", "the server counts too few messages as pending"
    hint = "Run this again when less is published"
    if server:
        on, reason = f" on server {server}", f"its replica lags, or {reason}"
        hint = f"Run this again when all replicas are current (nats stream info {stream})"
    what = f"The consumer{on} has nothing of {stream} after sequence {seen}, and the stream's leader holds {leader_seq}"
    return Behind(f"{what}: {reason}", hint)


def left_out(stream: str, server: str, seq: int) -> Lost:
    """The consumer on `server` (empty without a cluster) sent later messages than `seq`, which the leader has."""
    on = f" on server {server}" if server else ""
    return Lost(
        f"The consumer{on} left out message {seq} of {stream}, which the stream's leader holds",
        "Upgrade the NATS server: consumers of some releases skip messages",
    )


class Breaks:
    """The number of times that a read broke off without a message in between, and the time of the first.

    A consumer that lags gets time instead of a number of breaks: the next one is put on another random replica, and a
    replica that lags usually catches up in seconds."""

    def __init__(self) -> None:
        self.count = 0
        # What came cannot be decoded, a second time at the same message: the next time it cannot be either.
        self.is_permanent = False
        self._undecodable = ""
        self._behind = 0  # the number of them because a consumer lagged
        self._first = 0.0  # time.monotonic() of the first one

    def add(self, error: SourceError) -> None:
        if not self.count:
            self._first = time.monotonic()
        self.count += 1
        self._behind += isinstance(error, Behind)
        if isinstance(error, FrameError):
            self.is_permanent, self._undecodable = error.what == self._undecodable, error.what

    @property
    def too_many(self) -> bool:
        lags = self._behind > 0 and time.monotonic() - self._first > LAG_S
        return self.is_permanent or self.count - self._behind > BREAKS or lags

    def wait(self) -> None:
        if self._behind:
            time.sleep(min(LAG_WAIT_S, 0.05 * 2**self._behind))
