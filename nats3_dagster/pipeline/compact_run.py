"""Compaction of many hours: the driver's side. Each hour is a Spark task."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nats3_dagster.archive.keep.compaction import SPARK_FROM_HOURS, Compacted, compact_hours
from nats3_dagster.archive.keep.merge_task import HourMerged, MergeTask
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace


def run_compaction(
    start: Callable[[], Any], workspace: Workspace, archive: Archive, hours: Sequence[str]
) -> Iterator[Compacted]:
    """Compact the hours, in Spark where they are many. `start` gives the session, and is called only then. Raises as
    `compact_hours`, and EngineError."""
    if len(hours) < SPARK_FROM_HOURS:
        return compact_hours(workspace, archive, hours)
    spark = start()

    def perform(tasks: Sequence[MergeTask]) -> tuple[Sequence[HourMerged], Nats3Error | None]:
        # PySpark takes 0.5 s to import.
        from nats3_dagster.pipeline.tasks import run_tasks
        from nats3_dagster.pipeline.worker import merge_hour

        finished = run_tasks(spark, f"compact {archive.name} {tasks[0].hour}", merge_hour, tasks)
        return finished.results, finished.error

    return compact_hours(workspace, archive, hours, perform)
