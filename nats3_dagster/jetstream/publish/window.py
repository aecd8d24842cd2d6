"""The window of an outbox: which of the messages given were sent, and which are acknowledged. It sends nothing itself.

Invariant: messages are sent in the order given and acknowledged from the first one without a hole. Numbers count the
messages given, from 0.
"""

from collections import deque
from collections.abc import Iterator

import numpy as np

from nats3_dagster.jetstream.publish.encode import Encoded, subject_at


class Window:
    """Bounded by `messages` and by `size`, bytes of frames: so much may be sent without an acknowledgement."""

    def __init__(self, messages: int, size: int) -> None:
        self.messages, self.size = messages, size
        # Messages that were given, that were sent, and that are acknowledged.
        self.given = self.sent = self.acked = 0
        # Bytes of those frames given that were sent to their end.
        self.drained_bytes = 0
        # The subject of the first message of the frames that were sent last; empty before the first ones.
        self.last_subject = ""
        self._queue: deque[Encoded] = deque()
        # How many messages of the first in the queue were sent.
        self._row = 0
        # What `next_part` returned last: messages and bytes.
        self._part = 0, 0
        # Sent: the first number, the bytes sent before, the frames.
        self._unacked: deque[tuple[int, int, Encoded]] = deque()
        # Sent: the number after, and the time, of time.monotonic.
        self._times: deque[tuple[int, float]] = deque()
        self._sent_bytes = self._acked_bytes = 0

    @property
    def is_empty(self) -> bool:
        """True if all messages given were sent."""
        return not self._queue

    @property
    def room(self) -> int:
        """The number of messages that may still be sent now."""
        return self.messages - (self.sent - self.acked)

    @property
    def waiting_since(self) -> float | None:
        """The time when the oldest message without an acknowledgement was sent, of time.monotonic."""
        return self._times[0][1] if self._times else None

    def add(self, frames: Encoded) -> None:
        """Put these after all others."""
        self._queue.append(frames)
        self.given += len(frames)

    def next_part(self, room: int) -> memoryview | None:
        """Returns the next frames that fit into the window, `room` messages at most; None if there are none."""
        if not self._queue:
            return None
        first = self._queue[0]
        start = int(first.ends[self._row - 1]) if self._row else 0
        free = self.size - (self._sent_bytes - self._acked_bytes)
        fitting = int(np.searchsorted(first.ends, start + free, "right")) - self._row
        rows = min(room, len(first) - self._row, fitting)
        if rows <= 0:
            if self.sent > self.acked or room <= 0:
                return None
            rows = 1  # larger than the window: alone
        end = int(first.ends[self._row + rows - 1])
        if not self._row:
            self._unacked.append((self.sent, self._sent_bytes, first))
            self.last_subject = subject_at(first.subjects, 0)
        self._part = rows, end - start
        return first.buffer[start:end]

    def mark_sent(self, now: float) -> bool:
        """Record that the part of `next_part` was sent. True if frames were sent to their end by it."""
        rows, size = self._part
        self.sent += rows
        self._row += rows
        self._sent_bytes += size
        self._times.append((self.sent, now))
        first = self._queue[0]
        if self._row < len(first):
            return False
        self._queue.popleft()
        self._row = 0
        self.drained_bytes += first.size
        return True

    def mark_acked(self, acked: int) -> None:
        """All messages before this number are in the target."""
        self.acked = acked
        while self._times and self._times[0][0] <= acked:
            self._times.popleft()
        self._acked_bytes = self._sent_bytes
        while self._unacked:
            first, before, frames = self._unacked[0]
            if acked < first + len(frames):
                self._acked_bytes = before + (int(frames.ends[acked - first - 1]) if acked > first else 0)
                break
            self._unacked.popleft()

    def subject_of(self, number: int) -> str:
        """The subject of a message that was sent and not acknowledged."""
        for first, _, frames in self._unacked:
            if first <= number < first + len(frames):
                return subject_at(frames.subjects, number - first)
        return "an earlier subject"

    def subjects(self) -> Iterator[str]:
        """Yields the subjects of messages that were sent and not acknowledged."""
        for _, _, frames in self._unacked:
            names = frames.subjects.unique()
            yield from (subject_at(names, n) for n in range(len(names)))
