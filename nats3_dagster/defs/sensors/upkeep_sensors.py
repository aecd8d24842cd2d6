"""Sensors for the upkeep of all archives: what expires, what copies miss, and what the store and the catalog may
forget. Their ticks do the work, a limited part at a time, and start no runs.
"""

import time
from collections.abc import Callable

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SkipReason, sensor

from nats3_dagster.defs.jobs.failures import tick_failures
from nats3_dagster.defs.keys import PROJECT, Naming
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

INTERVAL_S = 300
# Objects a tick: at 20 ms each it takes ten seconds of the minute that Dagster gives it.
SWEPT_AT_ONCE = 500
# Bytes of objects a tick, for each copy: a link of 20 MB/s takes 13 s for them.
COPIED_BYTES = 256 << 20


def expiry_sensor(naming: Naming = PROJECT) -> SensorDefinition:
    """`expiry_sensor`: one for all archives, on unless switched off in the UI."""

    def expire(workspace: Workspace) -> str:
        # It imports nats, 0.1 s of each load of the definitions.
        from nats3_dagster.archive.keep.retention import expire_each

        expired = tuple(expire_each(workspace))
        if problem := next((one.problem for one in expired if one.problem), None):
            raise problem
        hours, messages = sum(one.hours for one in expired), sum(one.messages for one in expired)
        if not hours:
            return "No hour has expired"
        return f"{hours:,} hours with {messages:,} messages expired: {', '.join(e.archive for e in expired if e.hours)}"

    return _upkeep_sensor(
        naming,
        "expiry_sensor",
        "Removes the hours that archives do not keep any longer, by their settings keep and keep_bytes; what a hold "
        "covers stays. Their objects go with the sweep. It starts no runs.",
        expire,
    )


def copy_sensor(naming: Naming = PROJECT) -> SensorDefinition:
    """`copy_sensor`: one for all archives, on unless switched off in the UI."""

    def copy(workspace: Workspace) -> str:
        # It imports nats, 0.1 s of each load of the definitions.
        from nats3_dagster.archive.stored.copies import copy_each

        if not (copied := copy_each(workspace, COPIED_BYTES)):
            return "Every copy has what it should have"
        objects, removed = sum(one.objects for one in copied), sum(one.removed for one in copied)
        buckets = ", ".join(sorted({one.bucket for one in copied}))
        return f"Copied {objects:,} objects into {buckets}, and removed {removed:,} there"

    return _upkeep_sensor(
        naming,
        "copy_sensor",
        "Copies what is missing in the copies of archives, by their setting copies, and removes there what their own "
        "buckets lost. A seal copies the chunks of its hour by itself. It starts no runs.",
        copy,
    )


def sweep_sensor(naming: Naming = PROJECT) -> SensorDefinition:
    """`sweep_sensor`: one for all archives, on unless switched off in the UI."""

    def remove(workspace: Workspace) -> str:
        # It imports nats, 0.1 s of each load of the definitions.
        from nats3_dagster.archive.keep.erasure import carry_out_each
        from nats3_dagster.archive.stored.removal import clean, sweep

        _, problem = carry_out_each(workspace, turn=int(time.time() // INTERVAL_S))
        swept, rows = sweep(workspace, SWEPT_AT_ONCE), clean(workspace, rounds=1)
        if problem:
            raise problem
        forgot = f"; forgot {rows:,} rows of the catalog" if rows else ""
        if not swept.objects:
            return f"No object waits to be removed whose grace has passed{forgot}"
        return f"Removed {swept.objects:,} objects with {swept.bytes:,} bytes{forgot}"

    return _upkeep_sensor(
        naming,
        "sweep_sensor",
        "Removes the objects of chunks that were deleted after their replay, once NATS3_DELETE_GRACE seconds have "
        "passed, objects that erasures left, and rows of the catalog that nothing has needed for NATS3_HISTORY_KEEP. "
        "It starts no runs.",
        remove,
    )


def _upkeep_sensor(naming: Naming, name: str, description: str, work: Callable[[Workspace], str]) -> SensorDefinition:
    """Returns a sensor whose tick does the work and shows its summary."""

    @sensor(
        name=naming.name(name),
        minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description=description,
    )
    def evaluate(_context: SensorEvaluationContext) -> SkipReason:
        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            return SkipReason(work(workspace))

    return evaluate
