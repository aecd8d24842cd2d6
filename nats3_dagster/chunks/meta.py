"""The catalog's row of a chunk, as the writer makes it and as it is made again from the object.

Invariant: both count with the same code, so a rebuild from the bucket gives the rows that a capture committed.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.chunks.footer import Footer
from nats3_dagster.chunks.naming import object_key
from nats3_dagster.hours import MINUTE_NS, hour_start
from nats3_dagster.model import MAX_SUBJECTS, ChunkMeta, SeqRange
from nats3_dagster.model.numbers import Int64s


def meta_of(
    footer: Footer,
    *,
    sha256: str,
    stored_bytes: int,
    deleted: tuple[SeqRange, ...] | None = None,
    subjects: Mapping[str, int] | None = None,
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
        subjects=subjects,
        minutes=None if minutes is None else tuple(minutes.tolist()),
        absent_reason=footer.absent_reason,
    )


def add_counts(counts: dict[str, int] | None, subjects: pa.ChunkedArray) -> dict[str, int] | None:
    """`counts` and the number of messages of each subject; None, for good, above MAX_SUBJECTS of them."""
    if counts is None:
        return None
    for pair in pc.value_counts(subjects).to_pylist():
        subject: str = pair["values"]
        counts[subject] = counts.get(subject, 0) + pair["counts"]
    return counts if len(counts) <= MAX_SUBJECTS else None


def by_minute(times_ns: Int64s, hour: str) -> Int64s:
    """How many of the times lie in each of the hour's 60 minutes. A clock that stepped leaves messages in an hour that
    do not belong there by their time (docs/decisions.md, 1): they count for the nearest minute."""
    minutes = np.clip((times_ns - hour_start(hour)) // MINUTE_NS, 0, 59)
    return np.bincount(minutes, minlength=60).astype(np.int64)


def ranges_between(covers: SeqRange, first: int, last: int, gaps: list[Int64s]) -> tuple[SeqRange, ...]:
    """The sequences of `covers` before `first`, in `gaps` (rows of first and last) and after `last`."""
    inside: list[list[int]] = np.concatenate(gaps).tolist() if gaps else []
    # Plain integers at the ends: `last + 1` may be the one that 64 bits do not hold.
    return tuple(SeqRange(a, b) for a, b in ([covers.first, first - 1], *inside, [last + 1, covers.last]) if a <= b)
