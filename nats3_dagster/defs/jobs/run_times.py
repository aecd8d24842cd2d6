"""The time of a run by its parts, as its own event log says."""

from dataclasses import dataclass

from dagster import DagsterEventType, DagsterInstance, EventLogEntry, RunsFilter

from nats3_dagster.defs.instance.resources import SPARK_READY


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Two parts of a capture or replay, in seconds. What is left of the whole is Dagster's own: it starts, loads the
    definitions, and records the run."""

    # Until there was a session.
    spark_s: float
    # From then on, until the last hour was captured or the last message acknowledged.
    work_s: float


def run_times(tag: str, value: str) -> RunTimes | None:
    """Returns the times of the newest run with this tag, in the instance that DAGSTER_HOME names; None if its log does
    not have them."""
    with DagsterInstance.get() as instance:
        runs = instance.get_runs(RunsFilter(tags={tag: value}), limit=1)
        entries = [entry for run in runs for entry in instance.all_logs(run.run_id)]
    ready = next((entry for entry in entries if entry.user_message.startswith(SPARK_READY)), None)
    done = [entry.timestamp for entry in entries if _is_done(entry)]
    if ready is None or not done:
        return None
    spark_s = float(ready.user_message.removeprefix(SPARK_READY).split()[0])
    return RunTimes(spark_s=spark_s, work_s=round(done[-1] - ready.timestamp, 2))


def _is_done(entry: EventLogEntry) -> bool:
    """True for an event of what was captured or replayed."""
    return entry.is_dagster_event and entry.get_dagster_event().event_type in (
        DagsterEventType.ASSET_MATERIALIZATION,
        DagsterEventType.ASSET_OBSERVATION,
    )
