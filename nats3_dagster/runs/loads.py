"""Loads: have a recorded replay run, by Dagster where there is a webserver, else in a process of its own.

Invariant: what was started last may run the replay, and nothing that was started before it (Launches.reserve).
"""

from collections.abc import Callable

from nats3_dagster.errors import DagsterError
from nats3_dagster.model import Replay, ReplaySpec
from nats3_dagster.replay.launch import fail, reserve
from nats3_dagster.runs import webserver
from nats3_dagster.runs.processes import log_of, start_detached
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Starts a run or process for a replay, given also the number of its launch.
Starter = Callable[[Replay, int], None]
# defs/jobs/jobs.py.
_JOB, _OP = "resume_replay", "resume_recorded_replay"


def starter(settings: Settings, spec: ReplaySpec) -> Starter:
    """Returns the function that starts the replay here: as a run of Dagster or a process of its own. Raises
    DagsterError when the webserver does not answer or has no such job, EngineError when there is no Java: before
    anything is recorded that nothing could run."""
    if not _is_queued(settings, spec):
        if not settings.connect:
            from nats3_dagster.pipeline.session import prepare  # it imports PySpark, 0.5 s

            prepare(settings.spark_master)
        return _start_process
    url = settings.dagster_url
    assert url
    place = webserver.required_place(url, _JOB)

    def launch(replay: Replay, number: int) -> None:
        config = {"ops": {_OP: {"config": {"replay_id": replay.id, "launch": number}}}}
        tags = {"nats3/replay": replay.id, "nats3/archive": replay.spec.archive}
        _, refused = webserver.launch(url, place, _JOB, config, tags)
        if refused:
            raise DagsterError(
                f"The Dagster at NATS3_DAGSTER_URL did not start replay {replay.id}: {refused}",
                "Look at its runs, then resume the replay: it publishes nothing twice",
            )

    return launch


def start(workspace: Workspace, known: Replay, start_with: Starter) -> None:
    """Have the replay run from where it is. `known`: what the caller knows of it. Raises Conflict when another process
    started it meanwhile; DagsterError or EngineError when nothing was started, which is then the error of the
    replay."""
    number = reserve(workspace, known, queued=_is_queued(workspace.settings, known.spec))
    try:
        start_with(known, number)
    except Exception as error:
        fail(workspace, known.id, number, error)
        raise


def _is_queued(settings: Settings, spec: ReplaySpec) -> bool:
    """True if it becomes a run of Dagster. One that follows its archive has no end, and would keep a slot of Dagster's
    pool."""
    return bool(settings.dagster_url) and spec.poll_interval_s is None


def _start_process(replay: Replay, number: int) -> None:
    start_detached(["load", "resume", replay.id, "--launch", str(number)], log_of(replay.id))
