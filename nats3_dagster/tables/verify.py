"""Verifying: whether a table lists exactly the live chunks of its archive, file by file."""

from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.tables.catalogs import opened
from nats3_dagster.tables.compare import Comparison, compare
from nats3_dagster.tables.sync import load
from nats3_dagster.workspace import Workspace


def verify(workspace: Workspace, known: ArchiveTable) -> Comparison:
    """Every difference between the table and the archive as they are now; nothing is changed. The objects themselves
    are not read. Raises TableError, CatalogError."""
    with opened(workspace.settings, known.catalog) as catalog:
        return compare(workspace, known, load(catalog, known))
