"""A sensor's capture run that stays: it does the next captures of its archive too, until another run wants its place.

Invariant: the events of a capture are in Dagster before the run waits for the next one.
"""

import time
from collections.abc import Callable, Iterator
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
    tags = context.run.tags
    if WHY_TAG not in tags or ACCOUNT_TAG in tags or not is_alone(context):
        yield lambda _: False
        return
    from nats3_dagster.archive.captures.stay import Stay, stays

    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get(archive)
        stay = Stay(found, hour, _Queue(context.instance).is_waiting) if stays(found, hour) else None
        yield lambda captured: stay is not None and _is_due(context, workspace, stay, captured)


def _is_due(
    context: AssetExecutionContext, workspace: Workspace, stay: "Stay", captured: list[AssetMaterialization]
) -> bool:
    while captured:
        context.log_event(captured[0])
        del captured[0]
    return stay.is_due(workspace)


class _Queue:
    """Dagster's queue of runs: one that waits may want the place of this run in a pool, or among all."""

    def __init__(self, instance: DagsterInstance) -> None:
        self._instance = instance
        # By time.monotonic().
        self._looked_at = float("-inf")

    def is_waiting(self) -> bool:
        """True if a run waits in the queue, as seen within the last QUEUE_LOOK_S seconds."""
        if time.monotonic() - self._looked_at < QUEUE_LOOK_S:
            return False
        self._looked_at = time.monotonic()
        return bool(self._instance.get_runs_count(RunsFilter(statuses=[DagsterRunStatus.QUEUED])))
