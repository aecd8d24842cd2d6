"""Syncing: make a table list exactly the live chunks of its archive.

Invariants: a commit is computed from a snapshot of the table and, after that, the archive as of one moment; the Iceberg
catalog refuses it if the table has another snapshot by then. So what a process that died left undone the next one does,
and two at once end with what one alone would have made. What another program did is undone only where it is asked for.
"""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING

from nats3_dagster.errors import CatalogError, Conflict, Nats3Error, TableError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model.archive_table import ArchiveTable, TableState
from nats3_dagster.plausible import secret_in
from nats3_dagster.steps import Next
from nats3_dagster.tables import layout
from nats3_dagster.tables.catalogs import opened
from nats3_dagster.tables.compare import chunk_files, compare
from nats3_dagster.tables.history import change_of, guard, is_known
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

# Files of a commit, and so of a manifest; an hour is never divided, so that what replaces a chunk comes in the snapshot
# that removes it.
BATCH = 2000
# Commits that other processes may win before this one gives up.
ATTEMPTS = 10
# Snapshots that a table's metadata names: at a kilobyte each.
MOST_SNAPSHOTS = 1000
# Iceberg's own default, in case the table's property was removed: 5 days.
_AGE_MS = 5 * 86_400_000
# What a snapshot says of the archive that it lists.
_REVISION, _CHUNKS, _LAST = "nats3.revision", "nats3.chunks", "nats3.last-chunk"


@dataclass(frozen=True, slots=True)
class Synced:
    """The result of a sync."""

    added: int  # files
    removed: int  # files
    commits: int  # snapshots; 0 where the table had everything
    revision: int  # of the archive that the table has now
    chunks: int  # files of the table
    snapshot_id: int | None  # the current one; None while there is none
    undone: str | None = None  # what another program had done, and is undone
    was_unguarded: bool = False  # gc.enabled was not false; it is set back
    rewritten: tuple[str, ...] = ()  # files of another program that left the table and stay in the store


@dataclass(frozen=True, slots=True)
class _Work:
    """The pending changes of a table."""

    state: TableState
    last_chunk: int  # the highest id of a chunk that the table has afterwards; 0 without any
    add: tuple[tuple[str, int], ...]  # hour and id of a chunk
    retire: tuple[tuple[str, int], ...]  # the same, of a chunk that the table has and that is no longer live
    remove: tuple["DataFile", ...]  # what the table has besides and should not


def sync(workspace: Workspace, known: ArchiveTable, *, full: bool = False) -> Synced:
    """Add missing chunks to the table and remove retired ones; no chunk is written. `full`: compare every file, and
    undo what another program did to the table, which is refused otherwise. Raises TableError, CatalogError, StoreError,
    Conflict; and notes the error."""
    try:
        with opened(workspace.settings, known.catalog) as catalog:
            return _sync(workspace, known, catalog, full)
    except Nats3Error as error:
        with suppress(CatalogError):
            workspace.catalog.tables.note_failed(known.archive_id, str(error))
        raise


def load(catalog: "Catalog", known: ArchiveTable) -> "Table":
    """The table as it is now. Raises TableError if it is gone, or of another archive."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        table = catalog.load_table(known.identifier)
    except NoSuchTableError as error:
        raise TableError(
            f"The Iceberg catalog {known.catalog} has no table {known.identifier}",
            Next.FORGET_TABLE(archive=known.archive),
        ) from error
    if table.properties.get(layout.OF_ARCHIVE) not in (None, str(known.job_id)):
        raise TableError(
            f"The table {known.identifier} is of another archive, made by nats3 elsewhere or before",
            Next.REPLACE_TABLE(archive=known.archive),
        )
    # A commit that lost a race must not be tried again as it is: it would add files that the winner has added.
    table.metadata.properties["commit.retry.num-retries"] = "0"
    return table


def _sync(workspace: Workspace, known: ArchiveTable, catalog: "Catalog", full: bool) -> Synced:
    from pyiceberg.exceptions import CommitFailedException, ValidationException

    added = removed = commits = 0
    compares_all, was_unguarded, undone = full, False, None
    rewritten: dict[str, None] = {}
    for _ in range(ATTEMPTS):
        before = _noted(workspace, known)
        table = load(catalog, known)
        fault_point("table.loaded")
        try:
            was_unguarded |= guard(table, known)
            after = _noted(workspace, known)
            if change := change_of(before, after, table):
                if not full:
                    workspace.catalog.tables.note_seen(known.archive_id, change.what)
                    raise change.error(known)
                undone = change.what
            work = _all_work(workspace, known, table) if compares_all else _work(workspace, after, table)
            fault_point("table.planned")
            for batch in _batches(work):
                _commit(workspace, known, table, batch, _summary(known, work if batch.is_last else None))
                added, removed, commits = added + len(batch.add), removed + batch.removed, commits + 1
                rewritten |= dict.fromkeys(_under_table(table, batch))
                fault_point("table.committed")
        except CommitFailedException:
            continue
        except ValidationException:
            compares_all = True  # what its snapshot says that it has is not there
            continue
        snapshot = table.current_snapshot()
        done = Synced(
            added,
            removed,
            commits,
            work.state.revision,
            work.state.chunks,
            snapshot.snapshot_id if snapshot else None,
            undone,
            was_unguarded,
            tuple(rewritten),
        )
        workspace.catalog.tables.note_synced(
            known.archive_id,
            work.state,
            work.last_chunk,
            done.snapshot_id,
            location=None if secret_in(table.location()) else table.location(),
            former=before.snapshot_id,
        )
        return done
    raise Conflict(
        f"Other processes commit to the table {known.identifier} all the time", Next.SYNC_TABLE(archive=known.archive)
    )


def _noted(workspace: Workspace, known: ArchiveTable) -> ArchiveTable:
    """Returns the catalog's present row of the table. Raises Conflict if it was dropped meanwhile."""
    if row := workspace.catalog.tables.of(known.archive_id):
        return row
    raise Conflict(f"The table {known.identifier} was dropped meanwhile", Next.LIST_TABLES())


