"""Where the time of a run went, as its own event log says."""

from collections.abc import Iterator
from dataclasses import dataclass

from dagster import DagsterEventType, DagsterInstance, EventLogEntry, RunsFilter

from nats3_dagster.defs.resources import SPARK_READY, SPARK_STARTS


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
        at = {name: time_s for run in runs for entry in instance.all_logs(run.run_id) for name, time_s in _marks(entry)}
    if not {"starts", "ready", "done"} <= at.keys():
        return None
    return RunTimes(spark_s=round(at["ready"] - at["starts"], 2), work_s=round(at["done"] - at["ready"], 2))


def _marks(entry: EventLogEntry) -> Iterator[tuple[str, float]]:
    if entry.user_message.startswith(SPARK_STARTS):
        yield "starts", entry.timestamp
    elif entry.user_message.startswith(SPARK_READY):
        yield "ready", entry.timestamp
    # Of the stream after a capture, of the replay after a replay.
    elif entry.is_dagster_event and entry.get_dagster_event().event_type == DagsterEventType.ASSET_OBSERVATION:
        yield "done", entry.timestamp
