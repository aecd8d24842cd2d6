"""Ticks of the seal sensor, and the runs that they ask for."""

from typing import Any

from dagster import (
    AssetSelection,
    DagsterEventType,
    DagsterInstance,
    ExecuteInProcessResult,
    RunRequest,
    SensorResult,
    SkipReason,
    build_sensor_context,
)

from nats3_dagster.defs.project.project import load


def tick(instance: DagsterInstance, cursor: str | None = None) -> SensorResult:
    defs = load()
    sensor: Any = defs.resolve_sensor_def("events_seal_sensor")
    said = sensor(build_sensor_context(instance=instance, definitions=defs, cursor=cursor))
    if isinstance(said, SkipReason):
        return SensorResult(skip_reason=said)
    return said


def asked(said: SensorResult) -> list[RunRequest]:
    return list(said.run_requests or ())


def execute(instance: DagsterInstance, request: RunRequest, checks: bool = True) -> ExecuteInProcessResult:
    """Run what a tick asked for, as the daemon does."""
    chosen = AssetSelection.assets(*(request.asset_selection or ()))
    if checks:
        chosen |= AssetSelection.checks(*(request.asset_check_keys or ()))
    graph = load().resolve_asset_graph()
    job = (
        load()
        .resolve_implicit_global_asset_job_def()
        .get_subset(asset_selection=chosen.resolve(graph), asset_check_selection=chosen.resolve_checks(graph))
    )
    return job.execute_in_process(instance=instance, raise_on_error=False, tags=request.tags)


def failure(result: ExecuteInProcessResult) -> str:
    said = [e.step_failure_data for e in result.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    return " ".join(str(data.user_failure_data or data.error) for data in said)
