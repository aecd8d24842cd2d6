"""Outputs: how far tables and exports are behind their archives. Only the catalog is asked."""

from dataclasses import dataclass

from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.model.exported import ExportLag
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Outputs:
    """What is made of archives, by the archive's name."""

    tables: tuple[ArchiveTable, ...] = ()  # those of deleted archives too
    exports: tuple[ExportLag, ...] = ()


def outputs(workspace: Workspace) -> Outputs:
    """Raises CatalogError."""
    return Outputs(tuple(workspace.catalog.tables.all()), workspace.catalog.exports.lags())
