"""One hour of an export of the catalog: Spark makes its files, and the catalog keeps what was made."""

from pyspark.sql import SparkSession

from nats3_dagster.exports.hours import attempt
from nats3_dagster.exports.status import find
from nats3_dagster.model import ExportResult, OnProgress
from nats3_dagster.pipeline.export_run import run_export
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def export_hour(
    spark: SparkSession, settings: Settings, archive_name: str, name: str, hour: str, *, run_id: str | None = None,
    on_progress: OnProgress | None = None, over_retired: bool = False,
) -> ExportResult:  # fmt: skip
    """Export the hour as the catalog declares it, and record it. Running it again makes the same files.

    Raises OperatorError unless the hour is sealed, and for one of which chunks were deleted after a replay unless
    `over_retired`; Conflict while another process exports it, and Nats3Error."""
    with Workspace(settings) as workspace:
        archive, export = find(workspace, archive_name, name)
        return attempt(
            workspace, archive, export, hour,
            lambda: run_export(
                spark, workspace, archive, export.spec, hour, on_progress=on_progress, over_retired=over_retired
            ),
            run_id, over_retired=over_retired,
        )  # fmt: skip
