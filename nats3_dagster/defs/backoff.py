"""Why a sensor asks for no run now: one is under way, or the last ones failed.

Dagster is asked each time. A `run_key` would be used once ever, and an hour that failed would never come back.
"""

from dagster import DagsterEventType, DagsterInstance, DagsterRunStatus, RunsFilter

from nats3_dagster.defs.internals import (
    BULK_ACTION_TERMINAL_STATUSES,
    IMPLICIT_ASSET_JOB_NAME,
    BulkActionsFilter,
    BulkActionStatus,
)
from nats3_dagster.defs.keys import chunks_key

# After n failures in a row the next try waits for 30 s times 2^(n-1), up to 15 minutes.
FIRST_WAIT_S, LONGEST_WAIT_S, LOOK_BACK = 30, 900, 8
# States of a run that has not ended.
UNFINISHED = [
    DagsterRunStatus.NOT_STARTED, DagsterRunStatus.QUEUED, DagsterRunStatus.STARTING, DagsterRunStatus.STARTED,
    DagsterRunStatus.SUSPENDED, DagsterRunStatus.CANCELING,
]  # fmt: skip
_BACKFILLING = [status for status in BulkActionStatus if status not in BULK_ACTION_TERMINAL_STATUSES]


def active_capture(instance: DagsterInstance, archive: str) -> str | None:
    """The run or backfill that captures the archive or is about to, however it was started, in a sentence."""
    key, job = chunks_key(archive), f"{archive}_capture"
    runs = list(instance.get_runs(RunsFilter(job_name=job, statuses=UNFINISHED), limit=1))
    if not runs:
        by_hand = instance.get_runs(RunsFilter(job_name=IMPLICIT_ASSET_JOB_NAME, statuses=UNFINISHED))
        runs = [run for run in by_hand if key in (run.asset_selection or ())]
    for run in runs:
        return f"Run {run.run_id} ({run.status.value.lower()}) captures this archive"
    # Between two of its runs there is none to see.
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=_BACKFILLING)):
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
    """Why the next of these runs has to wait, when the last ones failed or were canceled; `now` in seconds since 1970.
    `what` they do begins the sentence; `pause` is the archive whose pause ends them."""
    failed = []
    for record in instance.get_run_records(runs, limit=LOOK_BACK):
        if record.dagster_run.status not in (DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED):
            break
        failed.append(record)
    if not failed:
        return None
    ended = failed[0].end_time or failed[0].update_timestamp.timestamp()
    wait = min(FIRST_WAIT_S * 2 ** (len(failed) - 1), LONGEST_WAIT_S) - (now - ended)
    if wait <= 0:
        return None
    times = f"{len(failed)} times in a row" if len(failed) > 1 else "once"
    return f"{what} failed {times}; next try in {wait:.0f} s. {_reason(instance, failed[0].dagster_run.run_id, pause)}"


def _reason(instance: DagsterInstance, run_id: str, pause: str | None) -> str:
    """The error with which the run failed."""
    if (run := instance.get_run_by_id(run_id)) and run.status == DagsterRunStatus.CANCELED:
        or_pause = f", or pause the archive in a shell: nats3 store pause {pause}" if pause else ""
        return f"Run {run_id} was canceled. To have no more of them, switch this sensor off{or_pause}"
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE):
        data = entry.get_dagster_event().step_failure_data
        if data.user_failure_data is not None and data.user_failure_data.description:
            return data.user_failure_data.description
        if data.error is not None:
            return (data.error.cause or data.error).message.strip()
    return f"See run {run_id}: it ended without an error message"
