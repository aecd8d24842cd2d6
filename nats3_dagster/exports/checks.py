"""What is refused of an export before anything is written."""

from nats3_dagster.model import Archive, ExportSpec
from nats3_dagster.workspace import Workspace


def check_export(workspace: Workspace, archive: Archive, spec: ExportSpec) -> None:
    """Raises OperatorError for an export that cannot run: its files would lie where chunks live, its decoder cannot be
    imported, its schema cannot be read, or an extra is missing. Asks the catalog, and no store."""
    raise NotImplementedError
