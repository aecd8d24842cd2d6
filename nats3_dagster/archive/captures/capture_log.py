"""Noting: how each capture ended, kept in the catalog for those who watch.

Invariant: a capture succeeds or fails by itself; a note that cannot be written changes nothing of that.
"""

import logging
from collections.abc import Callable

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.errors import (
    CatalogError,
    Conflict,
    EngineError,
    Nats3Error,
    OperatorError,
    SourceError,
    StoreError,
    StreamChanged,
    UnknownConsumer,
    UnknownStream,
)
from nats3_dagster.hours import hour_bounds
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
# Why captures fail, the most special errors first: a stream, or its consumer, that is gone or another one; and whose
# fault it is. `defect` is an unforeseen error.
_KINDS: tuple[tuple[type[Nats3Error], str], ...] = (
    (StreamChanged, "stream"),
    (UnknownStream, "stream"),
    (UnknownConsumer, "stream"),
    (SourceError, "source"),
    (StoreError, "store"),
    (Conflict, "conflict"),
    (CatalogError, "catalog"),
    (EngineError, "engine"),
    (OperatorError, "operator"),
)
DEFECT = "defect"
KINDS = (*sorted({kind for _, kind in _KINDS}), DEFECT)


def kind_of(error: Exception) -> str:
    """One of KINDS."""
    return next((kind for of, kind in _KINDS if isinstance(error, of)), DEFECT)


def record_outcome(
    workspace: Workspace, archive: Archive, hour: str, run_id: str | None, perform: Callable[[], CaptureResult]
) -> CaptureResult:
    """Returns the result of `perform`, and notes how it ended: completed, or failed with the kind of its error. One
    that was interrupted or killed leaves no note, nor does one whose end Postgres cannot take.

    Raises OperatorError for a bad hour, which is not noted, and the exceptions of `perform`."""
    hour_bounds(hour)
    started_at = workspace.catalog.now()

    def note(error: tuple[str, str] | None = None, result: CaptureResult | None = None) -> None:
        try:
            workspace.catalog.measures.add_capture(
                archive,
                hour,
                started_at,
                messages=result.messages if result else 0,
                payload_bytes=result.payload_bytes if result else 0,
                error=error,
                run_id=run_id,
            )
        except CatalogError as lost:
            log.warning("%s %s: how the capture ended is not noted: %s", archive.name, hour, lost)

    try:
        result = perform()
    except Exception as error:
        # The text of an unforeseen error may hold anything, a password included.
        note((kind_of(error), error.what if isinstance(error, Nats3Error) else type(error).__name__))
        raise
    note(result=result)
    return result
