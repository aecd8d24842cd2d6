"""What the processes of dagster_faults do: ticks of the catalog sensor, changes of an archive, and repairs."""

from pathlib import Path

from dagster import AssetKey, DagsterInstance

from nats3_dagster.archive.proof.manifest_repair import repair_manifests
from nats3_dagster.defs import cursor as sensor_cursor
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.defs.reconcile import reconcile
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

Ticked = tuple[list[str], list[tuple[str, str]]]


def tick(home: str) -> Ticked:
    """One tick of the catalog sensor, on an instance in this folder: the assets that it wiped, and what it reported."""
    cursor = Path(home) / "cursor"
    with DagsterInstance.local_temp(home) as instance, Workspace(Settings.load()) as workspace:
        before = sensor_cursor.read(cursor.read_text() if cursor.exists() else None)
        found = reconcile(instance, workspace, before, PROJECT)
        for event in found.events:
            instance.report_runless_asset_event(event)
        cursor.write_text(sensor_cursor.write(found.heard))
        reported = [(event.asset_key.path[-1], str(event.partition)) for event in found.events]
        return [key.path[-1] for key in found.wiped], reported


def settle(home: str) -> None:
    """Ticks until nothing is left to report."""
    for _ in range(20):
        if tick(home) == ([], []):
            return
    raise AssertionError("ticks go on reporting")


def shown(home: str, archive: str) -> tuple[set[str], set[str]]:
    """The hours of chunks and the sealed hours that Dagster shows."""
    with DagsterInstance.local_temp(home) as instance:
        known = [instance.get_materialized_partitions(AssetKey([archive, asset])) for asset in ("chunks", "sealed")]
    return known[0], known[1]


def retire(archive: str, hour: str) -> None:
    """Retire the chunks of an hour, as `--delete-chunks` does."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        workspace.catalog.chunks.retire(row, [chunk.id for chunk in workspace.catalog.chunks.select(row, hours=[hour])])


def repair_proofs(archive: str) -> list[str]:
    """Write manifests again; the hours."""
    with Workspace(Settings.load()) as workspace:
        return [seal.hour for seal in repair_manifests(workspace, workspace.catalog.archives.get(archive))]
