"""Load jobs: replays as clients of the HTTP API know them, by a UUID and in five states.

Invariant: one key begins one replay, however often, and at however many servers, it is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

from nats3_dagster.archive.lifecycle.jobs import as_id
from nats3_dagster.errors import Conflict, Unknown, WrongState
from nats3_dagster.model import Replay, ReplayState
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.job_request import JobRequest
from nats3_dagster.replay.planning.plan import ReplayPlan, plan
from nats3_dagster.replay.status import ReplayStatus, find, state_of
from nats3_dagster.replay.status import status as status_by_id
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

JobStatus = Literal["Created", "Running", "Paused", "Success", "Failure"]
JOB_STATUSES: tuple[JobStatus, ...] = get_args(JobStatus)
# After these a job continues only if it is resumed. A paused one is about to be resumed.
ENDS: tuple[JobStatus, ...] = ("Success", "Failure")
# Of each state that people see (ReplayStatus.state).
_STATUS_OF: dict[str, JobStatus] = {
    "planned": "Created",
    "running": "Running",
    "paused": "Paused",
    "succeeded": "Success",
    "failed": "Failure",
    "canceled": "Failure",
    "interrupted": "Failure",
}
# States in the catalog that may have it: an interrupted replay is `running` there, or `planned`.
_STATES: dict[JobStatus, tuple[ReplayState, ...]] = {
    "Created": ("planned",),
    "Running": ("running",),
    "Paused": ("paused",),
    "Success": ("succeeded",),
    "Failure": ("failed", "canceled", "running", "planned"),
}


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The progress of a load job."""

    status: ReplayStatus
    # Messages: done are published, found in the target or expired; of all, at most.
    done: int
    total: int
    # Seconds of the newest attempt, and its messages a second; None before the first.
    seconds: float
    rate: float | None
    # Seconds until it has published what there is; None if that is not known.
    eta_s: float | None


def status_of(status: ReplayStatus) -> JobStatus:
    """The state as a client of the API sees it."""
    return _STATUS_OF[status.state]


def error_of(status: ReplayStatus) -> str | None:
    """Returns the reason why a load job does not go on; None while it does."""
    if status.state == "interrupted" and status.replay.state == "planned":
        return (
            f"What was started for replay {status.replay.id} does not run, and has not begun: it was killed, or its "
            "host was"
        )
    if status.state == "interrupted":
        return f"What ran replay {status.replay.id} has ended without a word: it was killed, or its host was"
    if status_of(status) == "Failure":
        return status.replay.error or f"Replay {status.replay.id} was {status.state}"
    return status.replay.error


def job(workspace: Workspace, job_id: UUID) -> ReplayStatus:
    """Raises Unknown if there is no such load job."""
    found = workspace.catalog.replays.find_job(job_id)
    if found is None:
        raise Unknown(f"There is no load job {job_id}", Next.LIST_REPLAYS())
    return state_of(workspace, found)


def named(workspace: Workspace, name: str) -> ReplayStatus:
    """The load job of this id, else the replay of this one, else the newest load job of this name. Raises
    OperatorError if there is none."""
    if job_id := as_id(name):
        return job(workspace, job_id)
    if known := find(workspace, name):
        return state_of(workspace, known)
    of_name = workspace.catalog.replays.select(job_name=name, limit=1)
    return state_of(workspace, of_name[0]) if of_name else status_by_id(workspace, name)


def jobs(
    workspace: Workspace,
    *,
    status: JobStatus | None = None,
    archive: str | None = None,
    bucket: str | None = None,
    replay_id: str | None = None,
    name: str | None = None,
    limit: int | None = None,
) -> Sequence[ReplayStatus]:
    """Returns the load jobs that all of this fits, newest first; `name`: of the job. Raises Unknown if there is no such
    archive."""
    catalog = workspace.catalog
    selected = catalog.replays.select(
        catalog.archives.get(archive) if archive is not None else None,
        bucket=bucket,
        states=_STATES[status] if status else None,
        # Of those that are `running` or `planned` some are interrupted: which, is known only after they were read.
        limit=None if status in ("Created", "Running", "Failure") else limit,
        replay_id=replay_id,
        job_name=name,
    )
    every = [state_of(workspace, replay) for replay in selected]
    return [one for one in every if status in (None, status_of(one))][:limit]


def _agreed(planned: ReplayPlan) -> None:
    """Agrees without a question: the request is consent to the deletion."""


def begin_job(
    workspace: Workspace,
    asked: JobRequest,
    *,
    key: UUID | None = None,
    agree: Callable[[ReplayPlan], None] = _agreed,
) -> tuple[Replay, bool]:
    """Record the replay that is asked for; the replay, and whether it is new.

    `key`: becomes the job's id; given again, it finds the replay that it began. `agree` is as in `replay.begin`. Raises
    as that; WrongState if the key began another one."""
    if key and (known := _begun(workspace, asked, key)):
        return known, False

    def checked(planned: ReplayPlan) -> None:
        asked.check_stream(planned)
        agree(planned)

    spec = asked.resolved(workspace)
    try:
        replay, _ = begin(workspace, spec, agree=checked, job_id=key, job_name=asked.name)
    except (WrongState, Conflict):
        # Another server may have begun it for this very key meanwhile.
        if key and (known := _begun(workspace, asked, key)):
            return known, False
        raise
    return replay, True


def _begun(workspace: Workspace, asked: JobRequest, key: UUID) -> Replay | None:
    """The replay that the key began; None if it began none. Raises WrongState if it began another one."""
    replay = workspace.catalog.replays.find_job(key)
    if replay is not None:
        asked.check_began(replay)
    return replay


def plan_job(workspace: Workspace, asked: JobRequest) -> ReplayPlan:
    """Returns the plan of the load job: nothing is published, created or recorded. Raises as `begin_job`."""
    planned = plan(workspace, asked.resolved(workspace))
    asked.check_stream(planned)
    return planned


def needs_start(replay: Replay) -> bool:
    """True if no process has run a replay that a key began, and none is about to: the process that began it may have
    died, or failed to start it."""
    waits = replay.state == "planned" and replay.launch > 0 and not replay.lost
    return replay.attempt == 0 and replay.state in ("planned", "failed") and not waits


def check_may_start(status: ReplayStatus) -> None:
    """Raises WrongState if a replay runs, or has nothing left to do."""
    replay = status.replay
    if status.state == "running":
        raise WrongState(f"Replay {replay.id} runs already", Next.GET_REPLAY(replay=replay.id))
    if status.state == "succeeded" and not replay.spec.delete_chunks:
        raise WrongState(f"Replay {replay.id} has succeeded: nothing is left to publish", Next.BEGIN_NEW_REPLAY())


def progress(workspace: Workspace, job_id: UUID) -> JobProgress:
    """Returns the progress of the job. Raises Unknown if there is no such load job."""
    current = job(workspace, job_id)
    replay, newest = current.replay, workspace.catalog.replays.progress(current.replay.id)
    reported = replay.progress_published + replay.progress_found
    left = max(0, newest.pending - reported)
    moved = replay.acknowledged - newest.began_with
    rate = moved / newest.seconds if replay.attempt and newest.seconds > 0 else None
    return JobProgress(
        current,
        done=replay.selected + reported,
        total=replay.selected + max(newest.pending, reported),
        seconds=newest.seconds,
        rate=rate,
        eta_s=left / rate if rate and current.state == "running" else None,
    )
