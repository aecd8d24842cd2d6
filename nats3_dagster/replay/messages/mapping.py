"""Outgoing messages: what an archived batch becomes when it is replayed. Pure, vectorised.

Invariant: header block and payload are those of the archived message but for what `replay_headers` adds and renames.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nats3_dagster.model import Incarnation
from nats3_dagster.model.messages import exact_subjects, subject_names
from nats3_dagster.replay.messages.headers import message_id, replay_headers
from nats3_dagster.subjects import Transform, encoded

# Which messages of a batch the targets hold, by their subjects (binary) and sequences, ascending.
AreStored = Callable[[pa.Array, NDArray[np.int64]], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """Arrays of like length, ready for a Publisher."""

    # Of the target, as on the wire.
    subjects: pa.Array
    # Blocks as on the wire; null for none.
    headers: pa.Array
    # Payloads.
    data: pa.Array
    # Store times of the archived messages, nanoseconds since 1970.
    times_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.subjects)

    def slice(self, part: slice) -> "Outgoing":
        at, count = part.start, part.stop - part.start
        return Outgoing(
            self.subjects.slice(at, count),
            self.headers.slice(at, count),
            self.data.slice(at, count),
            self.times_ns[part],
        )

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes of subject, header block and payload."""
        lengths = (pc.fill_null(pc.binary_length(a), 0) for a in (self.subjects, self.headers, self.data))
        return sum(length.to_numpy(zero_copy_only=False).astype(np.int64) for length in lengths)  # type: ignore[return-value]


class Mapper:
    """Maps archived batches of one replay. With the `share`-th of `shares` only subjects of that hash partition go
    through."""

    def __init__(
        self,
        transform: Transform,
        replay_id: str,
        *,
        with_ids: bool,
        share: int = 0,
        shares: int = 1,
        live: bool = False,
        marks: bool = True,
    ) -> None:
        self._transform, self._replay_id, self._with_ids = transform, replay_id, with_ids
        self._live, self._marks = live, marks
        self._share, self._shares = share, shares
        self._after: str | None = None  # see replay_headers

    def begin(self, *, after: str | None) -> None:
        """The following messages go out over a new connection; `after`: see replay_headers."""
        self._after = after

    def select(self, batch: pa.RecordBatch, are_stored: AreStored | None = None) -> tuple[pa.RecordBatch, int]:
        """The messages of the batch that this replay sends, less those that the targets hold already; and how many
        those were. Their column `subject` is binary: the new subjects as on the wire."""
        subjects = exact_subjects(batch)
        names = [self._name(s) for s in subject_names(subjects)]
        # A dictionary taken by its indices: each subject is mapped once, whatever the number of messages.
        mapped = pa.array(names, pa.binary()).take(subjects.indices)
        batch = batch.set_column(batch.schema.get_field_index("subject"), "subject", mapped)
        if any(name is None for name in names):
            batch = batch.filter(mapped.is_valid())
        if are_stored is None or not batch.num_rows:
            return batch, 0
        there = are_stored(batch.column("subject"), batch.column("seq").to_numpy())
        return batch.filter(pa.array(~there)), int(there.sum())

    def outgoing(self, batch: pa.RecordBatch, incarnation: Incarnation) -> Outgoing:
        """Yields the output of `select`, with the headers that a replay adds."""
        headers = self.headers(batch, incarnation)
        if self._after is not None:
            self._after = message_id(self._replay_id, incarnation, batch.column("seq")[-1].as_py())
        times_ns = batch.column("time_ns").to_numpy()
        return Outgoing(batch.column("subject"), headers, batch.column("data"), times_ns)

    def headers(self, batch: pa.RecordBatch, incarnation: Incarnation) -> pa.Array:
        """The header blocks of a batch, as they are replayed."""
        return replay_headers(
            batch.column("headers"),
            self._replay_id,
            incarnation,
            batch.column("seq"),
            batch.column("time_ns"),
            with_ids=self._with_ids,
            after=self._after,
            live=self._live,
            marks=self._marks,
        )

    def _name(self, subject: str) -> bytes | None:
        if self._shares > 1 and zlib.crc32(encoded(subject)) % self._shares != self._share:
            return None
        name = self._transform(subject)
        return None if name is None else encoded(name)
