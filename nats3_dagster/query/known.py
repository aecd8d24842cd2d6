"""Known: what the catalog says of a chunk's messages, so that a query reads no object for it.

Invariant: it is what the object would say, or None.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.chunks import SCHEMA
from nats3_dagster.model import Chunk, Selection, SeqRange

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


def knows_extremes(of: HourOfChunks, columns: Sequence[str]) -> bool:
    """True if the catalog has the smallest and the largest value of each of these columns in the chunks."""
    return not of.is_cut and _BOUNDED.issuperset(columns) and not ("seq" in columns and of.absent)


def extremes_of(hours: Iterable[HourOfChunks], columns: Sequence[str]) -> pa.RecordBatch:
    """Two rows of these columns, with the smallest and the largest value of each in these chunks, one at least. Two
    values of one row need not be of one message."""
    hours = tuple(hours)
    times = min(one.first_ns for one in hours), max(one.last_ns for one in hours)
    values = {
        "seq": (min(one.covers.first for one in hours), max(one.covers.last for one in hours)),
        "time": (times[0] // 1000, times[1] // 1000),
        "time_ns": times,
    }
    fields = [SCHEMA.field(name) for name in columns]
    arrays = [pa.array(values[field.name], pa.int64()).view(field.type) for field in fields]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _is_in_time(chunk: Chunk, selection: Selection) -> bool:
    """True if each message of the chunk is of a selected time."""
    times = selection.times
    return times is None or times[0] <= chunk.meta.first_ns <= chunk.meta.last_ns < times[1]
