"""Ticks of the sensors that archives of rules share, and the runs that they ask for."""

from typing import Any

from dagster import (
    DagsterInstance,
    DagsterRun,
    JobExecutionResult,
    RunRequest,
    SensorResult,
    SkipReason,
    build_sensor_context,
)
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.defs.instance.internals import IMPLICIT_ASSET_JOB_NAME
from nats3_dagster.defs.project.project import load

CAPTURES, SEALS = "account_captures_sensor", "account_seals_sensor"


def tick(instance: DagsterInstance, cursor: str | None = None, sensor: str = CAPTURES) -> SensorResult:
    defs = load()
    made: Any = defs.resolve_sensor_def(sensor)
    said = made(build_sensor_context(instance=instance, definitions=defs, cursor=cursor))
    assert isinstance(said, SensorResult)
    return said


def requests(said: SensorResult) -> list[RunRequest]:
    return list(said.run_requests or ())


def archives(request: RunRequest) -> list[str]:
    """The names of the archives that a run is for."""
    return [key.path[0] for key in request.asset_selection or ()]


def why(said: SensorResult) -> str:
    reason = said.skip_reason
    return (reason.skip_message if isinstance(reason, SkipReason) else reason) or ""


def begin(instance: DagsterInstance, request: RunRequest) -> DagsterRun:
    """The record of the run that a tick asked for, as the daemon makes it."""
    return create_run_for_test(
        instance,
        job_name=IMPLICIT_ASSET_JOB_NAME,
        tags=dict(request.tags),
        asset_selection=frozenset(request.asset_selection or ()),
        asset_check_selection=frozenset(request.asset_check_keys or ()),
    )


def execute(instance: DagsterInstance, request: RunRequest, run: DagsterRun | None = None) -> JobExecutionResult:
    """Run what a tick asked for, as a process of Dagster does."""
    job = load().resolve_implicit_global_asset_job_def()
    return execute_run(InMemoryJob(job), run or begin(instance, request), instance)
