"""Scrapes: how often a server measures, and how long a scrape waits for it.

Invariant: one measurement runs at a time for all scrapes, and every scrape is answered within DEADLINE_S. What is kept
for FRESH_S is no state: any server, and a new one, finds the same numbers.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait

from nats3_dagster.documents.domain_metrics import DomainCounts
from nats3_dagster.documents.metrics import Exposition
from nats3_dagster.replay.metrics_snapshot import Measurement, measure
from nats3_dagster.workspace import Workspace

# Scrapes that come together share one measurement.
FRESH_S = 1.0
# Prometheus gives a scrape up after 10 s. Only Postgres can take longer: see `measure`.
DEADLINE_S = 8.0


class Scrapes:
    """`exposition()` from several threads at once. `domains`: what this process serves besides, as it is now."""

    def __init__(self, workspace: Workspace, domains: Callable[[], list[DomainCounts]]) -> None:
        self._workspace, self._domains = workspace, domains
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._asked: Future[Measurement] | None = None

    def exposition(self) -> Exposition:
        """The numbers of now, or of FRESH_S ago at most when they were asked for."""
        with self._lock:
            asked = self._asked
            fresh = time.monotonic() - self._asked_at < FRESH_S
            if asked is None or (asked.done() and not (fresh and asked.exception() is None)):
                asked = self._asked = Future()
                self._asked_at = time.monotonic()
                # A daemon: a server ends though Postgres never answers.
                threading.Thread(target=self._measure, args=(asked,), name="scrape", daemon=True).start()
            asked_at = self._asked_at
        if wait([asked], max(0.0, asked_at + DEADLINE_S - time.monotonic())).not_done:
            measured = Measurement({"postgres": False}, seconds=time.monotonic() - asked_at)
            return Exposition(measured, domains=self._domains())
        return Exposition(asked.result(), time.monotonic() - asked_at, self._domains())

    def _measure(self, asked: Future[Measurement]) -> None:
        try:
            asked.set_result(measure(self._workspace))
        except BaseException as error:
            asked.set_exception(error)
