"""Progress of the tasks of an export: each notes it beside the files that it stages, and the driver lists the notes.

Invariant: no decision rests on it, and a note that cannot be written or listed stops nothing. An export needs no NATS,
which captures and replays report by.
"""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from nats3_dagster.errors import StoreError
from nats3_dagster.exports.job import ExportJob
from nats3_dagster.model import OnProgress, Progress
from nats3_dagster.objects import Outlet

# How often a task notes it, and how often the driver looks: each is one or two requests to the store.
INTERVAL_S = 1.0


class GroupNotes:
    """A task's notes: one at a time, whose name has the number of the group and the messages that were read."""

    def __init__(self, outlet: Outlet, job: ExportJob, number: int) -> None:
        self._outlet, self._prefix = outlet, f"{_folder(job)}/{number:05d}"
        self._path: str | None = None
        self._noted_at = time.monotonic()

    def note(self, messages: int) -> None:
        """Notes the messages, once in INTERVAL_S."""
        if time.monotonic() - self._noted_at < INTERVAL_S:
            return
        before, self._path = self._path, f"{self._prefix}-{messages}"
        with suppress(StoreError):
            self._outlet.put(self._path, b"")
            if before and before != self._path:
                self._outlet.delete(before)
        self._noted_at = time.monotonic()


@contextmanager
def watching(job: ExportJob, total: int, on_progress: OnProgress | None) -> Generator[None]:
    """Calls `on_progress` meanwhile with the messages that the tasks have read, whenever they are more."""
    if on_progress is None:
        yield
        return
    over = threading.Event()

    def run() -> None:
        outlet, done = Outlet(job.outlet), 0
        while not over.wait(INTERVAL_S):
            with suppress(StoreError):
                if (read := min(_read(outlet, job), total)) > done:
                    done = read
                    on_progress(Progress(done, total))

    on_progress(Progress(0, total))
    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _read(outlet: Outlet, job: ExportJob) -> int:
    """The messages of all groups, by their newest notes."""
    read: dict[str, int] = {}
    for path in outlet.list(_folder(job)):
        number, _, messages = path.rpartition("/")[2].partition("-")
        read[number] = max(read.get(number, 0), int(messages))
    return sum(read.values())


def _folder(job: ExportJob) -> str:
    return f"{job.staging}/progress"
