"""History: who wrote the newest snapshots of a table, and the property that keeps other engines from deleting chunks.

Invariant: a snapshot is this catalog's own only if it was noted here before its commit. What a snapshot says of itself
is believed of no other one.
"""

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from nats3_dagster.errors import TableError
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.steps import Next
from nats3_dagster.tables import layout

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

# What a summary says that a snapshot did to files and rows.
_EFFECTS = {
    "added-data-files": "data files added",
    "deleted-data-files": "data files removed",
    "added-delete-files": "delete files added",
    "removed-delete-files": "delete files removed",
    "added-records": "rows added",
    "deleted-records": "rows removed",
}


@dataclass(frozen=True, slots=True)
class Change:
    """The effects of another program on a table since nats3 wrote it."""

    what: str  # in words, with the snapshot
    has_deletes: bool  # rows are deleted by delete files, which a sync cannot take back

    def error(self, known: ArchiveTable) -> TableError:
        step = Next.FORGET_TABLE if self.has_deletes else Next.RESTORE_TABLE
        return TableError(
            f"Another program changed the table {known.identifier}: {self.what}. It is left as it is",
            step(archive=known.archive),
        )


def is_known(known: ArchiveTable, snapshot: "Snapshot") -> bool:
    """True if this catalog began the snapshot."""
    return snapshot.snapshot_id == known.snapshot_id or snapshot.snapshot_id in known.begun


def change_of(before: ArchiveTable, after: ArchiveTable, table: "Table") -> Change | None:
    """Returns the effects of another program. `before` is the catalog's row before the table was loaded, `after` the
    row after it: a snapshot that another nats3 process commits meanwhile is noted there.

    A snapshot that says it is of this archive, and is not noted, was made by nats3 with a newer copy of the catalog: no
    other program, and not to be believed either."""
    from pyiceberg.table.snapshots import ancestors_of

    current = table.current_snapshot()

    def is_foreign(snapshot: "Snapshot") -> bool:
        return not (is_known(before, snapshot) or is_known(after, snapshot) or _of_archive(before, snapshot))

    newest = list(takewhile(is_foreign, ancestors_of(current, table.metadata)))
    changes = [snapshot for snapshot in newest if _effects(snapshot)]
    # An engine that rewrites a table may keep totals only: they are those of the newest snapshot.
    has_deletes = bool(newest) and _number(newest[0], "total-delete-files") > 0
    if changes:
        more = f", after {len(changes) - 1} more" if len(changes) > 1 else ""
        return Change(f"{_words(changes[0])}{more}", has_deletes)
    noted = table.metadata.snapshot_by_id(before.snapshot_id) if before.snapshot_id is not None else None
    last = next((s for s in ancestors_of(current, table.metadata) if not is_foreign(s)), None)
    if noted and (last.sequence_number or 0 if last else -1) < (noted.sequence_number or 0):
        to = f"snapshot {last.snapshot_id}" if last else "no snapshot"
        return Change(f"it was rolled back from snapshot {noted.snapshot_id} to {to}", False)
    return None


def is_of_newer_catalog(before: ArchiveTable, after: ArchiveTable, table: "Table") -> bool:
    """True if nats3 wrote its newest snapshot of the table with a newer copy of the catalog, which was restored since.
    `before` and `after` as for `change_of`."""
    from pyiceberg.table.snapshots import ancestors_of

    for snapshot in ancestors_of(table.current_snapshot(), table.metadata):
        if is_known(before, snapshot) or is_known(after, snapshot):
            return False
        if _of_archive(before, snapshot):
            return True
    return False


def guard(table: "Table", known: ArchiveTable) -> bool:
    """Set gc.enabled=false and the archive's identity again, where another program took them away; whether it had.
    Raises whatever pyiceberg raises."""
    expected = {**layout.GUARD, layout.OF_ARCHIVE: str(known.job_id)}
    missing = {name: value for name, value in expected.items() if table.properties.get(name, "").lower() != value}
    if missing:
        with table.transaction() as transaction:
            transaction.set_properties(missing)
        table.metadata.properties["commit.retry.num-retries"] = "0"
    return bool(missing)


def _of_archive(known: ArchiveTable, snapshot: "Snapshot") -> bool:
    return snapshot.summary is not None and snapshot.summary.additional_properties.get(layout.OF_ARCHIVE) == str(
        known.job_id
    )


def _number(snapshot: "Snapshot", name: str) -> int:
    text = snapshot.summary.additional_properties.get(name, "0") if snapshot.summary else "0"
    return int(text) if text.isdecimal() else 0


def _effects(snapshot: "Snapshot") -> list[str]:
    """Returns its effects on files and rows; empty for one that wrote manifests only. One that says nothing of itself
    may have done everything."""
    if snapshot.summary is None:
        return ["it does not say what it did"]
    return [f"{words} {number:,}" for name, words in _EFFECTS.items() if (number := _number(snapshot, name))]


def _words(snapshot: "Snapshot") -> str:
    operation = snapshot.summary.operation.value if snapshot.summary else "unknown operation"
    return f"snapshot {snapshot.snapshot_id} ({operation}: {', '.join(_effects(snapshot))})"
