"""Clocks: a process whose own clock is wrong, and steps while it works.

The product asks for the time by `time.time` and `time.time_ns` alone, so in such a process these two are others. What
is not Python has the true time: requests to S3 are signed with it, as S3 refuses those that are 15 minutes off.

The clock of nats-server is not stepped. libfaketime 0.9.10 does not reach it: Go reads the kernel's clock through the
vDSO and not through libc (tried: the times in its log stay true, while those of CPython change). Time namespaces do not
hold the clock of the day, and setting the host's would step everybody's. What such a server leaves behind are messages
whose stored times go back and forth: those are restored into a stream (stream_faults.py).
"""

import os
import time

# In the environment: `SECONDS:HOURS,HOURS,...`. The clock is off by one of these hours, by another one every so often.
CLOCK = "NATS3_FAULTS_CLOCK"
_HOUR_NS = 3600 * 10**9
_true_ns = time.time_ns


def set_clock(text: str) -> None:
    """Set the clock of this process, which has nothing else to do but one work; it stays true for an empty text."""
    if not text:
        return
    seconds, hours = text.split(":")
    every_ns, steps = int(float(seconds) * 10**9), [int(float(hour) * _HOUR_NS) for hour in hours.split(",")]
    # Processes that run at the same time differ: a driver and its workers are on several hosts.
    phase = os.getpid()
    time.time_ns = lambda: _true_ns() + steps[(time.monotonic_ns() // every_ns + phase) % len(steps)]
    time.time = lambda: time.time_ns() / 1e9
