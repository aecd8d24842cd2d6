"""Decoding: frames of NATS' wire protocol as Arrow columns. Pure, no I/O.

Invariants: Python touches no single message, everything is done for thousands at once. Any garbage either parses or
raises FrameError. Ack subjects are those of nats-server: 9 tokens (v1), 11 or more with a domain and an account (v2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from nats3_dagster.jetstream.read.scan import FrameError, Frames
from nats3_dagster.model.messages import MESSAGES, subject_columns
from nats3_dagster.model.numbers import Int64s

_ACK = b"$JS.ACK."


@dataclass(frozen=True, slots=True)
class Ack:
    """The content of the ack subject of one message."""

    seq: int  # in the stream
    consumer_seq: int  # how many messages the consumer has sent, this one included
    pending: int  # messages that the consumer has still to send


def last_ack(frames: Frames, marker: bytes) -> Ack:
    """The Ack of the last frame. Raises FrameError."""
    tail = frames.buffer[int(frames.marks[-1]) + len(marker) : int(frames.eols[-1])].split(b" ", 1)[0].split(b".")
    if len(tail) != 7 and len(tail) < 9:
        raise FrameError("NATS sent an acknowledgement subject of a kind that we do not know")
    first = 3 if len(tail) == 7 else 5
    try:
        return Ack(int(tail[first]), int(tail[first + 1]), int(tail[first + 3]))
    except ValueError:
        raise FrameError("NATS sent an acknowledgement subject of a kind that we do not know") from None


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of a consumer."""

    batch: pa.RecordBatch  # of the schema MESSAGES
    consumer_seqs: Int64s  # the consumer's own number of each message


def messages(blocks: Sequence[Frames], marker: bytes) -> Messages:
    """The columns of the messages in `blocks`, one at least. `marker` is ` <sid> $JS.ACK.`. Raises FrameError."""
    try:
        return _messages(blocks, marker)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        raise FrameError(f"NATS sent a message that cannot be understood: {str(error)[:200]}") from error


def _messages(blocks: Sequence[Frames], marker: bytes) -> Messages:
    frames = _join(blocks)
    count = len(frames.starts)
    with_headers = frames.raw[frames.starts] == ord("H")
    # The buffer as one Arrow array of 8 values a frame: `MSG `, subject, marker, rest of the ack subject and sizes,
    # CRLF, headers, payload, CRLF. Every column is then a `take` of it.
    bounds = np.empty((count, 8), np.int32)
    bounds[:, 0] = frames.starts
    bounds[:, 1] = frames.starts + 4 + with_headers
    bounds[:, 2] = frames.marks
    bounds[:, 3] = frames.marks + len(marker)
    bounds[:, 4] = frames.eols
    bounds[:, 5] = frames.eols + 2
    bounds[:, 6] = frames.eols + 2
    bounds[:, 7] = frames.ends - 2
    pieces = _pieces(frames, bounds)
    at = np.arange(0, 8 * count, 8, dtype=np.int32)
    acks = _acks(pieces.take(pa.array(at + 3)), with_headers)
    bounds[:, 6] += acks.header_sizes
    if (bounds[:, 7] < bounds[:, 6]).any() or (bounds[:, 1] > bounds[:, 2]).any():
        raise FrameError("NATS sent a message whose sizes contradict each other")
    closing = bounds[:, 7]
    if (frames.raw[closing] != 13).any() or (frames.raw[closing + 1] != 10).any():
        raise FrameError("NATS sent a message longer than its size")
    pieces = _pieces(frames, bounds)
    batch = pa.RecordBatch.from_arrays(
        [
            acks.seqs,
            acks.times,
            *subject_columns(pieces.take(pa.array(at + 1))),
            pieces.take(pa.array(at + 5, mask=~with_headers)),
            pieces.take(pa.array(at + 6)),
        ],
        schema=MESSAGES,
    )
    return Messages(batch, acks.consumer_seqs.to_numpy())


@dataclass(frozen=True, slots=True)
class Deliveries:
    """The deliveries of messages of a consumer."""

    replies: pa.Array  # binary, the subject that acknowledges each message
    counts: Int64s  # how often each was delivered, this time included


