"""Sensors: continuous archival. One an archive asks for a capture when one is due.

The rule kept here: never two captures of an archive at a time, and never a reason kept to itself. A `run_key` would be
used once ever and a failed hour never come back, so runs have none: what is under way or failed lately is asked of
Dagster, and what is lacking of the catalog.
"""

import time
from typing import Any

from dagster import (
    AssetKey,
    DagsterInstance,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)
from dagster._core.execution.backfill import BULK_ACTION_TERMINAL_STATUSES, BulkActionsFilter, BulkActionStatus
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from nats3_dagster.archive.backlog import Due, due, uncaptured
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.assets import CAPTURE_HOURS
from nats3_dagster.defs.backoff import back_off
from nats3_dagster.defs.checks import keeps_up
from nats3_dagster.defs.failures import told_plainly
from nats3_dagster.defs.loss import loss
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings

INTERVAL_S = 20
_ASSET_JOB = "__ASSET_JOB"
_BACKFILLING = [status for status in BulkActionStatus if status not in BULK_ACTION_TERMINAL_STATUSES]


def capture_sensor(archive: Archive, job: Any) -> SensorDefinition:
    """`<archive>_capture_sensor`: on unless switched off in the UI; `nats3 store pause` silences it at once."""
    name = archive.name

    @sensor(
        name=f"{name}_capture_sensor", job=job, minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Captures stream {archive.spec.stream} into archive {name} when the archive's thresholds are "
        "reached, and each hour when it has ended.",
    )  # fmt: skip
    def evaluate(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        with told_plainly():
            return _evaluate(context, Settings.load(), name)

    return evaluate


def _evaluate(context: SensorEvaluationContext, settings: Settings, name: str) -> SensorResult | SkipReason:
    """What one tick does. Raises Nats3Error, which the tick then shows, for a stream re-created, shrunk or gone."""
    from nats3_dagster.archive.source import source_state
    from nats3_dagster.jetstream.link import Link

    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.find(name)
        if archive is None:
            return SkipReason(deleted(name))
        if archive.paused:
            return SkipReason(f"Archive {name} is paused: nats3 store resume {name}")
        with Link(settings.nats) as link:
            state = source_state(catalog, link, archive)
            waiting = uncaptured(catalog, link, archive, state, time.time_ns())
    near = loss(state, waiting)
    # Only a change is an event: a tick that says the same again would fill Dagster's tables.
    events = [keeps_up(name, near)] if near.level != (context.cursor or "ok") else []
    decided = due(archive.spec, waiting, CAPTURE_HOURS)
    wanted, why_not = _request(context.instance, name, decided)
    return SensorResult(
        run_requests=[wanted] if wanted else [], skip_reason=why_not, cursor=near.level, asset_events=events
    )


def deleted(name: str) -> str:
    """What a sensor says that has outlived its archive."""
    return f"Archive {name} was deleted: reload the code location, and this sensor is gone"


def _request(instance: DagsterInstance, name: str, decided: Due) -> tuple[RunRequest | None, str | None]:
    """The run to start, or why there is none."""
    if active := _active(instance, name):
        return None, active
    if not decided.hours:
        return None, decided.why
    if waits := back_off(instance, RunsFilter(job_name=f"{name}_capture"), "Capture", time.time()):
        return None, waits
    first, last = decided.hours[0], decided.hours[-1]
    if first == last:
        return RunRequest(partition_key=first, tags={"nats3/why": decided.why}), None
    hours = {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}
    return RunRequest(tags={**hours, "nats3/why": decided.why}), None


def _active(instance: DagsterInstance, name: str) -> str | None:
    """What captures the archive or is about to, however it was started."""
    key, job = AssetKey([name, "chunks"]), f"{name}_capture"
    runs = list(instance.get_runs(RunsFilter(job_name=job, statuses=NOT_FINISHED_STATUSES), limit=1))
    if not runs:
        by_hand = instance.get_runs(RunsFilter(job_name=_ASSET_JOB, statuses=NOT_FINISHED_STATUSES))
        runs = [run for run in by_hand if key in (run.asset_selection or ())]
    for run in runs:
        return f"Run {run.run_id} ({run.status.value.lower()}) captures this archive"
    # Between two of its runs there is none to see.
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=_BACKFILLING)):
        if key in (backfill.asset_selection or ()) or backfill.job_name == job:
            return f"Backfill {backfill.backfill_id} captures this archive"
    return None
