"""Following: what changes an archive has its table synced at once, and a sensor does what was left undone.

Invariant: a table never fails what changed the archive. Its failures are noted and reported, and it is waited for only
so long: an Iceberg catalog may take a connection and stay silent.
"""

import logging
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Thread

from nats3_dagster.errors import CatalogError, CatalogUnreachable, Nats3Error, TableError
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.tables.observe import observe
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
PATIENCE_S = 45.0
# For who answers a request meanwhile: a process that lives on goes on by itself.
ANSWER_S = 5.0
# So long after a failure a sensor leaves the table alone.
PAUSE_S = 60.0


@contextmanager
def followed(workspace: Workspace, archive: str, *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Sync the table of the archive after a block that changes it, also after one that failed half-way."""
    try:
        yield
    except Nats3Error:
        follow(workspace, [archive], patience_s=patience_s)
        raise
    follow(workspace, [archive], patience_s=patience_s)


def follow(
    workspace: Workspace,
    archives: Collection[str] | None = None,
    *,
    patience_s: float = PATIENCE_S,
    pause_s: float = 0.0,
    observe_s: float | None = None,
) -> dict[str, Nats3Error]:
    """Syncs those tables of these archives, or of all, that lag; returns the errors by archive, also in the log and
    noted. Archives without a table cost one query. `pause_s`: leave out what failed less than these seconds ago.
    `observe_s`: ask whether another program changed the tables that were not asked for these seconds. Raises no
    foreseen error."""
    until = time.monotonic() + patience_s
    try:
        rows = [t for t in workspace.catalog.tables.all() if archives is None or t.archive in archives]
        if observe_s is not None and rows:
            observe(workspace, [t for t in rows if not t.is_behind], patience_s=patience_s / 2, age_s=observe_s)
            rows = [t for t in workspace.catalog.tables.all() if archives is None or t.archive in archives]
        lagging = [known for known in rows if known.is_behind and _is_due(known, pause_s)]
    except CatalogError as error:
        # Where it is gone, what changed the archive says so itself.
        level = logging.INFO if isinstance(error, CatalogUnreachable) else logging.WARNING
        log.log(level, "The lag of tables after their archives cannot be determined: %s", error)
        return {}
    failed: dict[str, Nats3Error] = {}
    for known in lagging:
        error = _synced_within(workspace, known, until - time.monotonic())
        if error:
            failed[known.archive] = error
            log.warning("The table %s of archive %s is not synced: %s", known.identifier, known.archive, error)
    return failed


def _is_due(known: ArchiveTable, pause_s: float) -> bool:
    return known.failed_at is None or (datetime.now(UTC) - known.failed_at).total_seconds() >= pause_s


def _synced_within(workspace: Workspace, known: ArchiveTable, patience_s: float) -> Nats3Error | None:
    """Returns the error that kept the table from being synced. What takes longer goes on in the background while the
    process lives."""
    errors: list[Nats3Error] = []
    thread = Thread(target=_attempt, args=(workspace, known, errors), name=f"table {known.identifier}", daemon=True)
    thread.start()
    thread.join(max(patience_s, 1.0))
    if thread.is_alive():
        late = TableError(
            f"The Iceberg catalog {known.catalog} did not take the commit in time", "The next sync does the rest"
        )
        _note(workspace, known, late)
        return late
    return errors[0] if errors else None


def _attempt(workspace: Workspace, known: ArchiveTable, errors: list[Nats3Error]) -> None:
    try:
        from nats3_dagster.tables.sync import sync

        sync(workspace, known)
    except Nats3Error as error:
        errors.append(error)
    except Exception as error:  # a defect here must not fail a capture that is committed
        log.debug("internal error", exc_info=error)
        defect = TableError(f"Syncing the table failed by a defect: {type(error).__name__}", "Report it")
        _note(workspace, known, defect)
        errors.append(defect)


def _note(workspace: Workspace, known: ArchiveTable, error: Nats3Error) -> None:
    try:
        workspace.catalog.tables.note_failed(known.archive_id, str(error))
    except CatalogError as lost:
        log.warning("Why the table %s is not synced is not noted: %s", known.identifier, lost)