def deliveries(blocks: Sequence[Frames], marker: bytes) -> Deliveries:
    """The deliveries of the messages in `blocks`, one at least, in their order. `marker` is ` <sid> $JS.ACK.`. Raises
    FrameError."""
    frames = _join(blocks)
    # Two values a frame: what ends with the marker's `$JS.ACK.`, and the rest of the control line from there on.
    bounds = np.stack([frames.starts, frames.marks + len(marker) - len(_ACK), frames.eols], axis=1).astype(np.int32)
    tails = _pieces(frames, bounds).take(pa.array(np.arange(1, 3 * len(bounds), 3, dtype=np.int32)))
    words = pc.split_pattern(tails, " ")
    replies = words.values.take(words.offsets[:-1])
    tokens = pc.split_pattern(replies, ".")
    offsets = tokens.offsets.to_numpy()
    numbers = np.diff(offsets)
    if not ((numbers == 9) | (numbers >= 11)).all():
        raise FrameError("NATS sent an acknowledgement subject of a kind that we do not know")
    at = offsets[:-1] + np.where(numbers == 9, 4, 6).astype(np.int32)
    try:
        return Deliveries(replies, _integers(tokens.values.take(pa.array(at))).to_numpy())
    except pa.ArrowInvalid as error:
        raise FrameError(f"NATS sent a message that cannot be understood: {str(error)[:200]}") from error


@dataclass(frozen=True, slots=True)
class _Joined:
    """Several Frames in one buffer, with positions as in Frames."""

    buffer: bytes
    raw: NDArray[np.uint8]  # the buffer as numbers
    starts: NDArray[np.int32]
    marks: NDArray[np.int32]
    eols: NDArray[np.int32]
    ends: NDArray[np.int32]  # where each frame ends


def _join(blocks: Sequence[Frames]) -> _Joined:
    """All blocks as one: a pass over their bytes is cheaper than 25 more calls into Arrow a block."""
    buffer = b"".join([memoryview(b.buffer)[b.start : b.end] for b in blocks])
    if len(buffer) >= 1 << 31:
        raise FrameError("NATS sent more than 2 GiB at once")
    columns: list[list[NDArray[np.int32]]] = [[], [], [], []]
    base = 0
    for block in blocks:
        ends = np.append(block.starts[1:], block.end)
        for column, values in zip(columns, (block.starts, block.marks, block.eols, ends), strict=True):
            column.append((values + (base - block.start)).astype(np.int32))
        base += block.size
    starts, marks, eols, ends = (np.concatenate(column) for column in columns)
    return _Joined(buffer, np.frombuffer(buffer, np.uint8), starts, marks, eols, ends)


def _pieces(frames: _Joined, bounds: NDArray[np.int32]) -> pa.Array:
    offsets = np.append(bounds.reshape(-1), np.int32(len(frames.buffer)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(frames.buffer)]
    return pa.Array.from_buffers(pa.binary(), bounds.size, buffers)


@dataclass(frozen=True, slots=True)
class _Acks:
    """The content of the control lines of some messages."""

    seqs: pa.Array  # int64, in the stream
    times: pa.Array  # int64, store times in nanoseconds
    consumer_seqs: pa.Array  # int64
    header_sizes: NDArray[np.int32]  # bytes of the header block, 0 for none


def _acks(tails: pa.Array, with_headers: NDArray[np.bool_]) -> _Acks:
    """Parses the rest of each control line: stream, consumer, deliveries, sequence, consumer sequence, time and
    pending, joined by dots (v2: a domain and an account before them, and maybe more after them); then the sizes."""
    split = pc.split_pattern(tails, ".")
    tokens, bounds = split.values, split.offsets.to_numpy()
    counts = np.diff(bounds)
    if not ((counts == 7) | (counts >= 9)).all():
        raise FrameError("NATS sent an acknowledgement subject of a kind that we do not know")
    first = bounds[:-1] + np.where(counts == 7, 3, 5).astype(np.int32)
    ends = pc.split_pattern(tokens.take(pa.array(bounds[1:] - 1)), " ")
    sizes, size_bounds = ends.values, ends.offsets.to_numpy()
    if (np.diff(size_bounds) != 2 + with_headers).any():
        raise FrameError("NATS sent a message without its sizes")
    header_sizes = np.zeros(len(counts), np.int32)
    rows = np.flatnonzero(with_headers)
    header_sizes[rows] = _integers(sizes.take(pa.array(size_bounds[1:][rows] - 2)), pa.int32()).to_numpy()
    if (header_sizes < 0).any():
        raise FrameError("NATS sent a message without its sizes")
    return _Acks(
        seqs=_integers(tokens.take(pa.array(first))),
        times=_integers(tokens.take(pa.array(first + 2))),
        consumer_seqs=_integers(tokens.take(pa.array(first + 1))),
        header_sizes=header_sizes,
    )


def _integers(texts: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    return texts.view(pa.string()).cast(kind or pa.int64())
