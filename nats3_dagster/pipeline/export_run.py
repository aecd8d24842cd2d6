"""Exports of hours: the driver's side. Each group of chunks is a Spark task."""

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from nats3_dagster.errors import Nats3Error
from nats3_dagster.exports.group_export import GroupExport
from nats3_dagster.exports.hour_export import export_hour
from nats3_dagster.exports.job import ExportJob, Group, GroupResult
from nats3_dagster.model import Archive, ExportResult, ExportSpec, OnProgress
from nats3_dagster.pipeline.tasks import run_tasks
from nats3_dagster.workspace import Workspace

Task = tuple[ExportJob, Group]


def run_export(
    spark: SparkSession, workspace: Workspace, archive: Archive, spec: ExportSpec, hour: str, *,
    on_progress: OnProgress | None = None, over_retired: bool = False,
) -> ExportResult:  # fmt: skip
    """Make the files of the hour be what the archive has of it. Running it again changes nothing.

    `on_progress` is called with the messages that were read and the messages of the hour. Raises Nats3Error; Conflict
    if another process exports the hour."""

    def perform(tasks: Sequence[Task]) -> tuple[Sequence[GroupResult], Nats3Error | None]:
        finished = run_tasks(spark, f"export {archive.name} {spec.name} {hour}", export_group, tasks)
        return finished.results, finished.error

    return export_hour(workspace, archive, spec, hour, perform, on_progress=on_progress, over_retired=over_retired)


def export_group(task: Task) -> Iterator[GroupResult]:
    """One task, in a worker."""
    yield GroupExport(*task).run()
