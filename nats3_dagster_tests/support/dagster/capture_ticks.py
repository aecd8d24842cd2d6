"""Ticks of the capture sensor."""

from typing import Any

from dagster import DagsterInstance, RunRequest, SensorResult, SkipReason, build_sensor_context

from nats3_dagster.defs.project.project import load


def result(instance: DagsterInstance, cursor: str | None = None, archive: str = "events") -> SensorResult | SkipReason:
    defs = load()
    sensor: Any = defs.resolve_sensor_def(f"{archive}_capture_sensor")
    return sensor(build_sensor_context(instance=instance, definitions=defs, cursor=cursor))


def tick(instance: DagsterInstance) -> RunRequest | SkipReason:
    said = result(instance)
    if isinstance(said, SkipReason):
        return said
    if said.run_requests:
        (request,) = said.run_requests
        return request
    assert said.skip_reason is not None
    return said.skip_reason


def why(said: RunRequest | SkipReason) -> str:
    assert isinstance(said, SkipReason), said
    return said.skip_message or ""
