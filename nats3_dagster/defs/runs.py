"""The run of a capture: an hour, and the stream's state; and the log of a run's progress."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, AssetObservation, OpExecutionContext

from nats3_dagster.archive import status as archive_status
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.metadata import Metadata, hour_metadata, rate, run_metadata, stream_metadata
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import OnProgress, Progress
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.commit import CaptureResult

# Seconds between two lines of progress: every line is a row in Dagster's storage.
PROGRESS_S = 10.0
Context = AssetExecutionContext | OpExecutionContext


def capture_hour(
    context: AssetExecutionContext, session: Any, settings: Settings, archive: str, hour: str, *, adopt: bool
) -> Metadata:
    """Make the hour complete; its metadata as the catalog has it now. Raises Nats3Error."""
    from nats3_dagster.pipeline.capture_run import run_capture

    result = run_capture(
        session,
        settings,
        archive,
        hour,
        run_id=context.run.run_id,
        adopt=adopt,
        on_progress=progress_log(context, f"{archive} {hour}"),
    )
    context.log.info(_summary(result))
    with Workspace(settings) as workspace:
        report = archive_status.hour(workspace, workspace.catalog.archives.get(archive), hour)
    return hour_metadata(report, settings) | run_metadata(result)


def log_failures(context: AssetExecutionContext, naming: Naming, what: str) -> Callable[[str, Nats3Error], None]:
    """Returns the function that logs an hour of `what` that failed, while the run goes on with the next one."""
    return lambda hour, error: context.log.error(f"{what} {hour} failed: {error.text_in(naming.words)}")


def observe_stream(context: AssetExecutionContext, naming: Naming, settings: Settings, archive: str) -> None:
    """Reports the stream's state, as the capture met it, on its asset: the UI plots the archive's lag."""
    with Workspace(settings) as workspace:
        lag = archive_status.stream_lag(workspace, workspace.catalog.archives.get(archive))
    if lag is not None:
        metadata = stream_metadata(lag.state) | {f"{archive}_behind": lag.behind}
        context.log_event(AssetObservation(naming.stream_key(lag.state.name), metadata=metadata))


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
        return f"{result.archive} {result.hour}: the stream has no message for this run"
    if not result.chunks:
        return f"{result.archive} {result.hour}: all {result.found:,} sequences were captured before"
    chunks = f"{len(result.chunks)} chunk{'s' if len(result.chunks) > 1 else ''}"
    return (
        f"{result.archive} {result.hour}: {result.messages:,} messages in {chunks}, {result.payload_bytes:,} bytes "
        f"stored in {result.stored_bytes:,}, {result.seconds:.1f} s ({rate(result.messages, result.seconds)})"
    )
