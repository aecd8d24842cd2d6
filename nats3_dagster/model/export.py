"""Exports in the catalog: what an archive exports, and which of its hours were."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from nats3_dagster.model.export_spec import ExportSpec

# due: sealed, and not exported as it is now. changed: exported, and not sealed as it is now. failed: due, and the
# newest attempt failed. retired: chunks of it were deleted after a replay, and the files do not have all of the hour.
HourState = Literal["done", "due", "failed", "changed", "retired"]


@dataclass(frozen=True, slots=True)
class Export:
    """An export that an archive declares."""

    id: int
    archive_id: int
    spec: ExportSpec
    # Counts the specs that it has had, from 1.
    version: int
    created_at: datetime
    # When its spec last changed.
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.spec.name


@dataclass(frozen=True, slots=True)
class ExportTotals:
    """The totals of an export over its hours."""

    # Hours that were exported, and those whose newest attempt failed.
    hours: int = 0
    failed: int = 0
    files: int = 0
    # Messages in the files, and in the files of undecoded messages.
    messages: int = 0
    undecoded: int = 0
    # Of the files.
    bytes: int = 0
    # The newest hour that was exported.
    last_hour: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportLag:
    """The lag of an export after its archive."""

    archive: str
    export: str
    # Hours that are due, and those whose newest attempt failed as well.
    due: int
    failed: int
    # Hours whose files do not have the messages of chunks that were deleted after a replay.
    retired: int
    # The newest failure after which its hour did not succeed; None where there is none.
    error: str | None
    failed_at: datetime | None
    # Messages in the files of undecoded messages.
    undecoded: int


@dataclass(frozen=True, slots=True)
class Made:
    """The input and the output of an hour's export."""

    # The hour's revision and number of chunks, and the version of the export's spec.
    revision: int
    chunks: int
    version: int
    files: int
    # Messages in the files, those that a decoder of the user dropped, and those that did not decode.
    messages: int
    dropped: int
    undecoded: int
    # Of the files.
    bytes: int
    # The version of the files: 16 hex digits that change with their paths and bytes alone.
    content: str
    # The URL of the object that lists the files.
    manifest: str
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Failed:
    """The newest attempt at an hour, which failed."""

    # As of captures: see archive.noting.
    kind: str
    error: str
    # Failures in a row.
    times: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ExportHour:
    """An hour that is sealed, or was exported."""

    hour: str
    # The hour's revision, chunks and messages as it is sealed; None where it has no seal, or changed since.
    sealed: tuple[int, int, int] | None
    # None where it never succeeded.
    made: Made | None
    # None where the newest attempt succeeded, or there was none.
    failed: Failed | None
    # The run of the newest attempt.
    dagster_run_id: str | None
    # The number of the change that its settings come from; 0 for none. It grows.
    change: int
    # Its messages that were deleted from the archive after a replay.
    retired_messages: int = 0
    # Whether its files were made of the hour with these messages, and nothing came into the hour since.
    holds_retired: bool = False

    @property
    def is_due(self) -> bool:
        """True if the hour is sealed, and its present seal was not exported. An hour with chunks that were deleted
        after a replay is never due: its files would lose their messages."""
        if self.sealed is None or self.retired_messages:
            return False
        return self.made is None or (self.made.revision, self.made.chunks) != self.sealed[:2]

    @property
    def state(self) -> HourState:
        if self.retired_messages:
            return "done" if self.holds_retired else "retired"
        if self.is_due:
            return "failed" if self.failed else "due"
        return "done" if self.sealed else "changed"
