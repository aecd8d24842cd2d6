"""Progress of Spark tasks: they publish counts of messages to the driver while Spark runs.

Invariant: no decision rests on it. Each report replaces the task's earlier one, so that one which is lost is made up
for by the next.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import NamedTuple

from nats3_dagster.errors import Nats3Error, SourceError
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.link import Link
from nats3_dagster.model import OnProgress, Progress

log = logging.getLogger(__name__)
# How often a task reports, and the driver calls back: enough for the eye, and nothing beside 100,000 messages a second.
INTERVAL_S = 0.2
# After so long without news the driver says so, and asks NATS whether it answers.
QUIET_S = 10.0
ANSWER_S = 1.0
# How often the driver keeps the counts.
SAVE_S = 5.0


class Counts(NamedTuple):
    """Messages: published (or captured) by the tasks of an attempt, and found in the target from an earlier one."""

    published: int = 0
    found: int = 0


def new_subject() -> str:
    """A subject for the reports of one attempt."""
    return f"_NATS3.progress.{secrets.token_hex(8)}"


class Tally:
    """The driver's side, while the tasks run: adds up what they report on `subject`.

    `on_progress` is called on entering, when messages are done, and about every second when none are for QUIET_S.
    `save` is called every SAVE_S, and with the last counts on leaving; its nats3 errors change nothing."""

    def __init__(
        self,
        link: Link,
        subject: str,
        total: int,
        on_progress: OnProgress | None = None,
        save: Callable[[Counts], None] | None = None,
    ) -> None:
        self._link, self._subject, self._total = link, subject, total
        self._on_progress, self._save = on_progress or _ignore, save
        self._tasks: dict[bytes, Counts] = {}
        self._saved = Counts()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> "Tally":
        self._unsubscribe = self._link.subscribe(self._subject, self._receive)
        self._on_progress(Progress(0, self._total))
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._watch.join()
        with suppress(SourceError):  # what the tasks sent last comes before this answer
            self._link.call(_ask)
            self._unsubscribe()
        self._save_counts()

    @property
    def counts(self) -> Counts:
        """Returns the counts of all tasks, as they reported last."""
        tasks = tuple(self._tasks.values())
        return Counts(sum(c.published for c in tasks), sum(c.found for c in tasks))

    def _receive(self, data: bytes) -> None:
        task, published, found = data.split()
        self._tasks[task] = Counts(int(published), int(found))

    def _run(self) -> None:
        counts = Counts()
        news_at = called_at = kept_at = time.monotonic()
        while not self._over.wait(INTERVAL_S):
            now = time.monotonic()
            if counts != (counts := self.counts):
                news_at = called_at = now
                self._on_progress(self._progress(counts))
            elif now - news_at >= QUIET_S and now - called_at >= 1:
                called_at = now
                self._on_progress(self._progress(counts, now - news_at, self._answers()))
            if now - kept_at >= SAVE_S:
                kept_at = now
                self._save_counts()

    def _progress(self, counts: Counts, quiet_s: float = 0.0, answers: bool = True) -> Progress:
        done = sum(counts)
        return Progress(done, max(self._total, done), quiet_s, answers)

    def _answers(self) -> bool:
        try:
            self._link.call(_ask)
        except SourceError:
            return False
        return True

    def _save_counts(self) -> None:
        counts = self.counts
        if self._save and counts != self._saved:
            try:
                self._save(counts)
                self._saved = counts
            except Nats3Error as error:
                log.info("The progress was not kept: %s", error)


@contextmanager
def reporting(link: Link, subject: str | None, task: int, counts: Callable[[], Counts]) -> Generator[None]:
    """The task's side: meanwhile a thread reports what `counts` returns, when it has changed, and once more at the end.
    `task` is a number of the task's own."""
    if subject is None:
        yield
        return
    over = threading.Event()

    def run() -> None:
        reported = Counts()
        while True:
            last = over.wait(INTERVAL_S)
            if reported != (reported := counts()):
                link.publish(subject, b"%d %d %d" % (task, *reported))
            if last:
                return

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        with suppress(SourceError):  # closing the link would drop what is not sent yet
            link.call(_ask)


async def _ask(client: Connection) -> None:
    """Return when the server has answered, which it does after all that was sent to it before."""
    await client.flush(int(ANSWER_S))


def _ignore(progress: Progress) -> None:
    """Ignores the progress: for a caller who does not look."""
