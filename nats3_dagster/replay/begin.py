"""Begin: record a replay before its first message goes out."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from nats3_dagster.errors import OperatorError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import Replay, ReplaySpec
from nats3_dagster.replay.job import new_id
from nats3_dagster.replay.planning.creation import create
from nats3_dagster.replay.planning.plan import ReplayPlan, plan, target_of
from nats3_dagster.replay.planning.reach import check_reach
from nats3_dagster.replay.status import check_forerunner
from nats3_dagster.replay.targets import supports_batches
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


def _agreed(planned: ReplayPlan) -> None:
    """Agrees without a question."""


def begin(
    workspace: Workspace,
    spec: ReplaySpec,
    *,
    replay_id: str | None = None,
    agree: Callable[[ReplayPlan], None] = _agreed,
    job_id: UUID | None = None,
    job_name: str | None = None,
) -> tuple[Replay, ReplayPlan]:
    """Plan a replay, create the stream that it asks for if none listens, and record it: `run_replay` publishes.

    `replay_id`: 16 hex digits, never used before, as is `job_id`; by default new ones. `agree` is called with the plan
    that will be recorded, before anything is created or written; what it raises ends it. Raises as `plan`, also for the
    same replay if another process began it meanwhile; Conflict if a chunk was retired meanwhile, or an id was given
    before."""
    known = {replay.id for replay in workspace.catalog.replays.select(workspace.catalog.archives.get(spec.archive))}
    planned = plan(workspace, spec)
    check_reach(workspace.link, planned)
    agree(planned)
    if planned.creation:
        created = create(workspace.link, planned.creation)
        batched = supports_batches([created], server_info(workspace.link))
        planned = replace(planned, targets=(target_of(created),), batched=batched)
        check_reach(workspace.link, planned)
    with workspace.catalog.replays.recording(planned.archive):
        check_forerunner(workspace, planned.archive, spec, known=known)
        replay = workspace.catalog.replays.begin(
            replay_id or new_id(),
            planned.archive,
            spec,
            planned.targets,
            planned.chosen.ids,
            job_id=job_id,
            job_name=job_name,
        )
    fault_point("replay.begun")
    return replay, planned


def resolve_archive(
    workspace: Workspace,
    name: str | None,
    bucket: str | None,
    stream: str | None,
    hours: tuple[str, ...] = (),
    prefix: str | None = None,
    consumer: str | None = None,
    subjects: tuple[str, ...] = (),
) -> str:
    """Name of the one archive of that name, bucket, stream and prefix that has these hours; of several the one that
    takes its messages through this consumer, or is of exactly these subjects. Raises OperatorError."""
    if name is None and (bucket is None or stream is None):
        raise OperatorError("No archive is named", Next.SAY_ARCHIVE())
    every = [workspace.catalog.archives.get(name)] if name is not None else list(workspace.catalog.archives.all())
    matching = [a for a in every if stream in (None, a.spec.stream) and bucket in (None, a.spec.bucket)]
    if prefix is not None:
        matching = [a for a in matching if a.spec.prefix == prefix.strip("/")]
    if not matching:
        there = ", ".join(f"{a.name} (stream {a.spec.stream}, bucket {a.spec.bucket})" for a in every[:5])
        raise OperatorError(
            f"No archive of stream {stream or 'of any name'} is in bucket {bucket or 'of any name'}",
            f"There is {there}" if there else Next.CREATE_ARCHIVE(),
        )
    if len(matching) > 1 and consumer is not None:
        matching = [a for a in matching if a.spec.durable == consumer] or matching
    if len(matching) > 1 and subjects:
        exact = [a for a in matching if set(a.spec.subjects) == set(subjects)]
        matching = exact if len(exact) == 1 else matching
    if len(matching) > 1:
        raise OperatorError(
            f"Bucket {bucket} has {len(matching)} archives of stream {stream}: {', '.join(a.name for a in matching)}",
            Next.CHOOSE_ARCHIVE(),
        )
    archive = matching[0]
    if hours:
        known = {h.hour for h in workspace.catalog.hours.select(archive, first=min(hours), last=max(hours))}
        if unknown := [hour for hour in hours if hour not in known]:
            raise OperatorError(
                f"Archive {archive.name} has nothing of the hour {', '.join(unknown[:3])}",
                Next.LIST_HOURS(archive=archive.name),
            )
    return archive.name
