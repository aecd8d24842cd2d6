"""Replays by name: an asset and a job each, which need no run config."""

from datetime import UTC, datetime
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    DagsterInstance,
    build_schedule_context,
    build_schedule_from_partitioned_job,
)

from nats3_dagster import ArchiveComponent, ArchiveDeclaration, build_archive_definitions
from nats3_dagster.archive import status
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.defs.jobs.failures import CannotLoad
from nats3_dagster.defs.project.project import load
from nats3_dagster.model import ReplayPreset
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.stories import archive, past
from nats3_dagster_tests.support.wire import Wire

PRESET = {"name": "to_test", "write_subject": "test.>", "create_stream": "TEST"}


def test_catalog_and_component_define_the_same(settings: Settings, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    with Workspace(settings) as workspace:
        change(workspace, "events", {"replays": (ReplayPreset.of({**PRESET, "rate": 5}),)})
    own = load()
    assets = {key.to_user_string() for key in own.resolve_asset_graph().get_all_asset_keys()}
    assert "events/replay/to_test" in assets
    assert own.resolve_assets_def(AssetKey(["events", "replay", "to_test"])).op.pool == "replay"
    # What code declares wins, and may only name the archive.
    attributes: dict[str, Any] = {
        "key_prefix": "acme",
        "assets": {"replay": {"pool": "writes", "owners": ["team:qa"]}},
        "archives": [{"name": "events", "replays": [PRESET, {**PRESET, "name": "more", "order": "subject"}]}],
    }
    component = ArchiveComponent.from_attributes_dict(attributes=attributes).build_defs(None)  # type: ignore[arg-type]
    made = component.resolve_assets_def(AssetKey(["acme", "events", "replay", "to_test"]))
    (spec,) = made.specs
    assert (made.op.pool, list(spec.owners), spec.metadata["rate"], spec.metadata["write_subject"]) == (
        "writes",
        ["team:qa"],
        "none",
        "test.>",
    )
    assert [dep.asset_key.to_user_string() for dep in spec.deps] == ["acme/events/sealed"]
    jobs = {job.name for job in component.get_repository_def().get_all_jobs()}
    assert {"acme_events_replay_to_test", "acme_events_replay_more"} < jobs
    schema = ArchiveComponent.model().model_json_schema()["$defs"]["ReplayDeclarationModel"]["properties"]
    assert {"name", "write_subject", "read_subject", "rate", "live"} < {*schema}
    assert not {"hours", "from_time", "sequences", "delete_chunks", "poll_interval"} & {*schema}


@pytest.mark.parametrize(
    ("replays", "says"),
    [
        ([{**PRESET, "rate": -5.0}], "rate is -5"),
        ([{**PRESET, "speed": 1.0, "order": "subject"}], "The original timing needs one publisher"),
        ([PRESET, PRESET], "The replay to_test is there twice"),
        ([{**PRESET, "write_subject": "a b"}], "'a b'"),
        ([{**PRESET, "name": "A"}], "'A' is not a name of a replay"),
    ],
)
def test_a_wrong_one_is_refused_in_one_line(settings: Settings, replays: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(CannotLoad) as refused:
        ArchiveComponent.from_attributes_dict(
            attributes={"archives": [{"name": "a", "stream": "A", "bucket": "abc", "replays": replays}]}
        ).build_defs(None)  # type: ignore[arg-type]
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def materializations(instance: DagsterInstance, key: AssetKey) -> list[AssetMaterialization]:
    """The oldest first."""
    found = [record.asset_materialization for record in instance.fetch_materializations(key, limit=99).records]
    return [one for one in found[::-1] if one is not None]


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(60)
@pytest.mark.filterwarnings("ignore:Function .JobDefinition.run_request_for_partition:DeprecationWarning")
def test_hours_are_replayed_without_config(
    spark: Any, settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    hours = past(settings, 3)
    archive(settings, bucket)
    for hour in hours:
        run_capture(spark, settings, "events", hour)
    definitions = build_archive_definitions(archives=[ArchiveDeclaration(name="events", replays=[PRESET])])
    key = AssetKey(["events", "replay", "to_test"])
    job = definitions.resolve_job_def("events_replay_to_test")
    # As a backfill of the UI does: one run, and one replay, for all hours.
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[1]}
    assert job.execute_in_process(instance=instance, tags=tags).success
    assert instance.get_materialized_partitions(key) == {*hours[:2]}
    assert wire.state("TEST")["messages"] == 2
    # As `dagster job backfill` does: an hour a run.
    assert job.execute_in_process(instance=instance, partition_key=hours[2]).success
    assert wire.state("TEST")["messages"] == 3
    event = instance.get_latest_materialization_event(key)
    assert event
    assert event.asset_materialization
    assert event.asset_materialization.metadata["messages"].value == 1
    # A version says what was published: that of an hour again is the same, that of another hour is not.
    assert job.execute_in_process(instance=instance, partition_key=hours[2]).success
    seen = [one.tags or {} for one in materializations(instance, key)]
    versions = [tags["dagster/data_version"] for tags in seen]
    assert (versions[2] == versions[3], len({*versions})) == (True, 3)
    with Workspace(settings) as workspace:
        contents = status.contents(workspace, workspace.catalog.archives.get("events"), hours)
    made_of = [tags["dagster/input_data_version/events/sealed"] for tags in seen]
    assert made_of == [contents[hour] for hour in [*hours, hours[2]]]
    # A schedule asks for the newest hour that has ended.
    schedule = build_schedule_from_partitioned_job(
        definitions.resolve_job_def("events_replay_to_test"), minute_of_hour=10
    )
    asked = schedule.evaluate_tick(  # type: ignore[union-attr]
        build_schedule_context(instance=instance, scheduled_execution_time=datetime.now(UTC))
    )
    assert [(one.partition_key, dict(one.run_config)) for one in asked.run_requests or []] == [(hours[2], {})]
