"""Exports of hours: the driver's side."""

from pyspark.sql import SparkSession

from nats3_dagster.model import Archive, ExportResult, ExportSpec, OnProgress
from nats3_dagster.workspace import Workspace


def run_export(
    spark: SparkSession, workspace: Workspace, archive: Archive, spec: ExportSpec, hour: str, *,
    on_progress: OnProgress | None = None,
) -> ExportResult:  # fmt: skip
    """Make the files of the hour be what the archive has of it. Running it again changes nothing.

    `on_progress` is called with the messages that were read and the messages of the hour. Raises Nats3Error."""
    raise NotImplementedError
