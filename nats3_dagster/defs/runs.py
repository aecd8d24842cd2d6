"""What a run of Spark does: it captures an hour or replays a selection, and says so in its log and in its metadata.

Invariant: the id of a replay follows from the run that began it. Every retry and re-execution finds the same replay,
whatever was lost in between, and publishes nothing twice.
"""

import hashlib
import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetExecutionContext,
    AssetObservation,
    DagsterInstance,
    DagsterRun,
    DagsterRunStatus,
    MetadataValue,
    OpExecutionContext,
)

from nats3_dagster.archive import status as archive_status
from nats3_dagster.defs.events import Replayed, replayed
from nats3_dagster.defs.keys import REPLAY_TAG, stream_key
from nats3_dagster.defs.metadata import Metadata, hour_metadata, plan_table, rate, run_metadata, stream_metadata
from nats3_dagster.defs.resources import start_spark
from nats3_dagster.model import OnProgress, Progress, ReplaySpec
from nats3_dagster.replay.status import find, status
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.capture import CaptureResult

# Seconds between two lines of progress: every line is a row in Dagster's storage.
PROGRESS_S = 10.0
Context = AssetExecutionContext | OpExecutionContext


def capture_hour(
    context: AssetExecutionContext, session: Any, settings: Settings, archive: str, hour: str, *, adopt: bool
) -> Metadata:
    """Make the hour complete; its metadata as the catalog has it now. Raises Nats3Error."""
    from nats3_dagster.pipeline.capture_run import run_capture

    result = run_capture(
        session, settings, archive, hour, run_id=context.run.run_id, adopt=adopt,
        on_progress=progress_log(context, f"{archive} {hour}"),
    )  # fmt: skip
    context.log.info(_summary(result))
    with Workspace(settings) as workspace:
        report = archive_status.hour(workspace, archive_status.find(workspace, archive), hour)
    return hour_metadata(report, settings) | run_metadata(result)


def observe_stream(context: AssetExecutionContext, settings: Settings, archive: str) -> None:
    """Report the stream's state, as the capture met it, on its asset: the UI plots how far the archive is behind."""
    with Workspace(settings) as workspace:
        lag = archive_status.stream_lag(workspace, archive_status.find(workspace, archive))
    if lag is not None:
        metadata = stream_metadata(lag.state) | {f"{archive}_behind": lag.behind}
        context.log_event(AssetObservation(stream_key(lag.state.name), metadata=metadata))


def dry_run(settings: Settings, spec: ReplaySpec) -> Metadata:
    """The plan as metadata; nothing is published, created or recorded. Raises Nats3Error."""
    from nats3_dagster.replay import plan

    with Workspace(settings) as workspace:
        return {"plan": MetadataValue.md(plan_table(plan.dry_run(workspace, spec))), "dry_run": True}


def replay(context: Context, spark: Any, settings: Settings, spec: ReplaySpec) -> Replayed:
    """Publish the selection, or the rest of it where this run continues another. Raises Nats3Error."""
    from nats3_dagster.pipeline.replay_run import run_replay
    from nats3_dagster.replay.begin import begin

    replay_id = replay_id_for(context.instance, context.run, spec)
    with Workspace(settings) as workspace:
        begun = find(workspace, replay_id)
        if begun is None:
            _, plan = begin(workspace, spec, replay_id=replay_id, run_id=context.run.run_id)
            context.log.info(f"Replay {replay_id}: at most {plan.messages:,} messages in {len(plan.chunks)} chunks")
    context.instance.add_run_tags(context.run.run_id, {REPLAY_TAG: replay_id})
    if begun is not None and begun.state == "succeeded":
        context.log.info(f"Replay {replay_id} had succeeded before this run: nothing is left to publish")
    else:
        if begun is not None:
            context.log.info(f"Replay {replay_id} goes on: {begun.chunks_done} of {begun.chunks} chunks are done")
        session = start_spark(spark, settings)
        result = run_replay(
            session, settings, replay_id, run_id=context.run.run_id,
            on_progress=progress_log(context, f"Replay {replay_id}"),
        )  # fmt: skip
        context.log.info(
            f"Replay {replay_id}: attempt {result.attempt} published {result.published:,} messages in "
            f"{result.seconds:.1f} s ({rate(result.published, result.seconds)}), found {result.found:,} in the target, "
            f"{result.duplicates:,} refused as duplicates, {result.expired:,} left out as "
            f"expired; all attempts: {result.replay.acknowledged:,} messages"
        )
    with Workspace(settings) as workspace:
        return replayed(workspace, status(workspace, replay_id).replay)


def replay_id_for(instance: DagsterInstance, run: DagsterRun, spec: ReplaySpec) -> str:
    """Sixteen hex digits for this spec and the run that began the replay.

    A run that failed, crashed or was cancelled is continued by the runs that re-execute it. A re-execution of one that
    succeeded begins anew: somebody asked for the messages once more."""
    begun_by = run.run_id
    parent = run.parent_run_id
    while parent:
        earlier = instance.get_run_by_id(parent)
        if earlier is not None and earlier.status == DagsterRunStatus.SUCCESS:
            break
        begun_by = parent
        parent = earlier.parent_run_id if earlier is not None else None
    text = json.dumps([begun_by, asdict(spec)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def progress_log(context: Context, what: str) -> OnProgress:
    """A callback that writes to the run's log every PROGRESS_S seconds. Called in a thread of the pipeline's."""
    began = last = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_S:
            last = now
            end = f"; {progress.note}" if progress.note else f", {progress.done / (now - began):,.0f}/s"
            context.log.info(f"{what}: {progress.done:,} of {progress.total:,} messages{end}")

    return report


def _summary(result: "CaptureResult") -> str:
    if not result.window:
        return f"{result.archive} {result.hour}: the stream has no message of this hour"
    if not result.chunks:
        return f"{result.archive} {result.hour}: all {result.found:,} sequences were captured before"
    chunks = f"{len(result.chunks)} chunk{'s' if len(result.chunks) > 1 else ''}"
    return (
        f"{result.archive} {result.hour}: {result.messages:,} messages in {chunks}, {result.payload_bytes:,} bytes "
        f"stored in {result.stored_bytes:,}, {result.seconds:.1f} s ({rate(result.messages, result.seconds)})"
    )