def _under_table(table: "Table", batch: "_Batch") -> Iterator[str]:
    """Files that the commit took out and that lie in the table's own folder, where no chunk lies."""
    folder = f"{table.location().rstrip('/')}/"
    return (file.file_path for file in batch.remove if file.file_path.startswith(folder))


def _work(workspace: Workspace, known: ArchiveTable, table: "Table") -> _Work:
    """Returns the work, computed from what the newest snapshot says of itself, and what came and went since: no
    manifest is read for it. This holds only for a snapshot that this catalog began: one of a newer copy of the catalog
    counts other revisions and chunks."""
    snapshot = table.current_snapshot()
    says = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    if snapshot and is_known(known, snapshot) and says.keys() >= {_REVISION, _CHUNKS, _LAST}:
        revision, chunks, last = (int(says[name]) for name in (_REVISION, _CHUNKS, _LAST))
        state = workspace.catalog.tables.state(known.archive_id, last, revision)
        if revision <= state.revision and state.chunks == chunks - len(state.retired) + len(state.ids):
            add = tuple(zip(state.hours, state.ids, strict=True))
            return _Work(state, max((last, *state.ids)), add, state.retired, ())
    return _all_work(workspace, known, table)


def _all_work(workspace: Workspace, known: ArchiveTable, table: "Table") -> _Work:
    """Finds the work by every file of the table."""
    found = compare(workspace, known, table)
    if deletes := [fault for fault in found.faults if fault.is_foreign]:
        raise TableError(
            f"Another program deleted rows of the table {known.identifier}: {deletes[0].path}",
            Next.FORGET_TABLE(archive=known.archive),
        )
    add = tuple(zip(found.hours, found.missing, strict=True))
    return _Work(found.state, max((0, *found.state.ids)), add, (), found.wrong)


@dataclass(slots=True)
class _Batch:
    """The additions and removals of one commit: whole hours."""

    add: list[int] = field(default_factory=list)  # ids of chunks
    retire: list[int] = field(default_factory=list)  # the same
    remove: "list[DataFile]" = field(default_factory=list)
    is_last: bool = False

    @property
    def removed(self) -> int:
        return len(self.retire) + len(self.remove)


def _batches(work: _Work) -> Iterator[_Batch]:
    changes: list[tuple[str, str, int | DataFile]] = [
        *((hour, "add", chunk) for hour, chunk in work.add),
        *((hour, "retire", chunk) for hour, chunk in work.retire),
        *((file.partition[0], "remove", file) for file in work.remove),
    ]
    changes.sort(key=lambda change: change[0])
    left, batch = len(changes), _Batch()
    for _, of_hour in groupby(changes, key=lambda change: change[0]):
        for _, kind, one in of_hour:
            left -= 1
            getattr(batch, kind).append(one)
        batch.is_last = not left
        if batch.is_last or len(batch.add) + batch.removed >= BATCH:
            yield batch
            batch = _Batch()


def _commit(workspace: Workspace, known: ArchiveTable, table: "Table", batch: _Batch, summary: dict[str, str]) -> None:
    from pyiceberg.table.update.snapshot import ExpireSnapshots

    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=summary)
        with update.overwrite() if batch.removed else update.merge_append() as snapshot:
            for file in chunk_files(workspace, batch.add):
                snapshot.append_data_file(layout.entry(file, layout.path_of(workspace.settings, file)))
            # Found by its path in the manifests of its partition alone. What is not there refuses the commit.
            for file in workspace.catalog.tables.files(batch.retire):
                snapshot.delete_data_file(layout.entry(file, layout.path_of(workspace.settings, file)))
            for data_file in batch.remove:
                snapshot.delete_data_file(data_file)
            workspace.catalog.tables.note_begun(known.archive_id, snapshot.snapshot_id)
            fault_point("table.begun")
        if old := _to_forget(table):
            ExpireSnapshots(transaction).by_ids(old).commit()
        fault_point("table.in_commit")


def _to_forget(table: "Table") -> list[int]:
    """Snapshots that the table's metadata need not name any more: each commit writes all that it names. By the table's
    own age, and by number. No file is deleted."""
    kept = {ref.snapshot_id for ref in table.metadata.refs.values()}
    newest_first = sorted(table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms, reverse=True)
    properties = table.properties
    age_ms = int(properties.get("history.expire.max-snapshot-age-ms", _AGE_MS))
    least = int(properties.get("history.expire.min-snapshots-to-keep", 1))
    now_ms = time.time_ns() // 1_000_000
    return [
        snapshot.snapshot_id
        for n, snapshot in enumerate(newest_first)
        if snapshot.snapshot_id not in kept
        and (n >= MOST_SNAPSHOTS or (n >= least and now_ms - snapshot.timestamp_ms > age_ms))
    ]


def _summary(known: ArchiveTable, work: _Work | None) -> dict[str, str]:
    """`work`: what the table has after the commit; None before the last one."""
    owner = {layout.OF_ARCHIVE: str(known.job_id)}
    if work is None:
        return owner
    return owner | {_REVISION: str(work.state.revision), _CHUNKS: str(work.state.chunks), _LAST: str(work.last_chunk)}
