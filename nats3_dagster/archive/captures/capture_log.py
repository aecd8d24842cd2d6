"""Noting: how each capture ended, kept in the catalog for those who watch.

Invariant: a capture succeeds or fails by itself; a note that cannot be written changes nothing of that.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.errors import (
    CatalogError,
    CatalogUnreachable,
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
from nats3_dagster.model import Archive, CaptureEnd
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


def record_outcomes(
    workspace: Workspace,
    archive: Archive,
    started_at: datetime,
    results: Iterable[CaptureResult] = (),
    errors: Mapping[str, Exception] | None = None,
) -> None:
    """Notes how captures of hours ended that began together: completed, or failed with the kind of the error. One that
    was interrupted or killed leaves no note, nor does one whose end Postgres cannot take."""
    ends = [CaptureEnd(result.hour, result.messages, result.payload_bytes) for result in results]
    ends += [CaptureEnd(hour, error=_what(error)) for hour, error in (errors or {}).items()]
    try:
        workspace.catalog.measures.add_captures(archive, started_at, ends)
    except CatalogError as lost:
        # Where it is gone, the capture's own error says so.
        level = logging.INFO if isinstance(lost, CatalogUnreachable) else logging.WARNING
        log.log(level, "%s: how %d captures ended is not noted: %s", archive.name, len(ends), lost)


def _what(error: Exception) -> tuple[str, str]:
    """The kind of an error and what happened."""
    # The text of an unforeseen error may hold anything, a password included.
    return kind_of(error), error.what if isinstance(error, Nats3Error) else type(error).__name__
