"""Exports in Dagster: definitions, runs, the sensor, and that partitions are what the catalog has."""

import json
import time
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, SensorResult, SkipReason, build_sensor_context
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.archive.proof.seal import ended_hours, seal_hours, sealable
from nats3_dagster.defs.assets.exports import EXPORT_HOURS
from nats3_dagster.defs.keys import EXPORT_TAG, PROJECT
from nats3_dagster.defs.project.component import ArchiveDeclaration, ExportDeclaration, build_archive_definitions
from nats3_dagster.defs.project.project import load
from nats3_dagster.defs.sensors.reconcile import reconcile
from nats3_dagster.errors import OperatorError
from nats3_dagster.exports import declare, status
from nats3_dagster.exports.hours import attempt
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ExportResult, ExportSpec
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.stories import archive, captured, hold, past

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]
OUT = AssetKey(["events", "out"])


def declared(settings: Settings, bucket: str, name: str = "out", **fields: Any) -> None:
    with Workspace(settings) as workspace:
        declare.create(workspace, "events", ExportSpec(name, f"s3://{bucket}/{name}", **fields))


def seal(settings: Settings) -> list[str]:
    """Seal all that is complete; the hours."""
    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get("events")
        first, _ = ended_hours(workspace, found)
        return [s.hour for s in seal_hours(workspace, found, sealable(workspace, found, first).hours)]


def made(settings: Settings, *hours: str, name: str = "out", messages: int = 1) -> None:
    """Record hours as exported, as a run of a shell does."""
    with Workspace(settings) as workspace:
        found, export = status.find(workspace, "events", name)
        for hour in hours:
            result = ExportResult("events", name, hour, 1, messages, 0, 0, 10, f"{messages:016x}", 1, 0)
            attempt(workspace, found, export, hour, lambda result=result: result)


def fails(settings: Settings, hour: str, name: str = "out") -> None:
    with Workspace(settings) as workspace:
        found, export = status.find(workspace, "events", name)

        def perform() -> ExportResult:
            raise OperatorError("3 messages do not decode")

        with pytest.raises(OperatorError):
            attempt(workspace, found, export, hour, perform)


def tick(instance: DagsterInstance) -> SensorResult:
    defs = load()
    sensor: Any = defs.resolve_sensor_def("events_export_sensor")
    said = sensor(build_sensor_context(instance=instance, definitions=defs))
    return SensorResult(skip_reason=said) if isinstance(said, SkipReason) else said


def asked(said: SensorResult) -> list[tuple[str, str]]:
    return [
        (request.tags["dagster/asset_partition_range_start"], request.tags["dagster/asset_partition_range_end"])
        for request in said.run_requests or ()
    ]


def why(said: SensorResult) -> str:
    assert said.skip_reason is not None
    return (said.skip_reason.skip_message if isinstance(said.skip_reason, SkipReason) else said.skip_reason) or ""


def resync(settings: Settings, instance: DagsterInstance) -> list[AssetKey]:
    """Reconcile until nothing is left, as the daemon does; what was wiped."""
    heard: Any = {}
    wiped: list[AssetKey] = []
    for _ in range(20):
        with Workspace(settings) as workspace:
            found = reconcile(instance, workspace, heard, PROJECT)
        assert not found.problems
        for event in found.events:
            instance.report_runless_asset_event(event)
        wiped += found.wiped
        heard = found.heard
        if not found.events and not found.wiped:
            return wiped
    raise AssertionError("it never ends")


def shown(instance: DagsterInstance, key: AssetKey = OUT) -> set[str]:
    return set(instance.get_materialized_partitions(key))


def test_an_export_is_an_asset_behind_the_sealed_hours(settings: Settings, bucket: str) -> None:
    captured(settings, bucket, 3)
    assert "events_export_sensor" not in {sensor.name for sensor in load().get_repository_def().sensor_defs}
    declared(settings, bucket)
    declared(settings, bucket, "by_store", key="subject:2")
    graph = load().resolve_asset_graph()
    for name in ("out", "by_store"):
        node = graph.get(AssetKey(["events", name]))
        assert node.parent_keys == {AssetKey(["events", "sealed"])}
        assert node.group_name == "events"
        assert node.partitions_def == graph.get(AssetKey(["events", "sealed"])).partitions_def
        assert node.backfill_policy is not None
        assert node.backfill_policy.max_partitions_per_run == EXPORT_HOURS
    sensor = load().resolve_sensor_def("events_export_sensor")
    assert sensor.default_status.value == "RUNNING"


