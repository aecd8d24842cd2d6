"""Writing a chunk: MESSAGES batches in, the bytes of one Parquet object and its ChunkMeta out.

Invariant: the same messages give the same bytes, however they were cut into batches, with the same versions of pyarrow
and its codecs. So a capture that is tried again asks for the key that it may already have written. Row groups follow
from the messages only, and no clock, host or run id goes into a file.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nats3_dagster.chunks.columns import (
    CHUNK_BYTES,
    CHUNK_MESSAGES,
    MOST_BYTES,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    SCHEMA,
    as_wire,
    body_sizes,
    fitting,
    payload_sizes,
    subject_sizes,
)
from nats3_dagster.chunks.footer import Footer, RowGroup, canonical_json
from nats3_dagster.chunks.group_subjects import Filters
from nats3_dagster.chunks.meta import SubjectTally, by_minute, meta_of, ranges_between
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import ChunkMeta, Incarnation, Reason, SeqRange
from nats3_dagster.model.numbers import Int64s

# Measured with 1M messages of 256 B of JSON, one core: 0.5 microseconds a message; zstd level 3 takes 0.3 of them,
# pages and levels the rest. Page checksums, page index and bloom filter together are below the noise.
_OPTIONS: Final[Mapping[str, Any]] = {
    "compression": "zstd",
    # Deltas of sequences and times are one or two bytes; payloads and header blocks are left to the compressor.
    "column_encoding": {
        "seq": "DELTA_BINARY_PACKED",
        "time": "DELTA_BINARY_PACKED",
        "time_ns": "DELTA_BINARY_PACKED",
        "subject_bytes": "PLAIN",
        "headers": "PLAIN",
        "data": "PLAIN",
    },
    "use_dictionary": ["subject"],
    # The smallest and largest payload say nothing, and would put payload bytes into the footer.
    "write_statistics": ["seq", "time", "time_ns", "subject", "subject_bytes"],
    "bloom_filter_options": {"subject": {"ndv": ROW_GROUP_ROWS, "fpp": 0.01}},
    "write_page_index": True,
    "write_page_checksum": True,
    "sorting_columns": [pq.SortingColumn(SCHEMA.get_field_index("seq"))],
    "data_page_size": 256 << 10,
    # Data pages of version 1: their checksum covers all of the page, and every engine reads them.
    "data_page_version": "1.0",
    # Everything needed is in the Parquet schema; Arrow's own copy of it would only add bytes.
    "store_schema": False,
}
# A subject is shorter than a line of NATS' protocol.
_SUBJECT_BYTES: Final = 64 << 10


class ChunkWriter:
    """Holds the compressed chunk so far and at most one row group of messages. Only one thread at a time may use it.

    Arrow compresses without Python's lock, so a thread that reads from the network goes on meanwhile."""

    def __init__(
        self,
        archive: str,
        incarnation: Incarnation,
        hour: str,
        bucket: str,
        prefix: str,
        zstd_level: int,
        stream_config: Mapping[str, Any],
        subjects: Sequence[str] = (),
    ) -> None:
        """`subjects`: the filters that the messages were selected by; empty for all subjects."""
        self._archive = archive
        self._filters = tuple(subjects)
        self._incarnation = incarnation
        self._hour = hour
        self._bucket = bucket
        self._prefix = prefix
        self._stream_config = canonical_json(stream_config)
        self._sink = pa.BufferOutputStream()
        self._parquet = pq.ParquetWriter(self._sink, SCHEMA, compression_level=zstd_level, **_OPTIONS)
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0
        self._pending_bytes = 0
        self._groups: list[RowGroup] = []
        self._group_subjects: Filters = ()
        self._gaps: list[Int64s] = []
        self._subjects = SubjectTally()
        self._minutes = np.zeros(60, np.int64)
        self._first_seq = 0
        self._last_seq = 0
        self.messages = 0
        self.payload_bytes = 0
        self.largest_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the messages of a MESSAGES batch; their sequences must ascend. Raises ChunkError."""
        if not batch.num_rows:
            return
        batch = as_wire(batch)
        self._note_sequences(batch.column("seq").to_numpy())
        bodies = body_sizes(batch)
        ends = np.cumsum(bodies + subject_sizes(batch))
        self.largest_bytes = max(self.largest_bytes, int(bodies.max()))
        if self.largest_bytes > MOST_BYTES - _SUBJECT_BYTES:
            raise ChunkError(
                f"A message of the sequences {batch.column('seq')[0]} to {batch.column('seq')[-1]} has "
                f"{self.largest_bytes:,} bytes, and a chunk takes {MOST_BYTES - _SUBJECT_BYTES:,} at most",
                "Delete it from the stream, or leave its subject out of the archive",
            )
        self.messages += batch.num_rows
        self.payload_bytes += int(ends[-1])
        start = 0
        while start < batch.num_rows:
            rows = min(fitting(ends, start, ROW_GROUP_BYTES - self._pending_bytes), ROW_GROUP_ROWS - self._pending_rows)
            rows = max(rows, 0 if self._pending else 1)
            if rows:
                self._pending.append(batch.slice(start, rows))
                self._pending_rows += rows
                self._pending_bytes += int(ends[start + rows - 1] - (ends[start - 1] if start else 0))
                start += rows
            if start < batch.num_rows:
                self._write_row_group()

    def room(self, batch: pa.RecordBatch, *, max_bytes: int = CHUNK_BYTES, max_messages: int = CHUNK_MESSAGES) -> int:
        """Returns the number of messages of a MESSAGES batch, from its first on, that this chunk still takes; 0 if it
        is full.

        An empty chunk takes one message of any size. The answer does not depend on how the stream was cut into
        batches, so a capture that is tried again rolls at the same message."""
        ends = np.cumsum(payload_sizes(as_wire(batch)))
        rows = min(fitting(ends, 0, max_bytes - self.payload_bytes), max_messages - self.messages)
        return max(rows, 0) if self.messages else min(max(rows, 1), batch.num_rows)

    def finish(self, covers: SeqRange, absent_reason: Reason) -> tuple[pa.Buffer, ChunkMeta]:
        """The whole object, and the catalog's row of it. The writer cannot be used afterwards.

        `absent_reason`: why sequences within `covers` are not here, if any are; which ones is listed unless it is
        `unselected`. Raises ChunkError for a chunk without messages or with one out of `covers`."""
        if not self.messages:
            raise ChunkError(f"No message to write for the sequences {covers}", "A chunk must hold one at least")
        if self._first_seq < covers.first or self._last_seq > covers.last:
            raise ChunkError(
                f"The messages {self._first_seq}-{self._last_seq} do not lie in the sequences {covers}",
                "Nothing was written; plan the capture again",
            )
        self._write_row_group()
        reason = absent_reason if self.messages < covers.size else None
        footer = Footer(
            archive=self._archive,
            bucket=self._bucket,
            prefix=self._prefix,
            incarnation=self._incarnation,
            hour=self._hour,
            covers=covers,
            absent_reason=reason,
            payload_bytes=self.payload_bytes,
            largest_bytes=self.largest_bytes,
            stream_config=self._stream_config,
            row_groups=tuple(self._groups),
            subjects=self._filters,
            # Of one row group the catalog knows the subjects.
            group_subjects=self._group_subjects if len(self._groups) > 1 and any(self._group_subjects) else (),
        )
        self._parquet.add_key_value_metadata(footer.metadata())
        self._parquet.close()
        data = self._sink.getvalue()
        sha256 = hashlib.sha256(data).hexdigest()
        return data, meta_of(
            footer,
            sha256=sha256,
            stored_bytes=data.size,
            deleted=None if reason == "unselected" else self._deleted(covers),
            subjects=self._subjects,
            minutes=self._minutes,
        )

    def _note_sequences(self, seqs: Int64s) -> None:
        before = np.empty_like(seqs)
        before[1:] = seqs[:-1]
        before[0] = self._last_seq if self.messages else seqs[0] - 1
        steps = seqs - before
        if steps.min() < 1:
            at = int(np.argmin(steps))
            raise ChunkError(
                f"Message {seqs[at]} came after {before[at]}, and sequences must ascend",
                "The stream was read twice or out of order; run the capture again",
            )
        if not self.messages:
            self._first_seq = int(seqs[0])
        self._last_seq = int(seqs[-1])
        gap = steps > 1
        if gap.any():
            self._gaps.append(np.stack([before[gap] + 1, seqs[gap] - 1], axis=1))

    def _write_row_group(self) -> None:
        """Write what is pending. Contiguous arrays, because page bounds follow the pieces of a chunked column."""
        table = pa.Table.from_batches(self._pending).combine_chunks()
        _refuse_bad_text(table)
        seqs, times = (table.column(name).to_numpy() for name in ("seq", "time_ns"))
        micros = pa.array(times // 1000).view(SCHEMA.field("time").type)
        columns = [*table.columns[:1], micros, *table.columns[1:]]
        self._parquet.write_table(pa.Table.from_arrays(columns, schema=SCHEMA), row_group_size=ROW_GROUP_ROWS)
        self._groups.append(RowGroup(len(seqs), int(seqs[0]), int(seqs[-1]), int(times.min()), int(times.max())))
        self._group_subjects += (self._subjects.add(table),)
        self._minutes += by_minute(times, self._hour)
        self._pending.clear()
        self._pending_rows = self._pending_bytes = 0

    def _deleted(self, covers: SeqRange) -> tuple[SeqRange, ...]:
        return ranges_between(covers, self._first_seq, self._last_seq, self._gaps)


def _refuse_bad_text(table: pa.Table) -> None:
    """Raises ChunkError for text that is not UTF-8: who made the batch should have used `subject_columns`."""
    try:
        table.column("subject").validate(full=True)
    except pa.ArrowInvalid as error:
        raise ChunkError(f"A subject is not UTF-8: {error}", "This is a defect: report it") from error
