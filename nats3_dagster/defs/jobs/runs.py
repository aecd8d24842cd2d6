"""The run of a capture: its hours, and the stream's state; and the log of a run's progress."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetObservation,
    EventLogRecord,
    OpExecutionContext,
)

from nats3_dagster.archive import status as archive_status
from nats3_dagster.archive.captures.hour_run import HourRun, OnError
from nats3_dagster.defs.assets.events import captured_event
from nats3_dagster.defs.assets.metadata import hour_metadata, rate, run_metadata, stream_metadata
from nats3_dagster.defs.keys import Naming
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import OnProgress, Progress
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from nats3_dagster.archive.captures.commit import CaptureResult

# Seconds between two lines of progress: every line is a row in Dagster's storage.
PROGRESS_S = 10.0
# Seconds between two observations of a stream by the captures of an archive.
OBSERVE_S = 600.0
Context = AssetExecutionContext | OpExecutionContext


def capture_hours(
    context: AssetExecutionContext,
    session: Any,
    settings: Settings,
    naming: Naming,
    archive: str,
    run: HourRun,
    on_error: OnError,
    *,
    adopt: bool,
) -> Iterator[tuple[str, AssetMaterialization]]:
    """Make the hours of the run complete. Yields each that is, with its event as the catalog has it now; those that
    failed are noted in the run. Raises Nats3Error."""
    from nats3_dagster.pipeline.capture_run import run_captures

    jobs = run_captures(
        session,
        settings,
        archive,
        run,
        on_error,
        adopt=adopt,
        on_job=lambda hours: nullcontext(progress_log(context, f"{archive} {_named(hours)}")),
    )
    with Workspace(settings) as workspace:
        for done in jobs:
            if not done:
                continue
            context.log.info(_summary(done))
            found = workspace.catalog.archives.get(archive)
            total = archive_status.messages(workspace, found)
            for result in done:
                report = archive_status.hour(workspace, found, result.hour, total)
                metadata = hour_metadata(report, settings) | run_metadata(result)
                yield result.hour, captured_event(naming.chunks_key(archive), report, metadata)


def log_failures(context: AssetExecutionContext, naming: Naming, what: str) -> Callable[[str, Nats3Error], None]:
    """Returns the function that logs an hour of `what` that failed, while the run goes on with the next one."""
    return lambda hour, error: context.log.error(f"{what} {hour} failed: {error.text_in(naming.words)}")


def observe_stream(context: AssetExecutionContext, naming: Naming, settings: Settings, archive: str) -> None:
    """Reports the stream's state, as the capture met it, on its asset, every OBSERVE_S seconds at most: the UI plots
    the archive's lag."""
    with Workspace(settings) as workspace:
        key = naming.stream_key(workspace.catalog.archives.get(archive).spec.stream)
        newest = context.instance.fetch_observations(key, limit=1).records
        if newest and time.time() - newest[0].timestamp < OBSERVE_S and f"{archive}_behind" in _observed(newest[0]):
            return
        lag = archive_status.stream_lag(workspace, workspace.catalog.archives.get(archive))
    if lag is not None:
        metadata = stream_metadata(lag.state) | {f"{archive}_behind": lag.behind}
        context.log_event(AssetObservation(key, metadata=metadata))


def _observed(record: EventLogRecord) -> Mapping[str, object]:
    return record.asset_observation.metadata if record.asset_observation else {}


def progress_log(context: Context, what: str) -> OnProgress:
    """A callback that writes to the run's log every PROGRESS_S seconds. A thread of the pipeline calls it."""
    began = last = time.monotonic()

    def report(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= PROGRESS_S:
            last = now
            end = f"; {progress.note}" if progress.note else f", {progress.done / (now - began):,.0f}/s"
            context.log.info(f"{what}: {progress.done:,} of {progress.total:,} messages{end}")

    return report


def _summary(done: "Sequence[CaptureResult]") -> str:
    """Returns the results of a job in one line: each line is a row in Dagster's storage."""
    what = f"{done[0].archive} {_named([result.hour for result in done])}"
    chunks = [chunk for result in done for chunk in result.chunks]
    if not any(result.window for result in done):
        return f"{what}: the stream has no message for this run"
    if not chunks:
        return f"{what}: all {sum(result.found for result in done):,} sequences were captured before"
    messages, seconds = sum(result.messages for result in done), sum(result.seconds for result in done)
    return (
        f"{what}: {messages:,} messages in {len(chunks)} chunk{'s' if len(chunks) > 1 else ''}, "
        f"{sum(chunk.payload_bytes for chunk in chunks):,} bytes stored in "
        f"{sum(chunk.stored_bytes for chunk in chunks):,}, {seconds:.1f} s ({rate(messages, seconds)})"
    )


def _named(hours: Sequence[str]) -> str:
    return hours[0] if len(hours) == 1 else f"{hours[0]} to {hours[-1]} ({len(hours)} hours)"
