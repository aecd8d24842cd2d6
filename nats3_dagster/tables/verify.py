"""Verifying: whether a table lists exactly the live chunks of its archive, file by file."""

from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.tables.catalogs import opened
from nats3_dagster.tables.compare import Comparison, compare
from nats3_dagster.tables.observe import Observation, observe_one
from nats3_dagster.tables.sync import load
from nats3_dagster.workspace import Workspace


def verify(workspace: Workspace, known: ArchiveTable) -> Comparison:
    """Every difference between the table and the archive as they are now. The objects themselves are not read. Raises
    TableError, CatalogError."""
    with opened(workspace.settings, known.catalog) as catalog:
        return compare(workspace, known, load(catalog, known))


def inspect(workspace: Workspace, known: ArchiveTable) -> tuple[Observation, Comparison]:
    """What another program did to the table, and every difference. Only the guard of the chunks is changed: gc.enabled
    is set to false where it is not. Raises TableError, CatalogError."""
    return observe_one(workspace, known), verify(workspace, known)
