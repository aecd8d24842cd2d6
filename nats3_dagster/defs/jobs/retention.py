"""Retention: old runs leave Dagster's database, but for those whose events Dagster still shows.

Invariant: the newest event of each hour stays, and of each check. So no asset loses an hour, the catalog sensor has
nothing to report again, and nothing downstream is requested.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from dagster import (
    AssetCheckKey,
    AssetKey,
    Config,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
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
from nats3_dagster.defs.instance.internals import check_records
from nats3_dagster.defs.keys import ACCOUNT_TAG, CAPTURES, CHECKS, Naming

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
        deleted += forget_shared_runs(context.instance, naming, since, until)
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
    shown = _Shown(instance, naming)
    old = RunsFilter(
        job_name=naming.capture_job(archive),
        statuses=[DagsterRunStatus.SUCCESS],
        created_after=since,
        created_before=until,
    )
    return _forget(instance, old, lambda run: shown.has(run, [naming.chunks_key(archive)]))


def forget_shared_runs(instance: DagsterInstance, naming: Naming, since: datetime, until: datetime) -> int:
    """The same of runs that captured several archives: one stays while it shows an hour or a check of any of them."""
    shown = _Shown(instance, naming)
    old = RunsFilter(
        tags={ACCOUNT_TAG: CAPTURES},
        statuses=[DagsterRunStatus.SUCCESS],
        created_after=since,
        created_before=until,
    )
    return _forget(instance, old, lambda run: shown.has(run, run.asset_selection or ()))


class _Shown:
    """The events that Dagster shows of archives, asked for once of each."""

    def __init__(self, instance: DagsterInstance, naming: Naming) -> None:
        self._instance, self._naming = instance, naming
        # By the key of an archive's chunks: the newest event of each hour, and the runs of the newest checks.
        self._found: dict[AssetKey, tuple[set[int], set[str]]] = {}

    def has(self, run: DagsterRun, keys: Iterable[AssetKey]) -> bool:
        """True if Dagster shows something that the run reported of these chunks."""
        events: set[int] | None = None
        for key in keys:
            newest, runs = self._of(key)
            events = events if events is not None else _materialized(self._instance, run.run_id)
            if run.run_id in runs or not newest.isdisjoint(events):
                return True
        return False

    def _of(self, key: AssetKey) -> tuple[set[int], set[str]]:
        if key not in self._found:
            newest = self._instance.get_latest_storage_id_by_partition(key, DagsterEventType.ASSET_MATERIALIZATION)
            records = check_records(self._instance, [AssetCheckKey(key, check) for check in CHECKS])
            self._found[key] = ({*newest.values()}, {record.run_id for record in records.values()})
        return self._found[key]


def _forget(instance: DagsterInstance, old: RunsFilter, is_shown: Callable[[DagsterRun], bool]) -> int:
    deleted = 0
    # All of them before the first is deleted: a page begins after the last run of the one before.
    for record in [*_records(instance, old)]:
        if not is_shown(record.dagster_run):
            instance.delete_run(record.dagster_run.run_id)
            deleted += 1
    return deleted


def _records(instance: DagsterInstance, chosen: RunsFilter) -> Iterator[RunRecord]:
    cursor: str | None = None
    while page := instance.get_run_records(chosen, limit=_PAGE, cursor=cursor):
        yield from page
        cursor = page[-1].dagster_run.run_id


def _materialized(instance: DagsterInstance, run_id: str) -> set[int]:
    """The storage ids of the run's materializations."""
    found = instance.get_records_for_run(run_id, of_type=DagsterEventType.ASSET_MATERIALIZATION)
    return {record.storage_id for record in found.records}
