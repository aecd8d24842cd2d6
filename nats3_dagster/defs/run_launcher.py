"""The run launcher that dagster.yaml names: Dagster's default one, which also finds runs that were killed together with
their code server.

Dagster's code server reports the death of a run that it started. Where it dies too, as in a power cut, no process does:
the default launcher cannot be asked, and the run counts as running for good. This launcher can be asked, and run
monitoring does.

Invariant: a run is dead only after its lock, which it had, was free in each of several looks over a time in which a
living process takes it again.
"""

import time
from dataclasses import dataclass

from dagster import DagsterRun, DefaultRunLauncher

from nats3_dagster.defs.instance.internals import CheckRunHealthResult, ConfigurableClassData, WorkerStatus
from nats3_dagster.defs.keys import HELD_TAG
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# A lock that was lost with its connection is taken again: within 65 s where a host of Postgres vanished (connection.py,
# and run_locks.LOOK_S).
FREE_S, FREE_LOOKS = 120.0, 3


@dataclass(slots=True)
class _Free:
    """Looks in a row at a lock that was free."""

    # Of the first one, of time.monotonic.
    since: float
    looks: int = 0


class WatchingRunLauncher(DefaultRunLauncher):
    """Starts each run as a process of its code server, and knows which of them live."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(inst_data)
        self._free: dict[str, _Free] = {}

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Run monitoring asks this of each run that has started. A run of another job, and one whose lock is in another
        database, counts as running, as under the default launcher. Raises Nats3Error."""
        tag = run.tags.get(HELD_TAG)
        if tag is None or self._is_held(run.run_id, tag):
            self._free.pop(run.run_id, None)
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        now = time.monotonic()
        free = self._free.setdefault(run.run_id, _Free(now))
        free.looks += 1
        if free.looks < FREE_LOOKS or now - free.since < FREE_S:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        del self._free[run.run_id]
        return CheckRunHealthResult(
            WorkerStatus.FAILED,
            f"Its process let go of its lock in Postgres and did not take it again for {now - free.since:.0f} s: it "
            "was killed together with its code server, or its host went down",
        )

    def _is_held(self, run_id: str, tag: str) -> bool:
        try:
            with Workspace(Settings.load()) as workspace:
                locks = workspace.catalog.run_locks
                return tag != held_in(run_id, locks.database()) or locks.is_held(run_id)
        except BaseException:
            # Looks that could not be are no looks in a row.
            self._free.pop(run_id, None)
            raise


def held_in(run_id: str, database: str) -> str:
    """The tag of a run that has taken its lock in this database. It names the run: a retry has the tags of the run
    before it."""
    return f"{run_id}@{database}"
