"""Known: what the catalog says of a chunk's messages, so that a query reads no object for it.

Invariant: it is what the object would say, or None.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from nats3_dagster.chunks import SCHEMA
from nats3_dagster.model import Chunk, ChunkMeta, Selection, SeqRange

_SEQ: Final = pa.schema([SCHEMA.field("seq")])
# The columns whose smallest and largest value the catalog has of a chunk, `seq` only where no sequence is absent.
_BOUNDED: Final = {"seq", "time", "time_ns"}


def sequences_of(chunk: Chunk, columns: Sequence[str], selection: Selection) -> pa.RecordBatch | None:
    """The selected sequences of a chunk without an absent one, if no other column is wanted. Those of subjects are not
    known."""
    covers, within = chunk.meta.covers, selection.sequences
    if list(columns) != ["seq"] or chunk.meta.absent or not _is_in_time(chunk, selection):
        return None
    seqs = covers if within is None else SeqRange(max(covers.first, within.first), min(covers.last, within.last))
    return pa.record_batch([np.arange(seqs.first, seqs.last + 1)], schema=_SEQ)


def extremes_of(
    chunks: Iterable[Chunk], columns: Sequence[str], selection: Selection
) -> tuple[pa.RecordBatch | None, list[Chunk]]:
    """Two rows of these columns, with the smallest and the largest value of each in the chunks whose values the catalog
    knows; None without such a chunk. And the other chunks. Two values of one row need not be of one message."""
    known, others = list[ChunkMeta](), list[Chunk]()
    is_bounded, with_seq = _BOUNDED.issuperset(columns), "seq" in columns
    for chunk in chunks:
        if is_bounded and not (with_seq and chunk.meta.absent) and _is_whole(chunk, selection):
            known.append(chunk.meta)
        else:
            others.append(chunk)
    if not known:
        return None, others
    times = min(meta.first_ns for meta in known), max(meta.last_ns for meta in known)
    values = {
        "seq": (min(meta.covers.first for meta in known), max(meta.covers.last for meta in known)),
        "time": (times[0] // 1000, times[1] // 1000),
        "time_ns": times,
    }
    fields = [SCHEMA.field(name) for name in columns]
    arrays = [pa.array(values[field.name], pa.int64()).view(field.type) for field in fields]
    return pa.record_batch(arrays, schema=pa.schema(fields)), others


def _is_whole(chunk: Chunk, selection: Selection) -> bool:
    """True if every message of the chunk is selected."""
    covers, within = chunk.meta.covers, selection.sequences
    in_sequence = within is None or (within.first <= covers.first and covers.last <= within.last)
    return in_sequence and not selection.subjects and _is_in_time(chunk, selection)


def _is_in_time(chunk: Chunk, selection: Selection) -> bool:
    """True if each message of the chunk is of a selected time."""
    times = selection.times
    return times is None or times[0] <= chunk.meta.first_ns <= chunk.meta.last_ns < times[1]
