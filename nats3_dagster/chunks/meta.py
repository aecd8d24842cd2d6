"""The catalog's row of a chunk, as the writer makes it and as it is made again from the object.

Invariant: both count with the same code, so a rebuild from the bucket gives the rows that a capture committed.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.chunks.bloom import Hashes, bloom_of, hashes_of
from nats3_dagster.chunks.footer import DAMAGED, Footer
from nats3_dagster.chunks.group_subjects import Filters, filter_of
from nats3_dagster.chunks.naming import object_key
from nats3_dagster.errors import ChunkError
from nats3_dagster.hours import MINUTE_NS, hour_start
from nats3_dagster.model import MAX_SUBJECTS, ChunkMeta, SeqRange
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.subjects import decoded, encoded


class SubjectTally:
    """The subjects of a chunk while its row groups go by: counted up to MAX_SUBJECTS of them, and above it a bloom
    filter."""

    def __init__(self) -> None:
        self._counts: dict[str, int] | None = {}
        self._hashes: list[Hashes] = []

    def add(self, messages: pa.RecordBatch | pa.Table) -> bytes | None:
        """Add the subjects of a row group, by the columns `subject` and `subject_bytes`. Returns the filter of them;
        None if there are too many."""
        subjects, exact = messages.column("subject"), messages.column("subject_bytes")
        if exact.null_count < len(exact):
            subjects = pc.coalesce(exact, subjects.cast(pa.binary()))
        if self._counts is None:
            # Not the distinct ones only: Arrow takes as long to find them as all of them take to hash.
            hashes = hashes_of(subjects.cast(pa.binary()).to_pylist())
            self._hashes.append(hashes)
            return filter_of(hashes)
        pairs = pc.value_counts(subjects)
        names = pairs.field("values").to_pylist()
        if pa.types.is_binary(subjects.type):
            names = [*map(decoded, names)]
        for subject, count in zip(names, pairs.field("counts").to_pylist(), strict=True):
            self._counts[subject] = self._counts.get(subject, 0) + count
        if len(self._counts) > MAX_SUBJECTS:
            self._hashes.append(hashes_of(map(encoded, self._counts)))
            self._counts = None
        return filter_of(hashes_of(map(encoded, names)))

    def counts(self) -> dict[str, int] | None:
        """The number of messages of each subject, as `subjects.decoded` gives it; None above MAX_SUBJECTS of them."""
        return None if self._counts is None else dict(sorted(self._counts.items()))

    def bloom(self) -> bytes | None:
        """The filter of the subjects; None where they are counted."""
        return bloom_of(np.concatenate(self._hashes)) if self._counts is None else None


# What `RowCounts` reads of each message.
COUNTED = ("seq", "time_ns", "subject", "subject_bytes")


class RowCounts:
    """Counts what the catalog has of a chunk beside its footer, while its row groups go by in their order."""

    def __init__(self, footer: Footer) -> None:
        self._footer = footer
        self._subjects = SubjectTally()
        self._group_subjects: Filters = ()
        self._gaps: list[Int64s] = []
        self._last = footer.row_groups[0].first_seq - 1
        self._minutes = np.zeros(60, np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the messages of a row group, by the columns COUNTED."""
        numbers = np.concatenate([[self._last], batch.column("seq").to_numpy()])
        gap = np.diff(numbers) > 1
        self._gaps.append(np.stack([numbers[:-1][gap] + 1, numbers[1:][gap] - 1], axis=1))
        self._last = int(numbers[-1])
        self._group_subjects += (self._subjects.add(batch),)
        self._minutes += by_minute(batch.column("time_ns").to_numpy(), self._footer.hour)

    def meta(self, sha256: str, stored_bytes: int) -> ChunkMeta:
        """The catalog's row of the chunk, with nothing left out, after the last row group. Raises ChunkError if the
        footer's filters of subjects are not those of the row groups."""
        footer = self._footer
        if footer.group_subjects and footer.group_subjects != self._group_subjects:
            raise ChunkError("The chunk's filters of subjects are not those of its row groups", DAMAGED)
        deleted = ranges_between(footer.covers, footer.row_groups[0].first_seq, self._last, self._gaps)
        return meta_of(
            footer,
            sha256=sha256,
            stored_bytes=stored_bytes,
            deleted=None if footer.absent_reason == "unselected" else deleted,
            subjects=self._subjects,
            minutes=self._minutes,
        )


def meta_of(
    footer: Footer,
    *,
    sha256: str,
    stored_bytes: int,
    deleted: tuple[SeqRange, ...] | None = None,
    subjects: SubjectTally | None = None,
    minutes: Int64s | None = None,
) -> ChunkMeta:
    """The catalog's row of a chunk, from its footer and what a footer cannot know."""
    return ChunkMeta(
        archive=footer.archive,
        incarnation=footer.incarnation,
        hour=footer.hour,
        covers=footer.covers,
        messages=footer.messages,
        first_ns=footer.first_ns,
        last_ns=footer.last_ns,
        payload_bytes=footer.payload_bytes,
        largest_bytes=footer.largest_bytes,
        stored_bytes=stored_bytes,
        sha256=sha256,
        key=object_key(footer.prefix, footer.archive, footer.hour, footer.incarnation, footer.covers, sha256),
        bucket=footer.bucket,
        deleted=deleted,
        subjects=subjects and subjects.counts(),
        bloom=subjects and subjects.bloom(),
        minutes=None if minutes is None else tuple(minutes.tolist()),
        absent_reason=footer.absent_reason,
    )


def by_minute(times_ns: Int64s, hour: str) -> Int64s:
    """Returns the number of times that lie in each of the hour's 60 minutes. A clock that stepped leaves messages in an
    hour that do not belong there by their time (docs/decisions.md, 1): they count for the nearest minute."""
    minutes = np.clip((times_ns - hour_start(hour)) // MINUTE_NS, 0, 59)
    return np.bincount(minutes, minlength=60).astype(np.int64)


def ranges_between(covers: SeqRange, first: int, last: int, gaps: list[Int64s]) -> tuple[SeqRange, ...]:
    """The sequences of `covers` before `first`, in `gaps` (rows of first and last) and after `last`."""
    inside: list[list[int]] = np.concatenate(gaps).tolist() if gaps else []
    # Plain integers at the ends: `last + 1` may be the one that 64 bits do not hold.
    return tuple(SeqRange(a, b) for a, b in ([covers.first, first - 1], *inside, [last + 1, covers.last]) if a <= b)
