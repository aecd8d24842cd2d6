"""Messages on their way: the Arrow schema between the socket, a chunk and a publisher."""

from typing import Final

import pyarrow as pa

# A chunk's columns (chunks.columns.SCHEMA) but `time`, which follows from `time_ns`.
MESSAGES: Final = pa.schema(
    [
        # Stream sequence.
        pa.field("seq", pa.int64(), nullable=False),
        # Store time, nanoseconds since 1970.
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        # The header block as on the wire; null for none.
        pa.field("headers", pa.binary(), nullable=True),
        # The payload.
        pa.field("data", pa.binary(), nullable=False),
    ]
)
