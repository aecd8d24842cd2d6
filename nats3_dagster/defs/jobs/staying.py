"""A sensor's capture run that stays: it does the next captures of its archive too, until another run wants its place.

Invariant: the events of a capture are in Dagster before the run waits for the next one.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dagster import AssetExecutionContext, AssetMaterialization, DagsterInstance, DagsterRunStatus, RunsFilter

from nats3_dagster.defs.assets.events import is_alone
from nats3_dagster.defs.keys import ACCOUNT_TAG, WHY_TAG
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.stay import Stay

# Between two looks at Dagster's queue.
QUEUE_LOOK_S = 2.0
# Reports what was captured and empties the list; waits; True when another capture is due.
IsDue = Callable[[list[AssetMaterialization]], bool]


@contextmanager
def staying(context: AssetExecutionContext, settings: Settings, archive: str, hour: str) -> Iterator[IsDue]:
    """The stay of a run after its first capture. A run that no sensor asked for, one of many archives, and one with
    steps that come after this one, do not stay: nothing is due then, and the list is left as it is."""
    if not is_staying(context.run.tags) or not is_alone(context):
        yield lambda _: False
        return
    from nats3_dagster.archive.captures.stay import Stay, stays

    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get(archive)
        stay = (
            Stay(found, hour, _Queue(context.instance, context.run.run_id).is_waiting) if stays(found, hour) else None
        )
        yield lambda captured: stay is not None and _is_due(context, workspace, stay, captured)


def is_staying(tags: Mapping[str, str]) -> bool:
    """True for the tags of a run that stays: a sensor asked for it, for one archive."""
    return WHY_TAG in tags and ACCOUNT_TAG not in tags


def _is_due(
    context: AssetExecutionContext, workspace: Workspace, stay: "Stay", captured: list[AssetMaterialization]
) -> bool:
    while captured:
        context.log_event(captured[0])
        del captured[0]
    return stay.is_due(workspace)


class _Queue:
    """Dagster's queue of runs: one that waits may want the place of a run that stays, in a pool or among all.

    Runs that stay end in the order in which they were created, one for each that waits: if all ended for one, all
    would be started again."""

    def __init__(self, instance: DagsterInstance, run_id: str) -> None:
        self._instance, self._run_id = instance, run_id
        # By time.monotonic().
        self._looked_at = float("-inf")

    def is_waiting(self) -> bool:
        """True if a run waits in the queue for which this one is to end, as seen within the last QUEUE_LOOK_S
        seconds."""
        if time.monotonic() - self._looked_at < QUEUE_LOOK_S:
            return False
        self._looked_at = time.monotonic()
        waiting = self._instance.get_runs_count(RunsFilter(statuses=[DagsterRunStatus.QUEUED]))
        return waiting > 0 and waiting > self._before()

    def _before(self) -> int:
        """The number of runs of captures that a sensor asked for before this one, and that have not ended."""
        own = self._instance.get_run_record_by_id(self._run_id)
        if own is None:
            return 0
        older = RunsFilter(statuses=[DagsterRunStatus.STARTED], created_before=own.create_timestamp)
        return sum(is_staying(run.tags) for run in self._instance.get_runs(older))
