"""Comparing two streams message by message: the check at the end of the demo.

The rule kept here: everything that a message is counts: subject, header block and payload byte for byte, and its place
in the order.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import SeqRange
from nats3_dagster.replay.headers import original_headers
from nats3_dagster.subjects import Transform


@dataclass(frozen=True, slots=True)
class Comparison:
    """`mismatches` counts positions at which the two streams differ, and the messages that only one of them has."""

    source: int
    target: int
    mismatches: int


def compare(options: NatsOptions, source: str, target: str, transform: Transform) -> Comparison:
    """Compare what `source` holds, its subjects mapped, with what a replay of it left in `target`."""
    ours, theirs = _read(options, source), _read(options, target)
    names = ours.column("subject").combine_chunks().dictionary_encode()
    mapped = pa.array([transform(s) for s in names.dictionary.to_pylist()], pa.string()).take(names.indices)
    both = min(ours.num_rows, theirs.num_rows)
    same = np.ones(both, bool)
    pairs = [
        (mapped, theirs.column("subject").combine_chunks()),
        (ours.column("headers").combine_chunks(), original_headers(theirs.column("headers").combine_chunks())),
        (ours.column("data").combine_chunks(), theirs.column("data").combine_chunks()),
    ]
    for one, other in pairs:
        # An absent header block and an absent one are the same; null compares to null as null.
        equal = pc.equal(pc.fill_null(one.slice(0, both), ""), pc.fill_null(other.slice(0, both), ""))
        same &= equal.to_numpy(zero_copy_only=False)
    return Comparison(ours.num_rows, theirs.num_rows, int((~same).sum()) + abs(ours.num_rows - theirs.num_rows))


def _read(options: NatsOptions, stream: str) -> pa.Table:
    with Link(options) as link:
        state = stream_state(link, stream)
    batches = list(read_batches(options, ReadSpec(state.incarnation, SeqRange(state.first_seq, state.last_seq))))
    table = pa.Table.from_batches(batches)
    return table.set_column(2, "subject", table.column("subject").cast(pa.string()))
