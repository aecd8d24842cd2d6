"""A capture driven by a Dagster run, and what is told of it.

The rule kept here: the catalog was committed before anything is said here, and what is said is read back from it.
"""

from typing import TYPE_CHECKING, Any

from dagster import AssetExecutionContext, AssetKey, AssetObservation

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.metadata import Metadata, hour_metadata, rate, run_metadata, stream_metadata
from nats3_dagster.defs.runlog import logged
from nats3_dagster.model import Archive
from nats3_dagster.objects import StoreOptions
from nats3_dagster.settings import Settings

if TYPE_CHECKING:
    from nats3_dagster.archive.capture import CaptureResult


def capture_hour(
    context: AssetExecutionContext, session: Any, settings: Settings, archive: str, hour: str, *, adopt: bool
) -> Metadata:
    """Make the hour complete; its metadata as the catalog has it now. Raises Nats3Error."""
    from nats3_dagster.pipeline.capture_run import run_capture

    result = run_capture(
        session, settings, archive, hour, run_id=context.run.run_id, adopt=adopt,
        on_progress=logged(context, f"{archive} {hour}"),
    )  # fmt: skip
    context.log.info(_told(result))
    with Catalog.connect(settings.postgres) as catalog:
        return describe_hour(catalog, settings.store, catalog.archives.get(archive), hour) | run_metadata(result)


def describe_hour(catalog: Catalog, store: StoreOptions, archive: Archive, hour: str) -> Metadata:
    """An hour of the archive as it is in the catalog."""
    windows = catalog.hours.windows(archive, hour)
    gaps = [
        (w.seqs, g) for w in windows for g in catalog.gaps.select(archive, incarnation=w.incarnation, within=w.seqs)
    ]
    return hour_metadata(archive, hour, catalog.chunks.select(archive, hours=[hour]), gaps, store)


def observe_stream(context: AssetExecutionContext, settings: Settings, archive: str) -> None:
    """Report the stream's state, as the capture met it, on its asset: in the UI its lag is plotted."""
    with Catalog.connect(settings.postgres) as catalog:
        found = catalog.archives.get(archive)
        coverage = catalog.coverage.all(found)[-1]
        state = catalog.coverage.last_state(coverage.incarnation)
    if state is not None:
        lag = {f"{archive}_behind": max(0, state.last_seq - coverage.frontier)}
        key = AssetKey(["jetstream", found.spec.stream])
        context.log_event(AssetObservation(key, metadata=stream_metadata(state) | lag))


def _told(result: "CaptureResult") -> str:
    if not result.window:
        return f"{result.archive} {result.hour}: the stream has no message of this hour"
    if not result.chunks:
        return f"{result.archive} {result.hour}: all {result.found:,} sequences were captured before"
    chunks = f"{len(result.chunks)} chunk{'s' if len(result.chunks) > 1 else ''}"
    return (
        f"{result.archive} {result.hour}: {result.messages:,} messages in {chunks}, {result.payload_bytes:,} bytes "
        f"stored in {result.stored_bytes:,}, {result.seconds:.1f} s ({rate(result.messages, result.seconds)})"
    )
