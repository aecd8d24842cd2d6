"""Observing: asks Iceberg catalogs whether another program changed a table, and keeps the answer in our catalog.

A table costs one request of its Iceberg catalog and one object, its metadata. So what lists lag and metrics read is the
kept answer, with its time.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from threading import Thread

from nats3_dagster.errors import Nats3Error, TableError
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# Seconds for all Iceberg catalogs together.
PATIENCE_S = 10.0
# A sensor asks again after this.
AGE_S = 300.0


@dataclass(frozen=True, slots=True)
class Observation:
    """A table as its Iceberg catalog has it."""

    table: ArchiveTable
    changed: str | None = None  # what another program did
    was_unguarded: bool = False  # gc.enabled was not false; it is set back
    error: Nats3Error | None = None  # why the table could not be asked


def observe(
    workspace: Workspace, tables: Iterable[ArchiveTable], *, patience_s: float = PATIENCE_S, age_s: float = 0.0
) -> list[Observation]:
    """Ask for the snapshots of these tables, except those that were asked less than `age_s` ago. Raises nothing."""
    now = datetime.now(UTC)
    due = [t for t in tables if t.seen_at is None or not 0 <= (now - t.seen_at).total_seconds() < age_s]
    until, asked = time.monotonic() + patience_s, dict[int, Observation]()
    threads = [
        Thread(target=_ask, args=(workspace, of_catalog, asked, until), name=f"tables of {catalog}", daemon=True)
        for catalog in sorted({t.catalog for t in due})
        if (of_catalog := [t for t in due if t.catalog == catalog])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(until - time.monotonic(), 0.0))
    return [asked.get(t.archive_id) or Observation(t, error=_late(t)) for t in due]


def observe_one(workspace: Workspace, known: ArchiveTable) -> Observation:
    """Ask for this table, keep the answer. Its files are read only if it was written with a newer copy of the catalog:
    then nothing else tells its lag. Raises TableError, CatalogError."""
    from nats3_dagster.tables.catalogs import opened
    from nats3_dagster.tables.compare import compare
    from nats3_dagster.tables.history import change_of, guard, is_of_newer_catalog
    from nats3_dagster.tables.sync import load

    with opened(workspace.settings, known.catalog) as catalog:
        before = workspace.catalog.tables.of(known.archive_id) or known
        table = load(catalog, known)
        after = workspace.catalog.tables.of(known.archive_id) or known
        was_unguarded = guard(table, known)
        change = change_of(before, after, table)
        differs: tuple[int, int] | None = None
        if change is None and is_of_newer_catalog(before, after, table):
            compared = compare(workspace, known, table)
            differs = len(compared.missing), len(compared.wrong)
    what = change.what if change else None
    if was_unguarded:
        log.warning("The table %s did not have gc.enabled=false: it is set again", known.identifier)
    workspace.catalog.tables.note_seen(known.archive_id, what, differs)
    return Observation(known, what, was_unguarded)


def _ask(workspace: Workspace, tables: list[ArchiveTable], asked: dict[int, Observation], until: float) -> None:
    for known in tables:
        if time.monotonic() >= until:
            return
        try:
            asked[known.archive_id] = observe_one(workspace, known)
        except Nats3Error as error:
            asked[known.archive_id] = Observation(known, error=error)
        except Exception as error:  # a defect here must not end what only looks
            log.debug("internal error", exc_info=error)
            defect = TableError(f"Asking the table failed by a defect: {type(error).__name__}", "Report it")
            asked[known.archive_id] = Observation(known, error=defect)


def _late(known: ArchiveTable) -> TableError:
    return TableError(f"The Iceberg catalog {known.catalog} did not answer in time", "Look whether it is up")
