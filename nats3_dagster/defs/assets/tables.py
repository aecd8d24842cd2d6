"""Iceberg tables in Dagster: an asset `<archive>/table` and a job that syncs it.

Invariant: what the asset shows is what the catalog noted of the newest sync, whichever process synced. Each capture
syncs the table of its archive, and the catalog sensor what was left undone, so no sensor asks for runs.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetsDefinition,
    AssetSelection,
    DagsterInstance,
    EventLogEntry,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    asset,
    define_asset_job,
)

from nats3_dagster.archive import status
from nats3_dagster.defs.assets.columns import COLUMNS, TABLE_COLUMNS, lineage
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.assets.marks import split
from nats3_dagster.defs.assets.metadata import Metadata
from nats3_dagster.defs.assets.versions import version_tags
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.keys import ARCHIVE_TAG, Naming
from nats3_dagster.defs.project.platform import STORAGE_TAG, TABLE, AssetArguments, Platform
from nats3_dagster.defs.wording import STOPPED_SYNC
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Seconds between two events of a table that no run synced: captures of each minute would fill Dagster's database.
REPORT_S = 600.0


def table_asset(naming: Naming, platform: Platform, spec: ArchiveSpec, table: ArchiveTable) -> AssetsDefinition:
    """`<archive>/table`: materializing it makes the table list exactly the live chunks."""
    name = spec.name
    given = platform.of(TABLE, name, group=name, kinds={"iceberg"}, in_store=True)
    described: AssetArguments = {**given, "tags": {STORAGE_TAG: "iceberg", **given["tags"]}}

    @asset(
        key=naming.table_key(name),
        deps=[AssetDep(naming.chunks_key(name))],
        description=f"Archive {name} as the Iceberg table {code(table.identifier)}: its chunks are the table's data "
        "files. Each capture syncs it; materializing it does so now.",
        metadata={
            "catalog": table.catalog,
            "dagster/table_name": table.identifier,
            "dagster/column_schema": TABLE_COLUMNS,
        },
        **described,
    )
    def synced(
        context: AssetExecutionContext, nats3_settings: ResourceParam[Settings], nats3_s3: ResourceParam[Any]
    ) -> Iterator[MaterializeResult]:
        with step_failures(context, naming, STOPPED_SYNC):
            # They import pyarrow.
            from nats3_dagster.tables.sync import sync
            from nats3_dagster.tables.tables import find

            with Workspace(with_store(nats3_settings, nats3_s3)) as workspace:
                done = sync(workspace, find(workspace, name))
                found = find(workspace, name)
                metadata = _metadata(naming, workspace, found)
        context.log.info(f"{found.identifier}: {done.added:,} files added, {done.removed:,} removed")
        files = {"files_added": done.added, "files_removed": done.removed}
        yield MaterializeResult(metadata=metadata | files, tags=_tags(found))

    return synced


def table_job(naming: Naming, spec: ArchiveSpec) -> Any:
    """`<archive>_sync_table`."""
    return define_asset_job(
        naming.name(f"{spec.name}_sync_table"),
        AssetSelection.assets(naming.table_key(spec.name)),
        description=f"Sync the Iceberg table of archive {spec.name}.",
        tags={ARCHIVE_TAG: spec.name},
        executor_def=run_executor,
    )


def table_events(
    instance: DagsterInstance, workspace: Workspace, naming: Naming, chosen: Collection[str] | None, now_s: float
) -> list[AssetMaterialization]:
    """The events of tables that were synced since Dagster's newest event of each, which is REPORT_S old at least, or of
    an earlier table. Archives without a table cost one query. Raises CatalogError."""
    tables = [one for one in live_tables(workspace, chosen) if one.synced_at is not None]
    keys = {naming.table_key(one.archive): one for one in tables}
    records = (
        {one.asset_entry.asset_key: one.asset_entry for one in instance.get_asset_records([*keys])} if keys else {}
    )
    events: list[AssetMaterialization] = []
    for key, table in keys.items():
        newest = records[key].last_materialization if key in records else None
        if not _says(newest, table) and (newest is None or now_s - newest.timestamp >= REPORT_S):
            events.append(AssetMaterialization(key, metadata=_metadata(naming, workspace, table), tags=_tags(table)))
    return events


def live_tables(workspace: Workspace, chosen: Collection[str] | None = None) -> Sequence[ArchiveTable]:
    """The tables of the `chosen` archives, or of all, that are not deleted."""
    every = workspace.catalog.tables.all()
    return [one for one in every if not one.archive_deleted and (chosen is None or one.archive in chosen)]


def _says(newest: EventLogEntry | None, table: ArchiveTable) -> bool:
    """True if Dagster's newest event is of the table's present snapshot."""
    event = newest.asset_materialization if newest else None
    return event is not None and _tags(table).items() <= (event.tags or {}).items()


def _tags(table: ArchiveTable) -> Mapping[str, str]:
    """The tags of the table's event. Its version is its snapshot: a sync that changes nothing makes none."""
    _, marks = split({"archive_id": str(table.archive_id)})
    return {**version_tags(str(table.snapshot_id or 0)), **marks}


def _metadata(naming: Naming, workspace: Workspace, table: ArchiveTable) -> Metadata:
    """Returns what was noted of the newest sync. The rows are those of the archive, left out while the table lags."""
    archive = workspace.catalog.archives.get(table.archive)
    rows = status.messages(workspace, archive)
    after = workspace.catalog.tables.of(table.archive_id)
    as_read = after is not None and after.snapshot_id == table.snapshot_id and not after.is_behind
    return {
        "dagster/column_lineage": lineage(COLUMNS, naming.chunks_key(table.archive)),
        **({"dagster/row_count": rows} if as_read and not table.is_behind else {}),
        **({"dagster/uri": table.location} if table.location else {}),
        "chunks": table.chunks or 0,
        "snapshot": str(table.snapshot_id or "none"),
        "synced_at": MetadataValue.timestamp(table.synced_at.timestamp() if table.synced_at else time.time()),
        "in_the_shell": f"nats3 table get {table.archive}",
    }


def table_keys(naming: Naming, tables: Sequence[ArchiveTable]) -> set[AssetKey]:
    """The keys of their assets."""
    return {naming.table_key(one.archive) for one in tables}
