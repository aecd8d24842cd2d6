"""The check sensor: asks for the checks of archives whose hours changed after they were evaluated.

A run that captures evaluates two checks, a run that seals the others. What the catalog sensor reports comes from no
run, and Dagster shows a check that is older than the newest materialization of its asset as not evaluated.
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    DagsterInstance,
    DefaultSensorStatus,
    EventLogRecord,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    sensor,
)

from nats3_dagster.defs.instance.internals import AssetCheckExecutionRecord, check_records
from nats3_dagster.defs.keys import CHECKS, Naming
from nats3_dagster.hours import hour_of

INTERVAL_S = 60
# How long the hours of an archive have not changed: while captures follow each other, each evaluates checks.
QUIET_S = 60.0
# Archives of one run.
ARCHIVES_AT_ONCE = 200


def check_sensor(naming: Naming, archives: Collection[str], job: Any) -> SensorDefinition:
    """`check_sensor`: one for all archives, on unless switched off in the UI."""

    @sensor(
        name=naming.name("check_sensor"),
        minimum_interval_seconds=INTERVAL_S,
        job=job,
        default_status=DefaultSensorStatus.RUNNING,
        description="Evaluates the checks of archives whose hours changed since: one run for 200 of them at most, and "
        "for each archive once an hour at most.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult:
        now = time.time()
        hour, before = hour_of(int(now * 1e9)), _read(context.cursor)
        waiting = [name for name in archives if before.get(name) != hour]
        # The others come with the next tick: a run is made of all its checks at once.
        late = _late(context.instance, naming, waiting, now)[:ARCHIVES_AT_ONCE]
        if not late:
            return SensorResult(skip_reason="The checks are newer than the hours, or were asked for in this hour")
        asked = {name: at for name, at in before.items() if name in archives} | dict.fromkeys(late, hour)
        request = RunRequest(asset_check_keys=[key for name in late for key in _keys(naming, name)])
        return SensorResult(run_requests=[request], cursor=json.dumps(asked))

    return evaluate


def _late(instance: DagsterInstance, naming: Naming, archives: Collection[str], now_s: float) -> list[str]:
    """The archives that have a check which Dagster shows as not evaluated since the newest event of their hours. It
    takes two queries, whatever their number."""
    keys = {naming.chunks_key(name): name for name in archives}
    events = {
        keys[record.asset_entry.asset_key]: newest
        for record in instance.get_asset_records([*keys])
        if (newest := record.asset_entry.last_materialization_record) and now_s - newest.timestamp >= QUIET_S
    }
    records = check_records(instance, [key for name in events for key in _keys(naming, name)])
    return sorted(
        name
        for name, newest in events.items()
        if _is_late(instance, newest, [records.get(key) for key in _keys(naming, name)])
    )


def _is_late(
    instance: DagsterInstance, newest: EventLogRecord, records: Sequence[AssetCheckExecutionRecord | None]
) -> bool:
    """True if one of these records of checks is from before the newest event of the hours."""
    for record in records:
        evaluation = record.evaluation if record else None
        # A record that is planned has the event of the plan, whatever its type says.
        if record is None or not isinstance(evaluation, AssetCheckEvaluation):
            # None is planned, or the run that planned it goes on, or ended before it.
            run = instance.get_run_by_id(record.run_id) if record else None
            return run is None or run.is_finished
        # As Dagster compares them: a run evaluates what it has materialized itself.
        target = evaluation.target_materialization_data
        if target is None:
            is_after = record.create_timestamp > newest.timestamp
        else:
            is_after = target.storage_id == newest.storage_id
        if not is_after and record.run_id != newest.run_id:
            return True
    return False


def _keys(naming: Naming, archive: str) -> list[AssetCheckKey]:
    return [naming.check_key(archive, check) for check in CHECKS]


def _read(cursor: str | None) -> Mapping[str, str]:
    """Returns for each archive the hour in which its checks were last requested."""
    try:
        read = json.loads(cursor or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
