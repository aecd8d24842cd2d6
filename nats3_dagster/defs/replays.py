"""A replay driven by a Dagster run: begun once, continued by every retry and re-execution of that run.

The rule kept here: the replay's id follows from the run that began it. Whoever comes after a crash finds the same id
whatever was lost, and so publishes nothing twice.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from dagster import (
    AssetExecutionContext,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    MetadataValue,
    OpExecutionContext,
)

from nats3_dagster.defs.metadata import Metadata, plan_table, rate, replay_metadata
from nats3_dagster.defs.resources import start_spark
from nats3_dagster.defs.runlog import logged
from nats3_dagster.model import Replay, ReplayChunk, ReplaySpec
from nats3_dagster.replay import plan
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.status import chunks_by_hour, find, status
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

REPLAY_TAG = "nats3/replay"
Context = AssetExecutionContext | OpExecutionContext


@dataclass(frozen=True, slots=True)
class Replayed:
    """What the catalog says of a replay that has succeeded, by hour."""

    replay: Replay
    hours: dict[str, list[ReplayChunk]]

    def metadata(self, hour: str | None = None) -> Metadata:
        """Of one hour, or of all."""
        done = self.hours.get(hour, []) if hour else [c for chunks in self.hours.values() for c in chunks]
        spec = self.replay.spec
        targets = [t.incarnation.stream for t in self.replay.targets]
        return replay_metadata(done, self.replay.id, targets, f"{spec.read_subject} to {spec.write_subject}")


def dry_run(settings: Settings, spec: ReplaySpec) -> Metadata:
    """The plan as metadata; nothing is published, created or recorded. Raises Nats3Error."""
    with Workspace(settings) as ws:
        return {"plan": MetadataValue.md(plan_table(plan.dry_run(ws, spec))), "dry_run": True}


def replay(context: Context, spark: Any, settings: Settings, spec: ReplaySpec) -> Replayed:
    """Publish the selection, or what this run's forerunners left of it. Raises Nats3Error."""
    from nats3_dagster.pipeline.replay_run import run_replay

    replay_id = replay_id_for(context.instance, context.run, spec)
    with Workspace(settings) as ws:
        known = find(ws, replay_id)
        if known is None:
            _, planned = begin(ws, spec, replay_id=replay_id, run_id=context.run.run_id)
            context.log.info(
                f"Replay {replay_id}: at most {planned.messages:,} messages in {len(planned.chunks)} chunks"
            )
    context.instance.add_run_tags(context.run.run_id, {REPLAY_TAG: replay_id})
    if known is not None and known.state == "succeeded":
        context.log.info(f"Replay {replay_id} had succeeded when its run ended: nothing is left to publish")
    else:
        if known is not None:
            context.log.info(f"Replay {replay_id} goes on: {known.chunks_done} of {known.chunks} chunks are done")
        session = start_spark(spark, settings)
        done = run_replay(
            session, settings, replay_id, run_id=context.run.run_id, on_progress=logged(context, f"Replay {replay_id}")
        )
        context.log.info(
            f"Replay {replay_id}: published {done.published:,} messages in {done.seconds:.1f} s "
            f"({rate(done.published, done.seconds)}), found {done.found:,} in the target, "
            f"{done.duplicates:,} refused as duplicates"
        )
    with Workspace(settings) as ws:
        return replayed(ws, status(ws, replay_id).replay)


def replay_id_for(instance: DagsterInstance, run: DagsterRun, spec: ReplaySpec) -> str:
    """Sixteen hex digits for this spec and the run that began the replay.

    A run that failed, crashed or was cancelled is continued by the runs that re-execute it. A re-execution of one that
    succeeded begins anew: somebody asked for the messages once more."""
    begun_by = run.run_id
    parent = run.parent_run_id
    while parent:
        forerunner = instance.get_run_by_id(parent)
        if forerunner is not None and forerunner.status == DagsterRunStatus.SUCCESS:
            break
        begun_by = parent
        parent = forerunner.parent_run_id if forerunner is not None else None
    text = json.dumps([begun_by, asdict(spec)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def replayed(ws: Workspace, record: Replay) -> Replayed:
    """What the catalog has of a replay."""
    return Replayed(record, chunks_by_hour(ws, record))
