"""Entries of a stream's backup in the server's format `NATSARC1` (ADR-63), in the order that a server reads them.

An entry is a file, which has a name, or a message, which has its subject there: lengths and times as varints, then
name, header block and payload. All are compressed as one S2 stream: framed snappy is a part of that format.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nats3_dagster.model.consumer import ConsumerPosition
from nats3_dagster.model.messages import exact_subjects

# Numbers without sign, and the bytes of their varints.
Numbers = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
_MAGIC: Final = b"NATSARC1"
# A frame of padding, and the bytes of its length, which follows.
_PADDING: Final = b"\xfe"
_LENGTH_BYTES = 3
# Bits of a varint's byte that hold the number; the eighth says that another byte follows.
_BITS: Final = 7
# Where a varint of one byte more begins: 2**7, 2**14 ... 2**63.
_STEPS: Final = np.uint64(1) << np.arange(_BITS, 64, _BITS, dtype=np.uint64)


def compressed(raw: bytes | memoryview) -> bytes:
    """Returns the bytes as a part of the S2 stream. Parts may be put together."""
    return bytes(cramjam.snappy.compress(raw))


def padded(part: bytes, size: int) -> bytes:
    """Returns a compressed part and a frame that readers skip, `size` bytes together."""
    left = size - len(part) - len(_PADDING) - _LENGTH_BYTES
    return part + _PADDING + left.to_bytes(_LENGTH_BYTES, "little") + bytes(left)


def head(state: Mapping[str, Any]) -> bytes:
    """Returns the beginning of a backup: the state of the stream that it describes."""
    return _MAGIC + entry(b"state.json", 0, 0, b"", json.dumps(state).encode())


def consumer_entry(position: ConsumerPosition, config: Mapping[str, Any], time_ns: int) -> bytes:
    """Returns the entry of a consumer, which stands before the messages."""
    pending = {str(seq): {"Sequence": number, "Timestamp": at} for seq, (number, at) in position.pending.items()}
    redelivered = {str(seq): times for seq, times in position.redelivered.items()}
    state = {
        "delivered": {"consumer_seq": position.delivered.consumer, "stream_seq": position.delivered.stream},
        "ack_floor": {"consumer_seq": position.ack_floor.consumer, "stream_seq": position.ack_floor.stream},
        "pending": pending,
        "redelivered": redelivered,
    }
    body = json.dumps({"config": config, "state": state}).encode()
    return entry(f"consumers/{position.name}".encode(), time_ns, 0, b"", body)


def end() -> bytes:
    """Returns the end of a backup: without it a server takes the backup for one that was cut."""
    return entry(b"", 0, 0, b"", b"")


def entry(name: bytes, time_ns: int, seq: int, headers: bytes, body: bytes) -> bytes:
    """Returns one entry: a file, or a message, whose name is its subject."""
    numbers = np.array([len(name), _zigzag(np.int64(time_ns)), seq, len(headers), len(body)], np.uint64)
    matrix, sizes = _varints(numbers)
    return matrix[np.arange(matrix.shape[1]) < sizes[:, None]].tobytes() + name + headers + body


def message_entries(batch: pa.RecordBatch) -> memoryview:
    """Returns the entries of a batch of MESSAGES, one after another. No Python runs for a single message."""
    names = exact_subjects(batch).dictionary_decode().cast(pa.binary())
    headers, data = batch.column("headers").fill_null(b""), batch.column("data")
    numbers = (
        _lengths(names),
        _zigzag(batch.column("time_ns").to_numpy()),
        batch.column("seq").to_numpy().astype(np.uint64),
        _lengths(headers),
        _lengths(data),
    )
    whole = pc.binary_join_element_wise(_joined(numbers), names, headers, data, pa.scalar(b"", pa.binary()))
    _, offsets, values = whole.buffers()
    bounds = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + len(whole) + 1]
    return memoryview(values)[int(bounds[0]) : int(bounds[-1])]


def _lengths(values: pa.Array) -> Numbers:
    return pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.uint64)


def _zigzag(times: Any) -> Any:
    """Returns the numbers without sign, small ones for small times of either sign."""
    return ((times << 1) ^ (times >> 63)).astype(np.uint64)


def _joined(numbers: Sequence[Numbers]) -> pa.Array:
    """Returns the varints of each row, one after another, as one binary value."""
    parts = [_varints(values) for values in numbers]
    matrix = np.concatenate([part for part, _ in parts], axis=1)
    masks: list[NDArray[np.bool_]] = [np.arange(part.shape[1]) < sizes[:, None] for part, sizes in parts]
    taken = np.concatenate(masks, axis=1)
    offsets = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(taken.sum(axis=1), out=offsets[1:])
    return pa.Array.from_buffers(
        pa.binary(), len(matrix), [None, pa.py_buffer(offsets), pa.py_buffer(matrix[taken].tobytes())]
    )


def _varints(values: Numbers) -> tuple[Bytes, NDArray[np.int64]]:
    """Returns the varint of each number as a row of bytes, and how many of them count."""
    sizes = np.asarray(np.searchsorted(_STEPS, values, side="right"), np.int64) + 1
    width = int(sizes.max())
    at = np.arange(width, dtype=np.uint64) * np.uint64(_BITS)
    matrix = ((values[:, None] >> at) & np.uint64(0x7F)).astype(np.uint8)
    matrix |= np.where(np.arange(width) < sizes[:, None] - 1, np.uint8(0x80), np.uint8(0))
    return matrix, sizes
