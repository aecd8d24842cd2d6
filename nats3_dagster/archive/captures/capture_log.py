"""Noting: how each capture ended, kept in the catalog for those who watch.

Invariant: a capture succeeds or fails by itself; a note that cannot be written changes nothing of that.
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

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


class CaptureLog:
    """Notes how the captures of an archive end that one job began, and how long they took."""

    def __init__(self, workspace: Workspace, archive: Archive) -> None:
        self._workspace, self._archive = workspace, archive
        # When the job began, by this process' clock and by the catalog's.
        self._began, self._started_at = time.monotonic(), datetime.now(UTC)

    def start(self) -> None:
        """Note that a job begins. Raises CatalogError."""
        self._began = time.monotonic()
        self._started_at = self._workspace.catalog.now()

    def completed(self, results: Sequence[CaptureResult]) -> tuple[CaptureResult, ...]:
        """Note these captures; returns them with the job's seconds, shared by the sequences that were read for each."""
        record_outcomes(self._workspace, self._archive, self._started_at, results)
        seconds = time.monotonic() - self._began
        sizes = [result.window.size - result.found if result.window else 0 for result in results]
        total = sum(sizes)
        return tuple(
            replace(result, seconds=seconds * size / total if total else seconds / len(results))
            for result, size in zip(results, sizes, strict=True)
        )

    def failed(self, errors: Mapping[str, Exception]) -> None:
        """Note the hours that failed, each with its error."""
        record_outcomes(self._workspace, self._archive, self._started_at, errors=errors)


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
