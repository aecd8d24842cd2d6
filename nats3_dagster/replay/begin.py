"""Begin: record a replay before its first message goes out."""

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.server import server_info
from nats3_dagster.model import Replay, ReplaySpec
from nats3_dagster.replay.job import new_id
from nats3_dagster.replay.planning.creation import create
from nats3_dagster.replay.planning.plan import ReplayPlan, plan, target_of
from nats3_dagster.replay.planning.reach import check_reach
from nats3_dagster.replay.status import check_forerunner
from nats3_dagster.replay.targets import supports_batches
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
        # Once more, because only now a stream listens.
        check_reach(workspace.link, planned)
    with workspace.catalog.replays.recording(planned.archive):
        # Once more, where no other process can record one: it may have done so since the plan looked.
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
