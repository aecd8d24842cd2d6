"""The Iceberg table of an archive in Dagster: its asset, its job, and that the asset shows what the table has."""

from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance

from nats3_dagster.defs.assets import tables as of_dagster
from nats3_dagster.defs.assets.columns import TABLE_COLUMNS
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.defs.project.component import ArchiveComponent
from nats3_dagster.defs.project.project import load
from nats3_dagster.defs.sensors.reconcile import reconcile
from nats3_dagster.errors import OperatorError
from nats3_dagster.exports import declare
from nats3_dagster.model import ExportSpec
from nats3_dagster.settings import Settings
from nats3_dagster.tables import layout, tables
from nats3_dagster.tables.sync import sync
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.tables import LATER, logs, put, rows

TABLE, CHUNKS = AssetKey(["logs", "table"]), AssetKey(["logs", "chunks"])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_dagster, "REPORT_S", 0.0)


def made(settings: Settings, bucket: str) -> None:
    """An archive of 10 messages, and a table that is empty."""
    with Workspace(settings) as workspace:
        put(workspace, logs(workspace, bucket), rows(1, 10))
        tables.create(workspace, "logs")


def ticked(settings: Settings, instance: DagsterInstance) -> list[AssetKey]:
    """What the catalog sensor reports of tables; what it wipes is gone."""
    with Workspace(settings) as workspace:
        found = reconcile(instance, workspace, {}, PROJECT)
    events = [event for event in found.events if event.asset_key == TABLE]
    for event in events:
        instance.report_runless_asset_event(event)
    return [event.asset_key for event in events]


def says(instance: DagsterInstance) -> dict[str, Any]:
    event = instance.get_latest_materialization_event(TABLE)
    assert event is not None
    assert event.asset_materialization is not None
    shown = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    return shown | {"version": (event.asset_materialization.tags or {})["dagster/data_version"]}


@pytest.mark.s3
def test_the_asset_of_a_table(settings: Settings, bucket: str) -> None:
    with Workspace(settings) as workspace:
        logs(workspace, bucket)
    assert TABLE not in load().resolve_asset_graph().get_all_asset_keys()
    with Workspace(settings) as workspace:
        tables.create(workspace, "logs")
    node: Any = load().resolve_asset_graph().get(TABLE)
    assert (node.parent_keys, node.group_name, node.partitions_def) == ({CHUNKS}, "logs", None)
    assert (node.tags["dagster/storage_kind"], node.kinds) == ("iceberg", {"iceberg", "s3"})
    assert node.metadata["dagster/table_name"] == "nats3.logs"
    # The columns are those that pyiceberg reads.
    kinds = {"long": "int64", "timestamptz": "timestamp[us, tz=UTC]", "string": "string", "binary": "binary"}
    assert [(field.name, kinds[str(field.field_type)], field.optional) for field in layout.schema().columns] == [
        (column.name, column.type, column.constraints.nullable) for column in TABLE_COLUMNS.columns
    ]
    # In a platform of a user's own, with its prefix and settings.
    attributes: dict[str, Any] = {
        "key_prefix": "acme",
        "assets": {"table": {"owners": ["team:lake"], "pool": "iceberg"}},
        "archives": ["logs"],
    }
    component = ArchiveComponent.from_attributes_dict(attributes=attributes).build_defs(None)  # type: ignore[arg-type]
    own = component.resolve_assets_def(AssetKey(["acme", "logs", "table"]))
    assert (own.op.pool, list(next(iter(own.specs)).owners)) == ("iceberg", ["team:lake"])
    assert "acme_logs_sync_table" in {job.name for job in component.get_repository_def().get_all_jobs()}


@pytest.mark.s3
def test_a_run_syncs_the_table_and_the_sensor_has_nothing_to_add(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    made(settings, bucket)
    job = load().resolve_job_def("logs_sync_table")
    assert job.execute_in_process(instance=instance).success
    seen = says(instance)
    assert (seen["dagster/row_count"], seen["chunks"], seen["files_added"]) == (10, 1, 1)
    assert seen["dagster/uri"] == f"s3://{bucket}/iceberg/logs"
    lineage = seen["dagster/column_lineage"].deps_by_column
    assert [(dep.asset_key, dep.column_name) for dep in lineage["data"]] == [(CHUNKS, "data")]
    assert ticked(settings, instance) == []
    # Again: there is nothing to do, and the version stays.
    assert job.execute_in_process(instance=instance).success
    again = says(instance)
    assert (again["version"], again["files_added"]) == (seen["version"], 0)


def test_the_sensor_reports_what_others_synced_and_forgets_a_table_that_was_dropped(
    settings: Settings, bucket: str, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(settings, bucket)
    # Nothing was ever synced.
    assert ticked(settings, instance) == []
    with Workspace(settings) as workspace:
        sync(workspace, tables.find(workspace, "logs"))
    assert (ticked(settings, instance), ticked(settings, instance)) == ([TABLE], [])
    first = says(instance)
    assert first["dagster/row_count"] == 10
    with Workspace(settings) as workspace:
        put(workspace, workspace.catalog.archives.get("logs"), rows(11, 20, LATER), hour=LATER)
        # The table lags: nothing is said of it.
        assert ticked(settings, instance) == []
        sync(workspace, tables.find(workspace, "logs"))
    # Not each capture of a minute is an event.
    with monkeypatch.context() as patch:
        patch.setattr(of_dagster, "REPORT_S", 600.0)
        assert ticked(settings, instance) == []
    assert ticked(settings, instance) == [TABLE]
    assert (says(instance)["dagster/row_count"], says(instance)["chunks"]) == (20, 2)
    assert says(instance)["version"] != first["version"]
    with Workspace(settings) as workspace:
        tables.drop(workspace, tables.find(workspace, "logs"))
    assert ticked(settings, instance) == []
    assert instance.get_latest_materialization_event(TABLE) is None


def test_no_export_takes_the_name_of_the_table(settings: Settings, bucket: str) -> None:
    with Workspace(settings) as workspace:
        logs(workspace, bucket)
        with pytest.raises(OperatorError, match="An export cannot be called table"):
            declare.create(workspace, "logs", ExportSpec("table", f"s3://{bucket}/x"))
