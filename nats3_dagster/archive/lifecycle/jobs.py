"""Archives as jobs of the HTTP API: by their ids, with a status as nats-s3-connector has it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args
from uuid import UUID

from nats3_dagster.archive.lifecycle import remove
from nats3_dagster.archive.source.backlog import Backlog
from nats3_dagster.archive.source.condition import Condition, RecentConditions, condition
from nats3_dagster.archive.source.loss import Loss, time_to_loss
from nats3_dagster.archive.stored import removal
from nats3_dagster.errors import OperatorError, SourceError, Unknown
from nats3_dagster.model import Archive, ArchiveTotals
from nats3_dagster.model.drill import Drill
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

JobStatus = Literal["Created", "Running", "Paused", "Success", "Failure"]
# Characters of an id as it is written.
_ID_LENGTH = 36
STATUSES: tuple[JobStatus, ...] = get_args(JobStatus)


@dataclass(frozen=True, slots=True)
class StoreJob:
    """An archive with what its source says now."""

    totals: ArchiveTotals
    condition: Condition
    # The last drill; None where there was none, or it was not asked for.
    drill: Drill | None = None

    @property
    def archive(self) -> Archive:
        return self.totals.archive

    @property
    def status(self) -> JobStatus:
        """`Paused` whatever the source says; `Failure` while the source is not usable; `Created` before the first
        chunk; else `Running`: its sensor captures what comes, wherever Dagster's daemon runs and the sensor is not
        switched off there. It is never `Success`: a stream has no end."""
        if self.archive.paused:
            return "Paused"
        if self.condition.error:
            return "Failure"
        return "Running" if self.totals.chunks else "Created"


@dataclass(frozen=True, slots=True)
class Lag:
    """The uncaptured messages of an archive, and how near its stream is to deleting some of them."""

    archive: Archive
    waiting: Backlog
    loss: Loss


def jobs(
    workspace: Workspace,
    recent: RecentConditions,
    *,
    status: JobStatus | None = None,
    stream: str | None = None,
    bucket: str | None = None,
    limit: int | None = None,
) -> tuple[StoreJob, ...]:
    """The jobs that meet all conditions, by the names of their archives: the first `limit` of them."""
    asked = [
        sums
        for sums in workspace.catalog.archives.totals()
        if stream in (None, sums.archive.spec.stream) and bucket in (None, sums.archive.spec.bucket)
    ]
    if status is None:
        return _with_conditions(recent, asked[:limit])
    return tuple(job for job in _with_conditions(recent, asked) if job.status == status)[:limit]


def job(workspace: Workspace, recent: RecentConditions, job_id: UUID) -> StoreJob:
    """Raises Unknown when there is none."""
    archive = find(workspace, job_id)
    one = _with_conditions(recent, [_totals(workspace, archive)])[0]
    return replace(one, drill=_drill(workspace, archive))


def aged(workspace: Workspace, archive: Archive) -> StoreJob:
    """The job of an archive, with the age of the oldest message that is not captured. Raises Unknown when it is
    deleted."""
    return StoreJob(_totals(workspace, archive), condition(workspace, archive), _drill(workspace, archive))


def find(workspace: Workspace, job_id: UUID) -> Archive:
    """The archive of the job. Raises Unknown when there is none."""
    archive, is_live = _of(workspace, job_id)
    if not is_live:
        raise _unknown(job_id)
    return archive


def of_job(workspace: Workspace, job_id: UUID) -> Archive:
    """The archive of the job, or of a deleted one. Raises Unknown when there never was one."""
    return _of(workspace, job_id)[0]


def named(workspace: Workspace, name: str) -> Archive:
    """The archive of this job id, else of this name, else of the job of this name. Raises Unknown if there is none."""
    if (job_id := as_id(name)) and (row := workspace.catalog.archives.of_job(job_id)) and row[1]:
        return row[0]
    return workspace.catalog.archives.get(name)


def name_to_delete(workspace: Workspace, name: str) -> str:
    """The name of the archive that `named` finds; any other text as it is, for an archive of this name may have been
    deleted before. Raises Unknown for an id without an archive."""
    try:
        return named(workspace, name).name
    except OperatorError:
        if as_id(name):
            raise
        return name


def as_id(text: str) -> UUID | None:
    """The id of a job that a text is; None for any other text, also for the digits alone: a name may be so."""
    try:
        return UUID(text) if len(text) == _ID_LENGTH else None
    except ValueError:
        return None


def lag(workspace: Workspace, job_id: UUID) -> Lag:
    """Raises Unknown when there is no such job, and the error of a source that is not usable."""
    archive = find(workspace, job_id)
    now = condition(workspace, archive)
    if now.waiting is None:
        raise now.error or SourceError(f"Stream {archive.spec.stream} of archive {archive.name} is not usable")
    return Lag(archive, now.waiting, time_to_loss(now.waiting, paused=archive.paused))


def delete(
    workspace: Workspace, job_id: UUID, *, purge: bool = False, keep_consumer: bool = False
) -> tuple[Archive, remove.Deleted]:
    """Delete the archive of the job; with `purge` its objects too, also those of an archive that was deleted before.
    Raises Unknown when there is nothing to delete, and else as `remove.delete`."""
    archive, is_live = _of(workspace, job_id)
    if not (is_live or purge):
        raise _unknown(job_id)
    if is_live:
        return archive, remove.delete(workspace, archive.name, purge=purge, keep_consumer=keep_consumer)
    # Not by its name: the name may have another archive by now.
    if not remove.left(workspace, archive.name):
        raise _unknown(job_id)
    removed = removal.remove_dead(workspace, archive.name)
    return archive, remove.Deleted(0, removed)


def _of(workspace: Workspace, job_id: UUID) -> tuple[Archive, bool]:
    """The archive of the job, and whether it is not deleted. Raises Unknown when there never was one."""
    row = workspace.catalog.archives.of_job(job_id)
    if row is None:
        raise _unknown(job_id)
    return row


def _totals(workspace: Workspace, archive: Archive) -> ArchiveTotals:
    sums = workspace.catalog.archives.totals_of(archive)
    if sums is None:
        raise _unknown(archive.job_id)
    return sums


def _drill(workspace: Workspace, archive: Archive) -> Drill | None:
    return workspace.catalog.account_restores.drills([archive.id]).get(archive.id)


def _with_conditions(recent: RecentConditions, sums: Sequence[ArchiveTotals]) -> tuple[StoreJob, ...]:
    now = recent.of([one.archive for one in sums])
    return tuple(StoreJob(one, now[one.archive.id]) for one in sums)


def _unknown(job_id: UUID) -> Unknown:
    return Unknown(f"There is no store job {job_id}", Next.LIST_ARCHIVES(), field="job_id")
