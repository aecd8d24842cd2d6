"""An archive: what was asked for, what it covers, its hours and their seals."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.chunk import Reason
from nats3_dagster.model.export import ExportSpec
from nats3_dagster.model.stream import Incarnation, SeqRange, Witness, check_stream_name

Mode = Literal["stream", "consumer"]

# Bytes. S3 takes keys of 1,024, and what a key has beside the prefix and the archive's name are 121.
_MAX_PREFIX, MAX_NAME = 512, 200
# Of a part, where the store is a folder.
_MAX_PART = 255


@dataclass(frozen=True, slots=True)
class ArchiveSpec:
    """An archive as asked for (`nats3 store create`). Raises OperatorError if a field is invalid."""

    # Letters, digits and _: a part of asset keys and object keys.
    name: str
    stream: str
    bucket: str
    # Of the object keys: parts joined by slashes, or empty.
    prefix: str = ""
    # NATS filters; empty for every subject of the stream.
    subjects: tuple[str, ...] = ()
    # `stream` reads sequences and takes nothing from anybody; `consumer` takes messages through a durable and
    # acknowledges them when they are in a chunk.
    mode: Mode = "stream"
    # The durable of the mode `consumer`; None in a new archive that is to make its own.
    durable: str | None = None
    # A capture is due when so many messages, or bytes of them, wait, or when the oldest has waited so many seconds.
    max_messages: int = 1_000_000
    max_bytes: int = 64 << 20
    max_age_s: int = 60
    # 1 (fast) to 22 (small).
    zstd_level: int = 3

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]+", self.name):
            raise OperatorError(f"{self.name!r} is not an archive name", "Use letters, digits and _ only", field="name")
        if len(self.name) > MAX_NAME:
            raise OperatorError(
                f"{self.name[:30]!r}... is not an archive name", f"Use at most {MAX_NAME} characters", field="name"
            )
        check_stream_name(self.stream)
        if self.mode not in get_args(Mode):
            raise OperatorError(f"There is no mode {self.mode!r}", f"Use {' or '.join(get_args(Mode))}", field="mode")
        if self.durable is not None:
            if self.mode != "consumer":
                raise OperatorError(
                    f"An archive of the mode {self.mode} has no consumer", "Use the mode consumer", field="durable"
                )
            if not re.fullmatch(r"[^\s.*>/\\]{1,255}", self.durable):
                raise OperatorError(
                    f"{self.durable!r} is not a consumer name", "It has no white space nor . * > / \\", field="durable"
                )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]", self.bucket):
            raise OperatorError(
                f"{self.bucket!r} is not a bucket name", "Use 3 to 63 letters, digits, dots and hyphens", field="bucket"
            )
        _check_prefix(self.prefix)
        for name in ("max_messages", "max_bytes", "max_age_s"):
            if getattr(self, name) <= 0:
                raise OperatorError(f"{name} is {getattr(self, name)}", "A threshold must be above 0", field=name)
        if not 1 <= self.zstd_level <= 22:
            raise OperatorError(f"zstd level {self.zstd_level} does not exist", "Use 1 to 22", field="zstd_level")


    @property
    def own_durable(self) -> str:
        """The name of the durable that the archive makes for itself."""
        return f"nats3-{self.name}"

    @property
    def owns_durable(self) -> bool:
        """Whether the archive made its durable, and so deletes it."""
        return self.durable == self.own_durable


def _check_prefix(prefix: str) -> None:
    """Raises OperatorError if no object can be put under the prefix, or none be found there again."""
    parts = prefix.split("/") if prefix else []
    hint = "Write it like team/logs"
    if "" in parts:
        raise OperatorError(f"The prefix {prefix!r} has an empty part", hint, field="prefix")
    if {".", ".."} & set(parts):
        raise OperatorError(f"The parts . and .. cannot be in the prefix {prefix!r}", hint, field="prefix")
    if re.search("[\0-\x1f\x7f-\x9f\ud800-\udfff]", prefix):
        raise OperatorError(f"The prefix {prefix!r} has a character that no key may have", hint, field="prefix")
    if any(part.startswith(("archive=", "date=", "hour=")) for part in parts):
        raise OperatorError(
            f"The prefix {prefix!r} has a part archive=, date= or hour=",
            "Keys go on with these parts after it, by which engines find partitions; choose another word",
            field="prefix",
        )
    if len(prefix.encode()) > _MAX_PREFIX or any(len(part.encode()) > _MAX_PART for part in parts):
        raise OperatorError(
            f"The prefix {prefix[:30]!r}... is too long: {len(prefix.encode())} bytes",
            f"Use at most {_MAX_PREFIX} bytes, and {_MAX_PART} between two slashes", field="prefix",
        )


@dataclass(frozen=True, slots=True)
class Declaration:
    """An archive as code has it."""

    # With the defaults of a new archive for what was not written.
    spec: ArchiveSpec
    # The fields of the spec that were written: only they are compared with the catalog.
    given: frozenset[str]
    # Whether a missing bucket is made with the archive.
    create_bucket: bool = False
    # What it exports.
    exports: tuple[ExportSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class FormerFilter:
    """Subjects that an archive had before they were changed."""

    # When the incarnation was made that they count for.
    created_ns: int
    # Its last sequence that they count for, from the one behind the filter before.
    last_seq: int
    subjects: tuple[str, ...]


def filters_of(
    subjects: tuple[str, ...], former: tuple[FormerFilter, ...], incarnation: Incarnation, seqs: SeqRange
) -> Iterator[tuple[SeqRange, tuple[str, ...]]]:
    """The parts of the sequences, ascending, each with the subjects that the archive takes of it: those of `former`,
    and behind them the present ones."""
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

    @property
    def name(self) -> str:
        return self.spec.name

    def filters(self, incarnation: Incarnation, seqs: SeqRange) -> Iterator[tuple[SeqRange, tuple[str, ...]]]:
        """The parts of the sequences, ascending, each with the subjects that the archive takes of it."""
        return filters_of(self.spec.subjects, self.former_filters, incarnation, seqs)


@dataclass(frozen=True, slots=True)
class ArchiveVersion:
    """How far an archive has changed. Its numbers only go up; while they stand still, so does what it has."""

    archive: Archive
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
    """What an archive has of one incarnation."""

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


@dataclass(frozen=True, slots=True)
class CoverageNow:
    """What an archive has, against its stream as it is now."""

    # One for each incarnation, oldest first.
    coverages: tuple[Coverage, ...]
    # The newest captured message of the stream's incarnation of which the store time is known.
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
