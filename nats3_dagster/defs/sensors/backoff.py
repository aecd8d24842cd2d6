"""The reason why a sensor asks for no run now: one is under way, or the last ones failed.

Dagster is asked each time. A `run_key` would be used once ever, and an hour that failed would never come back.
"""

from collections.abc import Sequence

from dagster import (
    AssetExecutionContext,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    RunRecord,
    RunsFilter,
)

from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.defs.instance.internals import (
    BULK_ACTION_TERMINAL_STATUSES,
    IMPLICIT_ASSET_JOB_NAME,
    BulkActionsFilter,
    BulkActionStatus,
)
from nats3_dagster.defs.keys import ARCHIVE_TAG, Naming

# After n failures in a row the next try waits for 30 s times 2^(n-1), up to 15 minutes.
FIRST_WAIT_S, LONGEST_WAIT_S, LOOK_BACK = 30, 900, 8
# Failed runs that are asked for the hours that failed in them.
LOOK_BACK_HOURS = 24
# Tag of a capture run: the hours that failed in it, while nothing was wrong with the others.
FAILED_HOURS_TAG = "nats3/failed_hours"
FAILED = [DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
# States of a run that has not ended.
UNFINISHED = [
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.SUSPENDED,
    DagsterRunStatus.CANCELING,
]
BACKFILLING = [status for status in BulkActionStatus if status not in BULK_ACTION_TERMINAL_STATUSES]


def active_capture(instance: DagsterInstance, naming: Naming, archive: str) -> str | None:
    """The run or backfill that captures the archive or is about to, however it was started, in a sentence; a run of a
    job in another code location too."""
    key, job = naming.chunks_key(archive), naming.capture_job(archive)
    tagged = instance.get_runs(RunsFilter(tags={ARCHIVE_TAG: archive}, statuses=UNFINISHED))
    runs = [run for run in tagged if run.job_name.endswith("_capture")]
    if not runs:
        by_hand = instance.get_runs(RunsFilter(job_name=IMPLICIT_ASSET_JOB_NAME, statuses=UNFINISHED))
        runs = [run for run in by_hand if key in (run.asset_selection or ())]
    for run in runs:
        return f"Run {run.run_id} ({run.status.value.lower()}) captures this archive"
    # Between two of its runs there is none to see.
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=BACKFILLING)):
        if key in (backfill.asset_selection or ()) or backfill.job_name == job:
            return f"Backfill {backfill.backfill_id} captures this archive"
    return None


def active_run(instance: DagsterInstance, tags: dict[str, str]) -> str | None:
    """The id of a run with these tags that has not ended."""
    runs = instance.get_runs(RunsFilter(tags=tags, statuses=UNFINISHED), limit=1)
    return next((run.run_id for run in runs), None)


def back_off(
    instance: DagsterInstance, runs: RunsFilter, what: str, now: float, *, pause: str | None = None
) -> str | None:
    """Returns the reason why the next of these runs has to wait, when the last ones failed or were canceled; `now` in
    seconds since 1970. `what` they do begins the sentence; `pause` is the archive whose pause ends them."""
    failed = []
    for record in instance.get_run_records(runs, limit=LOOK_BACK):
        if record.dagster_run.status not in FAILED or FAILED_HOURS_TAG in record.dagster_run.tags:
            break
        failed.append(record)
    if not failed:
        return None
    wait = wait_s(failed, now)
    if wait <= 0:
        return None
    why = reason(instance, failed[0].dagster_run.run_id, pause)
    return f"{what} failed {times(failed)}; next try in {wait:.0f} s. {why}"


def note_failed_hours(context: AssetExecutionContext, run: HourRun) -> None:
    """Tag a capture run with the hours that failed in it: `failing_hours` holds these back, and the sensor goes on with
    the others. Without the tag all of the run counts as failed."""
    if run.errors and not run.is_general:
        context.instance.add_run_tags(context.run.run_id, {FAILED_HOURS_TAG: ",".join(run.errors)})


def failing_hours(instance: DagsterInstance, job: str, now: float) -> dict[str, str]:
    """Hours that failed in the last runs of the job and have to wait, and why; `now` in seconds since 1970."""
    failures: dict[str, list[RunRecord]] = {}
    runs = RunsFilter(job_name=job, statuses=FAILED)
    for record in instance.get_run_records(runs, limit=LOOK_BACK_HOURS):
        for hour in filter(None, record.dagster_run.tags.get(FAILED_HOURS_TAG, "").split(",")):
            add_failure(failures.setdefault(hour, []), record)
    waits = {hour: wait_s(row, now) for hour, row in failures.items() if row}
    return {
        hour: f"{hour} failed {times(failures[hour])}; next try in {wait:.0f} s. "
        f"{reason(instance, failures[hour][0].dagster_run.run_id)}"
        for hour, wait in waits.items()
        if wait > 0
    }


def add_failure(row: list[RunRecord], record: RunRecord) -> None:
    """Adds a failed run to those that failed in a row, the newest first, unless it is none of them."""
    # What fails is tried at least so often; what failed long before was mended in between.
    if not row or _began(row[-1]) - _ended(record) < 2 * LONGEST_WAIT_S:
        row.append(record)


def wait_s(failed: Sequence[RunRecord], now: float) -> float:
    """Seconds from now to the next try, after these failures in a row, the newest first."""
    return min(FIRST_WAIT_S * 2 ** (len(failed) - 1), LONGEST_WAIT_S) - (now - _ended(failed[0]))


def times(failed: Sequence[RunRecord]) -> str:
    """Returns how often it failed, as text."""
    return f"{len(failed)} times in a row" if len(failed) > 1 else "once"


def _ended(record: RunRecord) -> float:
    return record.end_time or record.update_timestamp.timestamp()


def _began(record: RunRecord) -> float:
    return record.start_time or record.create_timestamp.timestamp()


def reason(instance: DagsterInstance, run_id: str, pause: str | None = None, step: str | None = None) -> str:
    """The error with which the run failed, or one `step` of it."""
    if (run := instance.get_run_by_id(run_id)) and run.status == DagsterRunStatus.CANCELED:
        or_pause = f", or pause the archive in a shell: nats3 store pause {pause}" if pause else ""
        return f"Run {run_id} was canceled. To have no more of them, switch this sensor off{or_pause}"
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE):
        if step and entry.step_key != step:
            continue
        data = entry.get_dagster_event().step_failure_data
        if data.user_failure_data is not None and data.user_failure_data.description:
            return data.user_failure_data.description
        if data.error is not None:
            return (data.error.cause or data.error).message.strip()
    return f"See run {run_id}: it ended without an error message"
