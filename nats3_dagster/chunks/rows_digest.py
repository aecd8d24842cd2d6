"""The digest of messages in their order, however they are cut into chunks, row groups and batches."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.model.messages import MESSAGES


class RowsDigest:
    """Two have the same value only for the same messages, with all columns of MESSAGES, in the same order."""

    def __init__(self) -> None:
        # Of each column: its numbers, or its lengths; and the bytes of texts and binaries.
        self._numbers = {name: hashlib.sha256() for name in MESSAGES.names}
        self._bytes = {name: hashlib.sha256() for name in MESSAGES.names}
        self.messages = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the messages of a MESSAGES batch."""
        self.messages += batch.num_rows
        for name in MESSAGES.names:
            column = batch.column(name)
            if pa.types.is_integer(column.type):
                self._numbers[name].update(column.to_numpy().tobytes())
                continue
            # A null has the length -1: it is not an empty value.
            lengths = pc.binary_length(column).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
            self._numbers[name].update(lengths.tobytes())
            self._bytes[name].update(_contiguous(column))

    def hexdigest(self) -> str:
        """SHA-256 in hex."""
        parts = [own[name].digest() for name in MESSAGES.names for own in (self._numbers, self._bytes)]
        return hashlib.sha256(b"".join(parts)).hexdigest()


def _contiguous(column: pa.Array) -> bytes | pa.Buffer:
    """The bytes of all values, one after another. A null has none, also where the array has bytes in its place."""
    if column.null_count:
        column = column.drop_null()
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    ends = np.frombuffer(offsets, np.int32)
    first, last = int(ends[column.offset]), int(ends[column.offset + len(column)])
    return data.slice(first, last - first)
