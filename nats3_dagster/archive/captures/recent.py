"""The conditions of archives for many who ask at once, as the clients of a server do.

Invariant: a condition was asked for at most FRESH_S ago, and what is not known of an archive is asked for once, however
many wait for it. What is kept is no state: the catalog and NATS have the same.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from nats3_dagster.archive.condition import Condition, conditions
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

FRESH_S = 1.0


class RecentConditions:
    """`of(archives)` from several threads at once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        # By the archive as it is defined now, so that a change of it is seen at once: when it was asked for, and what
        # the answer is or will be.
        self._asked: dict[Archive, tuple[float, Future[Condition]]] = {}

    def of(self, archives: Sequence[Archive]) -> dict[int, Condition]:
        """The condition of each archive, by its id. Raises CatalogError."""
        now = time.monotonic()
        with self._lock:
            self._asked = {
                archive: (asked_at, answer) for archive, (asked_at, answer) in self._asked.items()
                if now - asked_at < FRESH_S and not (answer.done() and answer.exception())
            }  # fmt: skip
            missing = [archive for archive in archives if archive not in self._asked]
            self._asked |= {archive: (now, Future()) for archive in missing}
            answers = {archive.id: self._asked[archive][1] for archive in archives}
        if missing:
            self._ask(missing, answers)
        return {archive_id: answer.result() for archive_id, answer in answers.items()}

    def _ask(self, archives: Sequence[Archive], answers: dict[int, Future[Condition]]) -> None:
        try:
            found = conditions(self._workspace, archives)
        except BaseException as error:
            for archive in archives:
                answers[archive.id].set_exception(error)
            raise
        for archive in archives:
            answers[archive.id].set_result(found[archive.id])
