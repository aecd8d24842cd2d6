"""Back-off: how long a sensor waits after runs that failed, and what it says meanwhile.

The rule kept here: what is under way or failed lately is asked of Dagster each time. A `run_key` would be used once
ever, and what failed never come back.
"""

from dagster import DagsterEventType, DagsterInstance, DagsterRunStatus, RunsFilter

# After n failures in a row the next try waits for 30 s times 2^(n-1), up to 15 minutes.
FIRST_WAIT_S, LONGEST_WAIT_S, LOOK_BACK = 30, 900, 8


def back_off(instance: DagsterInstance, runs: RunsFilter, what: str, now: float) -> str | None:
    """Why the next of these runs has to wait, when the last ones failed or were canceled; `now` in seconds since 1970.
    `what` they do begins the sentence."""
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
    return f"{what} failed {times}; next try in {wait:.0f} s. {_reason(instance, failed[0].dagster_run.run_id)}"


def _reason(instance: DagsterInstance, run_id: str) -> str:
    """What the run said when it failed."""
    if (run := instance.get_run_by_id(run_id)) and run.status == DagsterRunStatus.CANCELED:
        return f"Run {run_id} was canceled; to have no more of them: nats3 store pause, or switch this sensor off"
    for entry in instance.all_logs(run_id, of_type=DagsterEventType.STEP_FAILURE):
        data = entry.get_dagster_event().step_failure_data
        if data.user_failure_data is not None and data.user_failure_data.description:
            return data.user_failure_data.description
        if data.error is not None:
            return (data.error.cause or data.error).message.strip()
    return f"See run {run_id}: it ended without a word"
