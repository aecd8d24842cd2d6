"""What processes of the faults of tables do: ours, and those of another program, which has pyiceberg alone."""

from typing import Any

from nats3_dagster.settings import Settings
from nats3_dagster.tables import tables
from nats3_dagster.tables.observe import observe
from nats3_dagster.tables.sync import sync
from nats3_dagster.tables.tables import verify
from nats3_dagster.workspace import Workspace

LAKE = "lake"
TABLE = "events"


def create_table(archive: str) -> None:
    with Workspace(Settings.load()) as workspace:
        sync(workspace, tables.create(workspace, archive, catalog=LAKE))


def sync_table(archive: str, full: bool = False) -> tuple[int, int]:
    """Files added and removed."""
    with Workspace(Settings.load()) as workspace:
        done = sync(workspace, tables.find(workspace, archive), full=full)
        return done.added, done.removed


def list_table(archive: str) -> tuple[bool, str, str]:
    """As `table list`: whether it is behind, what another program changed, the error."""
    with Workspace(Settings.load()) as workspace:
        observe(workspace, [tables.find(workspace, archive)])
        known = tables.find(workspace, archive)
        return known.is_behind, known.changed or "", known.error or ""


def verify_table(archive: str) -> int:
    """Differences."""
    with Workspace(Settings.load()) as workspace:
        return len(verify(workspace, tables.find(workspace, archive)).faults)


def retire_chunks(archive: str, places: list[int]) -> int:
    """Retire the live chunks at these places, as a replay that deletes chunks does; how many."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        live = workspace.catalog.chunks.select(row)
        ids = sorted({live[place % len(live)].id for place in places})
        workspace.catalog.chunks.retire(row, ids)
        return len(ids)


# Another program


def change_table(kind: str, choice: int) -> str:
    """Change the table as another program does; what it did."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    # pyiceberg read the environment when it was imported, in the fork server.
    configured: dict[str, Any] = dict(Config().get_catalog_config(LAKE) or {})
    with load_catalog(LAKE, **configured) as catalog:
        table = catalog.load_table(f"nats3.{TABLE}")
        if kind == "guard":
            with table.transaction() as transaction:
                transaction.set_properties({"gc.enabled": "true"})
        elif kind == "rollback":
            table.manage_snapshots().rollback_to_snapshot(table.snapshots()[0].snapshot_id).commit()
        else:
            _change_rows(table, kind, choice)
    return kind


def _change_rows(table: Any, kind: str, choice: int) -> None:
    rows = table.scan().to_arrow()
    seq = rows["seq"][choice % len(rows)].as_py()
    if kind == "delete":
        table.delete(f"seq <= {seq}")
    elif kind == "append":
        table.append(rows.slice(choice % len(rows), 1 + choice % 50))
    else:
        table.overwrite(rows.slice(0, 1 + choice % len(rows)))
