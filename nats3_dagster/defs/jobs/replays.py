"""The run of a replay, and how it finds that replay.

Invariant: the id of a replay follows from the run that began it and from what it publishes and to which subjects. Every
retry and re-execution finds the same replay, whatever was lost in between, and publishes nothing twice.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, DagsterInstance, DagsterRun, DagsterRunStatus, MetadataValue

from nats3_dagster.defs.assets.events import Replayed, replayed
from nats3_dagster.defs.assets.metadata import Metadata, plan_table, rate
from nats3_dagster.defs.instance.internals import BACKFILL_ID_TAG, IMPLICIT_ASSET_JOB_NAME
from nats3_dagster.defs.instance.resources import start_spark
from nats3_dagster.defs.jobs.runs import Context, progress_log
from nats3_dagster.defs.keys import ATTEMPT_TAG, REPLAY_TAG, Naming
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ReplaySpec
from nats3_dagster.replay.launch import launched
from nats3_dagster.replay.status import status
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.replay.resume import ReplayToRun, RunEvidence


def dry_run(settings: Settings, spec: ReplaySpec) -> Metadata:
    """The plan as metadata; nothing is published, created or recorded. Raises Nats3Error."""
    from nats3_dagster.documents.replay_plans import ReplayPlan
    from nats3_dagster.replay.planning.plan import plan

    with Workspace(settings) as workspace:
        planned = ReplayPlan.of(plan(workspace, spec))
    return {"plan": MetadataValue.md(plan_table(planned.plain())), "dry_run": True}


def refuse_backfill(context: AssetExecutionContext, naming: Naming, archive: str, hours: Sequence[str]) -> None:
    """Raises OperatorError for a dry run in a backfill of assets: it ends as failed where an hour was not materialized,
    and a dry run materializes none (dagster-io/dagster#34219)."""
    if context.run.job_name == IMPLICIT_ASSET_JOB_NAME and BACKFILL_ID_TAG in context.run.tags:
        to_time = hour_of(hour_start(hours[-1]) + HOUR_NS)
        raise OperatorError(
            "A dry run materializes nothing, and Dagster counts the hours of a backfill as failed then",
            f"Plan them with the job {naming.name('replay')}: archive: {archive}, from_time: {hours[0]}, "
            f"to_time: {to_time}, dry_run: true",
        )


def replay(context: Context, spark: Any, settings: Settings, spec: ReplaySpec) -> Replayed:
    """Publish the selection, or the rest of it where this run continues another. Raises Nats3Error."""
    with Workspace(settings) as workspace:
        found = replay_to_run(workspace, context.instance, context.run, spec)
    return _publish(context, spark, settings, found, None)


def resume(context: Context, spark: Any, settings: Settings, replay_id: str, launch: int | None) -> Replayed:
    """Publish what is left of a replay that was begun, and delete its chunks where it asks for that. `launch`: see
    launch.launched. Raises Nats3Error."""
    from nats3_dagster.replay import control
    from nats3_dagster.replay.resume import resume as resumed

    with Workspace(settings) as workspace:
        _tag(context.instance, context.run, {REPLAY_TAG: replay_id})
        found = resumed(workspace, replay_id, _evidence(context.instance, context.run, replay_id))
    outcome = _publish(context, spark, settings, found, launch)
    if found.replay.spec.delete_chunks:
        with Workspace(settings) as workspace:
            retired = control.delete_chunks(workspace, replay_id)
            for kept in control.kept_for(workspace, replay_id):
                context.log.warning(f"Replay {replay_id}: chunks stay, because {kept}")
        context.log.info(f"Replay {replay_id}: {retired} of its chunks were deleted")
    return outcome


def _publish(context: Context, spark: Any, settings: Settings, found: "ReplayToRun", launch: int | None) -> Replayed:
    from nats3_dagster.pipeline.replay_run import run_replay

    replay_id = found.replay.id
    for sentence in found.notes:
        context.log.info(f"Replay {replay_id}: {sentence}")
    if found.replay.state != "succeeded":
        with launched(settings, replay_id, launch) as on_attempt:
            session = start_spark(spark, settings)

            def begun(number: int) -> None:
                on_attempt(number)
                _tag(context.instance, context.run, {ATTEMPT_TAG: str(number)})

            result = run_replay(
                session, settings, replay_id, on_progress=progress_log(context, f"Replay {replay_id}"), on_attempt=begun
            )
        context.log.info(
            f"Replay {replay_id}: attempt {result.attempt} published {result.published:,} messages in "
            f"{result.seconds:.1f} s ({rate(result.published, result.seconds)}), found {result.found:,} in the target, "
            f"{result.duplicates:,} refused as duplicates, {result.expired:,} left out as expired; all attempts: "
            f"{result.replay.acknowledged:,} messages"
        )
    with Workspace(settings) as workspace:
        return replayed(workspace, status(workspace, replay_id).replay)


def replay_to_run(workspace: Workspace, instance: DagsterInstance, run: DagsterRun, spec: ReplaySpec) -> "ReplayToRun":
    """The replay of this run: the one that a run before it began, or recorded now. Raises Nats3Error."""
    from nats3_dagster.replay.resume import begin_or_resume

    replay_id = replay_id_for(instance, run, spec)
    found = begin_or_resume(workspace, spec, replay_id, _evidence(instance, run, replay_id))
    # Both, because a run that executes another one again has its tags.
    _tag(instance, run, {REPLAY_TAG: replay_id, ATTEMPT_TAG: str(found.replay.attempt)})
    return found


def replay_id_for(instance: DagsterInstance, run: DagsterRun, spec: ReplaySpec) -> str:
    """Sixteen hex digits for the run that began the replay, for what is replayed and for the subjects that it goes to.

    Its pace does not count: a run that is executed again at another pace goes on with the same replay. Its being live
    and its marks count: they change the messages."""
    *_, (begun_by, _) = _continued(instance, run)
    what = [spec.archive, asdict(spec.selection), spec.write_subject, spec.live, spec.marks]
    text = json.dumps([begun_by, *what], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def began_at(instance: DagsterInstance, run: DagsterRun) -> datetime | None:
    """Returns the time when the oldest run that this one goes on with was created: a run that is executed again selects
    the same times by `-2h`. None for a run that the instance does not have."""
    for run_id in [run_id for run_id, earlier in _continued(instance, run) if earlier is not None][::-1]:
        if record := instance.get_run_record_by_id(run_id):
            return record.create_timestamp
    return None


def _continued(instance: DagsterInstance, run: DagsterRun) -> Iterator[tuple[str, DagsterRun | None]]:
    """The run and those that it continues by their ids, newest first; None for one that was deleted.

    A run that failed, crashed or was cancelled is continued by the runs that re-execute it. A re-execution of one that
    succeeded starts again from the beginning: it is a request for the messages once more."""
    current = instance.get_run_by_id(run.run_id) or run  # with the tags that it has by now
    yield run.run_id, current
    while current is not None and (parent := current.parent_run_id):
        current = instance.get_run_by_id(parent)
        if current is not None and current.status == DagsterRunStatus.SUCCESS:
            return
        yield parent, current


def _evidence(instance: DagsterInstance, run: DagsterRun, replay_id: str) -> "RunEvidence":
    """Returns the evidence of the replay in the tags of the run, and of those that it continues."""
    from nats3_dagster.replay.resume import RunEvidence

    runs = [earlier for _, earlier in _continued(instance, run) if earlier is not None]
    tagged = [earlier.tags for earlier in runs if earlier.tags.get(REPLAY_TAG) == replay_id]
    return RunEvidence(bool(tagged), max((int(tags.get(ATTEMPT_TAG, 0)) for tags in tagged), default=0))


def _tag(instance: DagsterInstance, run: DagsterRun, tags: dict[str, str]) -> None:
    instance.add_run_tags(run.run_id, tags)
