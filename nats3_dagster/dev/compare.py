"""Compare two streams message by message, at the end of the demo: order, subject, header block and payload."""

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
    """How two streams differ."""

    # Messages in each of them.
    source: int
    target: int
    # Positions at which they differ, and messages that only one of them has.
    mismatches: int


def compare(options: NatsOptions, source: str, target: str, transform: Transform) -> Comparison:
    """Compare the messages of `source`, their subjects mapped, with those that a replay published into `target`."""
    sent, received = _read(options, source), _read(options, target)
    subjects = sent.column("subject").combine_chunks().dictionary_encode()
    mapped = pa.array([transform(s) for s in subjects.dictionary.to_pylist()], pa.string()).take(subjects.indices)
    common = min(sent.num_rows, received.num_rows)
    equal = np.ones(common, bool)
    pairs = [
        (mapped, received.column("subject").combine_chunks()),
        (sent.column("headers").combine_chunks(), original_headers(received.column("headers").combine_chunks())),
        (sent.column("data").combine_chunks(), received.column("data").combine_chunks()),
    ]
    for one, other in pairs:
        # A missing header block is null, and null == null is null.
        same = pc.equal(pc.fill_null(one.slice(0, common), ""), pc.fill_null(other.slice(0, common), ""))
        equal &= same.to_numpy(zero_copy_only=False)
    mismatches = int((~equal).sum()) + abs(sent.num_rows - received.num_rows)
    return Comparison(sent.num_rows, received.num_rows, mismatches)


def _read(options: NatsOptions, stream: str) -> pa.Table:
    """All messages of the stream."""
    with Link(options) as link:
        state = stream_state(link, stream)
    batches = list(read_batches(options, ReadSpec(state.incarnation, SeqRange(state.first_seq, state.last_seq))))
    table = pa.Table.from_batches(batches)
    at = table.schema.get_field_index("subject")
    return table.set_column(at, "subject", table.column("subject").cast(pa.string()))
