"""Load jobs: replays as clients of the HTTP API know them, by a UUID and in five states.

Invariant: one key begins one replay, however often, and at however many servers, it is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args
from uuid import UUID

from nats3_dagster.archive.lifecycle.jobs import as_id
from nats3_dagster.errors import Conflict, OperatorError, Unknown, WrongState
from nats3_dagster.model import Replay, ReplaySpec, ReplayState
from nats3_dagster.replay.begin import begin, resolve_archive
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
class JobSource:
    """The archive that a load job replays: by name, or by what the archive is of. None if nothing was asked for."""

    archive: str | None = None
    bucket: str | None = None
    stream: str | None = None
    # Of the object keys.
    prefix: str | None = None
    # Name of the durable through which the archive takes its messages.
    consumer: str | None = None


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
    source: JobSource,
    spec: ReplaySpec,
    *,
    write_stream: str | None = None,
    key: UUID | None = None,
    name: str | None = None,
    agree: Callable[[ReplayPlan], None] = _agreed,
) -> tuple[Replay, bool]:
    """Record a replay of `spec`, whose archive is that of `source`; the replay, and whether it is new.

    `write_stream`: the one that is to take its messages; the archived one may then. `key`: becomes the job's id; given
    again, it finds the replay that it began. `agree` is as in `replay.begin`. Raises as that; WrongState if the key
    began another one."""
    if key and (known := workspace.catalog.replays.find_job(key)):
        return _same(known, source, spec, write_stream, name), False
    asked = _resolved(workspace, source, spec, write_stream)

    def checked(planned: ReplayPlan) -> None:
        _check_stream(planned, write_stream)
        agree(planned)

    try:
        begun, _ = begin(workspace, asked, agree=checked, job_id=key, job_name=name)
    except (WrongState, Conflict):
        # Another server may have begun it for this very key meanwhile.
        if key and (known := workspace.catalog.replays.find_job(key)):
            return _same(known, source, spec, write_stream, name), False
        raise
    return begun, True


def plan_job(workspace: Workspace, source: JobSource, spec: ReplaySpec, write_stream: str | None) -> ReplayPlan:
    """Returns the plan of the load job: nothing is published, created or recorded. Raises as `begin_job`."""
    spec = _resolved(workspace, source, spec, write_stream)
    planned = plan(workspace, spec)
    _check_stream(planned, write_stream)
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


def _resolved(workspace: Workspace, source: JobSource, spec: ReplaySpec, write_stream: str | None) -> ReplaySpec:
    name = resolve_archive(
        workspace,
        source.archive,
        source.bucket,
        source.stream,
        spec.selection.hours,
        source.prefix,
        source.consumer,
        spec.selection.subjects,
    )
    archive = workspace.catalog.archives.get(name).spec
    if source.consumer is not None and source.consumer != archive.durable:
        through = f"through {archive.durable}" if archive.durable else "through no consumer"
        raise OperatorError(
            f"read_consumer is {source.consumer}, and archive {name} takes its messages {through}",
            "A replay reads chunks, and needs no consumer: leave read_consumer out",
        )
    return _asked(spec, name, archive.stream, write_stream)


def _asked(spec: ReplaySpec, archive: str, stream: str, write_stream: str | None) -> ReplaySpec:
    """Naming the archived stream as the one to write to is consent to it."""
    return replace(spec, archive=archive, into_own_stream=spec.into_own_stream or write_stream == stream)


def _same(known: Replay, source: JobSource, spec: ReplaySpec, write_stream: str | None, name: str | None) -> Replay:
    asked = _asked(spec, known.spec.archive, known.stream, write_stream)
    pairs = (
        (source.archive, known.spec.archive),
        (source.bucket, known.bucket),
        (source.stream, known.stream),
        (source.prefix and source.prefix.strip("/"), known.prefix),
        (source.consumer, known.durable),
    )
    # Its pace may have been changed since.
    same = replace(asked, pace=known.spec.pace) == known.spec and name == known.job_name
    if not same or any(wanted is not None and wanted != has for wanted, has in pairs):
        raise WrongState(
            f"The key {known.job_id} began another load job", "Give each load job a key of its own, or no key"
        )
    return known


def _check_stream(planned: ReplayPlan, write_stream: str | None) -> None:
    if write_stream is None:
        return
    names = [target.incarnation.stream for target in planned.targets]
    if planned.creation:
        names = [planned.creation.name]
    if names != [write_stream]:
        raise OperatorError(
            f"write_stream is {write_stream}, and what is published to {planned.pattern} goes into {', '.join(names)}",
            "Choose a write_subject that only that stream captures, or leave write_stream out",
        )