def test_a_run_exports_sealed_hours_and_goes_on_past_one_that_is_not(
    spark: Any, settings: Settings, bucket: str, instance: DagsterInstance, s3_client: Any
) -> None:
    from nats3_dagster.pipeline.capture_run import run_capture

    hours = past(settings, 3)
    archive(settings, bucket)
    for hour in hours:
        run_capture(spark, settings, "events", hour)
    declared(settings, bucket, format="messages")
    seal(settings)
    # One of them changes after its seal.
    with Workspace(settings) as workspace:
        found = workspace.catalog.archives.get("events")
        (chunk,) = workspace.catalog.chunks.of_hour(found, hours[1])
        workspace.catalog.chunks.retire(found, [chunk.id])
    ran = (
        load()
        .resolve_implicit_global_asset_job_def()
        .get_subset(asset_selection={OUT})
        .execute_in_process(
            instance=instance,
            raise_on_error=False,
            tags={"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[2]},
        )
    )
    assert not ran.success
    assert shown(instance) == {hours[0], hours[2]}
    event = instance.get_latest_materialization_event(OUT)
    assert event is not None
    assert event.asset_materialization is not None
    metadata = {key: value.value for key, value in event.asset_materialization.metadata.items()}
    assert (metadata["messages"], metadata["files"], metadata["undecoded"]) == (1, 1, 0)
    assert (metadata["dagster/partition_row_count"], metadata["dagster/row_count"]) == (1, 2)
    manifest = str(metadata["dagster/uri"]).removeprefix(f"s3://{bucket}/")
    assert json.loads(s3_client.get_object(Bucket=bucket, Key=manifest)["Body"].read())["hour"] == hours[2]
    assert instance.get_run_by_id(ran.run_id).tags["nats3/failed_hours"] == hours[1]  # type: ignore[union-attr]
    # The catalog sensor has nothing to add to what the run said, and takes nothing away.
    assert OUT not in resync(settings, instance)
    assert shown(instance) == {hours[0], hours[2]}


def test_the_sensor_asks_for_sealed_hours_that_are_due(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    hours = captured(settings, bucket, 3)
    declared(settings, bucket)
    said = tick(instance)
    assert (asked(said), why(said)) == ([], "out: every sealed hour is exported")
    assert seal(settings) == hours
    said = tick(instance)
    assert asked(said) == [(hours[0], hours[2])]
    (request,) = list(said.run_requests or ())
    assert (request.asset_selection, request.tags[EXPORT_TAG]) == ([OUT], "events/out")
    made(settings, hours[1])
    assert asked(tick(instance)) == [(hours[0], hours[0]), (hours[2], hours[2])]
    made(settings, hours[0], hours[2])
    assert why(tick(instance)) == "out: every sealed hour is exported"

    # An hour that changed, and was sealed anew, is due again.
    hold(settings, bucket, [hours[1]], first=4)
    assert asked(tick(instance)) == []
    seal(settings)
    assert asked(tick(instance)) == [(hours[1], hours[1])]


def test_an_hour_that_fails_waits_and_the_others_do_not(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    hours = captured(settings, bucket, 3)
    declared(settings, bucket)
    seal(settings)
    fails(settings, hours[0])
    assert asked(tick(instance)) == [(hours[1], hours[2])]
    made(settings, *hours[1:])
    assert why(tick(instance)) == f"out: {hours[0]} failed once and is tried again later. 3 messages do not decode"


def test_a_run_that_is_under_way_is_waited_for(settings: Settings, bucket: str, instance: DagsterInstance) -> None:
    captured(settings, bucket, 2)
    declared(settings, bucket)
    declared(settings, bucket, "other")
    seal(settings)
    run = create_run_for_test(instance, tags={EXPORT_TAG: "events/out"})
    said = tick(instance)
    assert [request.asset_selection for request in said.run_requests or ()] == [[AssetKey(["events", "other"])]]
    made(settings, *[hour_of(hour_start(hour_of(time.time_ns())) - n * HOUR_NS) for n in (1, 2)], name="other")
    assert f"out: run {run.run_id} exports hours" in why(tick(instance))


def test_partitions_are_what_the_catalog_has_whoever_exported(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    hours = captured(settings, bucket, 3)
    declared(settings, bucket)
    declared(settings, bucket, "other")
    seal(settings)
    made(settings, *hours[:2])
    made(settings, hours[2], name="other")
    other = AssetKey(["events", "other"])
    assert resync(settings, instance) == []
    assert (shown(instance), shown(instance, other)) == ({*hours[:2]}, {hours[2]})

    def messages(hour: str) -> tuple[object, ...]:
        """Of the hour, and of all that were exported when Dagster heard of it."""
        record = instance.fetch_materializations(OUT, limit=50).records
        newest = next(r for r in record if r.partition_key == hour)
        assert newest.asset_materialization
        found = newest.asset_materialization.metadata
        return found["messages"].value, found["dagster/row_count"].value

    # Exported again, with another result.
    made(settings, hours[0], messages=7)
    resync(settings, instance)
    assert messages(hours[0]) == (7, 8)

    # Deleted, and declared anew: it has made nothing.
    with Workspace(settings) as workspace:
        declare.delete(workspace, "events", "out")
    assert resync(settings, instance) == [OUT]
    assert shown(instance) == set()
    declared(settings, bucket)
    made(settings, hours[1])
    resync(settings, instance)
    assert (shown(instance), shown(instance, other)) == ({hours[1]}, {hours[2]})

    # The archive goes, and all of it.
    with Workspace(settings) as workspace:
        workspace.catalog.archives.delete("events")
    assert {OUT, other} <= {*resync(settings, instance)}


def test_exports_are_declared_as_code(settings: Settings, bucket: str, instance: DagsterInstance) -> None:
    hours = captured(settings, bucket, 2)
    seal(settings)
    export = ExportDeclaration(name="out", to=f"s3://{bucket}/out", key="subject:1")
    entry = ArchiveDeclaration(name="events", stream="EV", bucket=bucket, exports=[export])
    defs = build_archive_definitions(archives=[entry])
    assert OUT in defs.resolve_asset_graph().get_all_asset_keys()
    sensor: Any = defs.resolve_sensor_def("events_export_sensor")
    said = sensor(build_sensor_context(instance=instance, definitions=defs))
    assert asked(said) == [(hours[0], hours[1])]
    with Workspace(settings) as workspace:
        _, found = status.find(workspace, "events", "out")
        assert found.spec == export.spec()
        declare.change(workspace, "events", "out", {"max_undecoded": 3})
    with pytest.raises(Exception, match="is not as declared: max_undecoded is 3, and 0 is declared"):
        sensor(build_sensor_context(instance=instance, definitions=defs))
    with Workspace(settings) as workspace:
        declare.delete(workspace, "events", "out")
    with pytest.raises(Exception, match="is declared, and was deleted"):
        sensor(build_sensor_context(instance=instance, definitions=defs))
