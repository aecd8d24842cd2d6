"""An archive in the catalog: what it covers, its hours and their seals, and numbers of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from nats3_dagster.model.archive_spec import ArchiveSpec
from nats3_dagster.model.chunk import Reason
from nats3_dagster.model.preset import ReplayPreset
from nats3_dagster.model.stream import Incarnation, SeqRange, Witness


@dataclass(frozen=True, slots=True)
class FormerFilter:
    """Subjects that an archive had before they were changed."""

    # When the incarnation was made that they count for.
    created_ns: int
    # Its last sequence that they apply to; the first one follows the previous filter's last.
    last_seq: int
    subjects: tuple[str, ...]


def filters_of(
    subjects: tuple[str, ...], former: tuple[FormerFilter, ...], incarnation: Incarnation, seqs: SeqRange
) -> Iterator[tuple[SeqRange, tuple[str, ...]]]:
    """Yields the parts of the sequences, ascending, each with its subject filters: those of `former`, then the present
    ones."""
    first = seqs.first
    for filter_ in former:
        if filter_.created_ns == incarnation.created_ns and first <= min(filter_.last_seq, seqs.last):
            part = SeqRange(first, min(filter_.last_seq, seqs.last))
            yield part, filter_.subjects
            first = part.last + 1
    if first <= seqs.last:
        yield SeqRange(first, seqs.last), subjects


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive in the catalog."""

    id: int
    spec: ArchiveSpec
    # Stops the sensors only; a capture by hand still runs.
    paused: bool
    created_at: datetime
    # How the HTTP API knows it, and the name that its client gave: the archive's own if that is a name of archives.
    job_id: UUID
    job_name: str
    # When its settings last changed, or its pause.
    updated_at: datetime
    # The oldest first; those of the spec count for all other sequences.
    former_filters: tuple[FormerFilter, ...] = ()
    # Its replays by name, ascending.
    presets: tuple[ReplayPreset, ...] = ()

    @property
    def name(self) -> str:
        return self.spec.name

    def filters(self, incarnation: Incarnation, seqs: SeqRange) -> Iterator[tuple[SeqRange, tuple[str, ...]]]:
        """The parts of the sequences, ascending, each with the subjects that the archive takes of it."""
        return filters_of(self.spec.subjects, self.former_filters, incarnation, seqs)


class ArchiveVersion(NamedTuple):
    """The version of an archive. Its numbers only go up; while they stand still, so does what the archive has."""

    id: int
    name: str
    stream: str
    # Changes of its chunks and gaps.
    revision: int
    # The id of its newest seal; 0 without one.
    seals: int
    # Replays that succeeded, deleted ones included, and once more those of them that were deleted.
    replays: int
    # The number of the newest change of its exports, or of their hours; 0 without one.
    exports: int


@dataclass(frozen=True, slots=True)
class ArchiveTotals:
    """An archive with the sums over its live chunks."""

    archive: Archive
    incarnations: int
    chunks: int
    messages: int
    # Subject, header block and payload of all messages; and the size of their objects.
    payload_bytes: int
    stored_bytes: int
    # The smallest and largest store time; None where there is no message.
    first_ns: int | None
    last_ns: int | None
    # Never later than the first message that is captured or still in the stream.
    begins_ns: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The contents of an archive for one incarnation."""

    incarnation: Incarnation
    # The first sequence that the archive accounts for.
    start: int
    # Everything from `start` to here is in a chunk or a gap; start - 1 where nothing is.
    frontier: int
    # The highest sequence that is in a chunk or a gap, beyond a hole or not.
    last: int
    chunks: int
    messages: int
    # Sequences that chunks cover and have no message of.
    absent: int
    payload_bytes: int
    stored_bytes: int
    # Store times of the messages; None where there is none.
    first_ns: int | None
    last_ns: int | None
    # Those of the absent sequences that were lost, by reason; a reason without any is left out.
    lost: Mapping[Reason, int] = field(default_factory=dict[Reason, int])
    # Set where the stream was removed, and may have had messages that no process saw: the last sequence it was seen
    # with.
    unknown_after: int | None = None


@dataclass(frozen=True, slots=True)
class CoverageNow:
    """The contents of an archive, compared with its stream's present state."""

    # One for each incarnation, oldest first.
    coverages: tuple[Coverage, ...]
    # The newest captured message of the stream's incarnation whose store time is known.
    witness: Witness | None
    # The sequences up to the stream's last that are in no chunk and no gap, ascending; None where the archive has not
    # begun the stream's incarnation.
    missing: tuple[SeqRange, ...] | None


@dataclass(frozen=True, slots=True)
class HourSummary:
    """The live chunks of one hour."""

    hour: str
    chunks: int
    messages: int
    # Sequences that chunks cover and have no message of.
    absent: int
    payload_bytes: int
    stored_bytes: int
    first_ns: int
    last_ns: int
    # The first and last sequence of each incarnation, oldest first.
    spans: tuple[tuple[Incarnation, SeqRange], ...]
    # The archive's revision when the hour last changed.
    revision: int
    # Those of the absent sequences that were lost, by reason; a reason without any is left out.
    lost: Mapping[Reason, int] = field(default_factory=dict[Reason, int])


class SealedHour(NamedTuple):
    """An hour that is as it was sealed."""

    hour: str
    # Id of its newest seal.
    id: int
    # Whether it is without a message.
    is_empty: bool


@dataclass(frozen=True, slots=True)
class Seal:
    """An hour that was sealed by a manifest in the store."""

    hour: str
    # Counts the seals of this hour, from 1.
    number: int
    # The hour's revision and number of chunks when it was sealed.
    revision: int
    chunks: int
    messages: int
    # Sequences that were lost or retired, and may belong to this hour.
    losses: int
    # Sequences that the manifest lists as gaps: the losses, and what was deleted or not selected.
    gaps: int
    # The version of what the hour holds (archive.status.contents). Another manifest of the same messages has the same.
    content: str
    # The manifest: where it is, its SHA-256 in hex, its size in bytes.
    bucket: str
    key: str
    sha256: str
    stored_bytes: int
    dagster_run_id: str | None = None
    # Both None until the seal is in the catalog.
    sealed_at: datetime | None = None
    id: int | None = None
    # Whether the hour still has the revision and chunks that were sealed.
    valid: bool = True


@dataclass(frozen=True, slots=True)
class CaptureEnd:
    """The end of the capture of an hour."""

    hour: str
    # What it added to the archive.
    messages: int = 0
    payload_bytes: int = 0
    # The kind of the error and what happened; None for one that completed.
    error: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """The number of something."""

    # The name of the archive. Of a sum that only grows it may be one that is deleted.
    archive: str
    # What is counted: a total (0100_totals.sql), or attempts, replays, hours, missing, completed (measures.sql).
    what: str
    label: str
    value: int
