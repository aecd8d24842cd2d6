"""Exports of hours: the driver's side. Each group of chunks is a Spark task."""

from collections.abc import Sequence

from pyspark.sql import SparkSession

from nats3_dagster.errors import Nats3Error
from nats3_dagster.exports import hour_export
from nats3_dagster.exports.hours import attempt
from nats3_dagster.exports.job import ExportJob, Group, GroupResult
from nats3_dagster.exports.status import find
from nats3_dagster.model import Archive, ExportResult, ExportSpec, OnProgress
from nats3_dagster.pipeline.tasks import run_tasks
from nats3_dagster.pipeline.worker import export_group
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

Task = tuple[ExportJob, Group]


def run_export(
    spark: SparkSession,
    workspace: Workspace,
    archive: Archive,
    spec: ExportSpec,
    hour: str,
    *,
    on_progress: OnProgress | None = None,
    over_retired: bool = False,
) -> ExportResult:
    """Make the files of the hour be what the archive has of it. Running it again changes nothing.

    `on_progress` is called with the messages that were read and the messages of the hour. Raises Nats3Error; Conflict
    if another process exports the hour."""

    def perform(tasks: Sequence[Task]) -> tuple[Sequence[GroupResult], Nats3Error | None]:
        finished = run_tasks(spark, f"export {archive.name} {spec.name} {hour}", export_group, tasks)
        return finished.results, finished.error

    return hour_export.export_hour(
        workspace, archive, spec, hour, perform, on_progress=on_progress, over_retired=over_retired
    )


def export_hour(
    spark: SparkSession,
    settings: Settings,
    archive_name: str,
    name: str,
    hour: str,
    *,
    on_progress: OnProgress | None = None,
    over_retired: bool = False,
) -> ExportResult:
    """Export the hour as the catalog declares it, and record it. Running it again makes the same files.

    Raises OperatorError unless the hour is sealed, and for one with chunks that were deleted after a replay unless
    `over_retired`; Conflict while another process exports it, and Nats3Error."""
    with Workspace(settings) as workspace:
        archive, export = find(workspace, archive_name, name)
        return attempt(
            workspace,
            archive,
            export,
            hour,
            lambda: run_export(
                spark, workspace, archive, export.spec, hour, on_progress=on_progress, over_retired=over_retired
            ),
            over_retired=over_retired,
        )
