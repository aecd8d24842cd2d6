"""Exports as faces show them: what is declared, and what was made. Only the catalog is asked."""

from dataclasses import dataclass

from nats3_dagster.model import Archive
from nats3_dagster.model.export import Export, ExportTotals
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Listed:
    """An export with its archive and what it has made."""

    archive: Archive
    export: Export
    totals: ExportTotals


def find(workspace: Workspace, archive_name: str, name: str) -> tuple[Archive, Export]:
    """Raises OperatorError, with names that are near, when there is no such archive or export."""
    archive = workspace.catalog.archives.get(archive_name)
    return archive, workspace.catalog.exports.get(archive, name)


def listed(workspace: Workspace, archive_name: str | None = None) -> tuple[Listed, ...]:
    """The exports of an archive, or of all, by the names of both. Raises OperatorError when there is no such
    archive."""
    catalog = workspace.catalog
    if archive_name is None:
        archives = {archive.id: archive for archive in catalog.archives.all()}
        exports, totals = catalog.exports.all(), catalog.exports.totals()
    else:
        archive = catalog.archives.get(archive_name)
        archives = {archive.id: archive}
        exports, totals = catalog.exports.all(archive), catalog.exports.totals(archive)
    found = [
        Listed(archives[export.archive_id], export, totals.get(export.id, ExportTotals()))
        for export in exports
        if export.archive_id in archives  # one may have been created since
    ]
    return tuple(sorted(found, key=lambda one: (one.archive.name, one.export.name)))
