"""Messages on their way: the Arrow schema between the socket, a chunk and a publisher, and a column as numbers."""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# Sequences, nanoseconds or sizes of many messages.
Int64s = NDArray[np.int64]

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
