"""Known: what the catalog says of a chunk's messages, so that a query reads no object for it.

Invariant: it is what the object would say, or None.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

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


def extremes_of(chunk: Chunk, columns: Sequence[str], selection: Selection) -> pa.RecordBatch | None:
    """Two rows of these columns of a chunk, with the smallest and the largest value of each; None where the catalog
    does not know them of the selected messages. Two values of one row need not be of one message."""
    meta, seqs = chunk.meta, selection.sequences
    whole = not selection.subjects and _is_in_time(chunk, selection)
    whole = whole and (seqs is None or (seqs.first <= meta.covers.first and meta.covers.last <= seqs.last))
    if not whole or not _BOUNDED.issuperset(columns) or ("seq" in columns and meta.absent):
        return None
    values = {
        "seq": [meta.covers.first, meta.covers.last],
        "time": [meta.first_ns // 1000, meta.last_ns // 1000],
        "time_ns": [meta.first_ns, meta.last_ns],
    }
    fields = [SCHEMA.field(name) for name in columns]
    arrays = [pa.array(values[field.name], pa.int64()).view(field.type) for field in fields]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _is_in_time(chunk: Chunk, selection: Selection) -> bool:
    """True if each message of the chunk is of a selected time."""
    times = selection.times
    return times is None or times[0] <= chunk.meta.first_ns <= chunk.meta.last_ns < times[1]
