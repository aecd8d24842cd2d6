"""Progress of Spark tasks: they publish counts of messages to the driver while Spark runs.

It is only for display. A lost or refused progress message changes nothing, and no decision rests on it.
"""

import secrets
import time
from collections.abc import Callable
from types import TracebackType

from nats3_dagster.jetstream.link import Link

# Ten a second are enough for a progress bar, and nothing beside 100,000 messages.
INTERVAL_S = 0.1


class Progress:
    """The driver's side: adds up the tasks' counts and calls `on_progress(done, total)` with the messages done and all.

    Without a callback `subject` is None, and tasks publish nothing."""

    def __init__(self, link: Link, on_progress: Callable[[int, int], None] | None) -> None:
        self._link, self._on_progress = link, on_progress
        self.subject = f"_NATS3.progress.{secrets.token_hex(8)}" if on_progress else None
        self.total = 0  # messages; the caller sets it when it is known
        self._done = 0  # messages
        self._stop: Callable[[], None] | None = None

    def __enter__(self) -> "Progress":
        if self.subject:
            self._stop = self._link.subscribe(self.subject, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stop:
            self._stop()

    def _take(self, data: bytes) -> None:
        self._done += int(data)
        if self._on_progress:
            self._on_progress(self._done, max(self.total, self._done))


def reporter(link: Link, subject: str | None) -> Callable[[int], None]:
    """The task's side: a function to call with each count of messages done. It publishes at most every INTERVAL_S."""
    if subject is None:
        return lambda count: None
    unsent, sent_at = 0, 0.0

    def report(count: int) -> None:
        nonlocal unsent, sent_at
        unsent += count
        if time.monotonic() - sent_at >= INTERVAL_S:
            link.publish(subject, str(unsent).encode())
            unsent, sent_at = 0, time.monotonic()

    return report
