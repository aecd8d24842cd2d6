"""Retention: old runs leave Dagster's database, but for those whose events Dagster still shows.

Invariant: the newest event of each hour stays, and of each check. So no asset loses an hour, the catalog sensor has
nothing to report again, and nothing downstream is requested.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from dagster import (
    Config,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    DefaultScheduleStatus,
    JobDefinition,
    OpExecutionContext,
    RunRecord,
    RunsFilter,
    ScheduleDefinition,
    job,
    op,
)
from pydantic import Field

from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.keys import CHECKS, Naming

# Runs that one query lists.
_PAGE = 200


class RetentionConfig(Config):
    """The runs to delete."""

    older_than_days: int = Field(default=14, ge=1, description="Runs of captures that are older than this go.")
    look_back_days: int = Field(
        default=30,
        ge=1,
        description="How far before that the job looks. Most runs that are older stay because they show an hour.",
    )


def retention_job(naming: Naming, archives: Sequence[str]) -> JobDefinition:
    """`retention`: deletes old runs that succeeded."""

    @op(
        name=naming.name("delete_old_runs"),
        description="Delete capture runs that succeeded long ago, but for those that show an hour.",
    )
    def delete_old_runs(context: OpExecutionContext, config: RetentionConfig) -> None:
        until = datetime.now(UTC) - timedelta(days=config.older_than_days)
        since, deleted, began = until - timedelta(days=config.look_back_days), 0, time.monotonic()
        for archive in archives:
            deleted += forget_runs(context.instance, naming, archive, since, until)
        context.log.info(f"{deleted:,} runs were deleted in {time.monotonic() - began:.1f} s")

    @job(
        name=naming.name("retention"),
        executor_def=run_executor,
        description="Delete old runs of captures from Dagster's database; what the assets show stays.",
    )
    def retention() -> None:
        delete_old_runs()

    return retention


def retention_schedule(naming: Naming, retention: JobDefinition) -> ScheduleDefinition:
    """`retention_schedule`: once a day, off until it is switched on in the UI."""
    return ScheduleDefinition(
        name=naming.name("retention_schedule"),
        job=retention,
        cron_schedule="17 4 * * *",
        default_status=DefaultScheduleStatus.STOPPED,
        description="Deletes capture runs that are older than 14 days, once a day.",
    )


def forget_runs(instance: DagsterInstance, naming: Naming, archive: str, since: datetime, until: datetime) -> int:
    """Deletes the runs that captured the archive between these times and succeeded, but for those that have the newest
    event of an hour or of a check; returns their number."""
    key = naming.chunks_key(archive)
    newest = {*instance.get_latest_storage_id_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION).values()}
    checks = (instance.get_latest_asset_check_evaluation_record(naming.check_key(archive, name)) for name in CHECKS)
    shown = {record.run_id for record in checks if record is not None}
    old = RunsFilter(
        job_name=naming.capture_job(archive),
        statuses=[DagsterRunStatus.SUCCESS],
        created_after=since,
        created_before=until,
    )
    deleted = 0
    for run_id in _ids(_records(instance, old)):
        if run_id in shown or newest.intersection(_materialized(instance, run_id)):
            continue
        instance.delete_run(run_id)
        deleted += 1
    return deleted


def _ids(records: Iterable[RunRecord]) -> list[str]:
    """All of them before the first is deleted: a page begins after the last run of the one before."""
    return [record.dagster_run.run_id for record in records]


def _records(instance: DagsterInstance, chosen: RunsFilter) -> Iterator[RunRecord]:
    cursor: str | None = None
    while page := instance.get_run_records(chosen, limit=_PAGE, cursor=cursor):
        yield from page
        cursor = page[-1].dagster_run.run_id


def _materialized(instance: DagsterInstance, run_id: str) -> set[int]:
    """The storage ids of the run's materializations."""
    found = instance.get_records_for_run(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
    return {record.storage_id for record in found.records}
