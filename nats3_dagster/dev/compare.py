"""Compare two streams message by message, at the end of the demo: order, subject, header block and payload."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import SeqRange
from nats3_dagster.model.messages import MESSAGES, exact_subjects, subject_names
from nats3_dagster.replay.messages.headers import original_headers
from nats3_dagster.subjects import Transform, encoded


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences of two streams."""

    # Messages in each of them.
    source: int
    target: int
    # Positions at which they differ, and messages that only one of them has.
    mismatches: int


def compare(options: NatsOptions, source: str, target: str, transform: Transform) -> Comparison:
    """Compare the messages of `source`, their subjects mapped, with those that a replay published into `target`."""
    sent, received = _read(options, source), _read(options, target)
    subjects = exact_subjects(sent)
    names = [None if (name := transform(s)) is None else encoded(name) for s in subject_names(subjects)]
    mapped = pa.array(names, pa.binary()).take(subjects.indices)
    common = min(sent.num_rows, received.num_rows)
    equal = np.ones(common, bool)
    pairs = [
        (mapped, exact_subjects(received).dictionary_decode().cast(pa.binary())),
        (sent.column("headers"), original_headers(received.column("headers"))),
        (sent.column("data"), received.column("data")),
    ]
    for one, other in pairs:
        # A missing header block is null, and null == null is null.
        same = pc.equal(pc.fill_null(one.slice(0, common), ""), pc.fill_null(other.slice(0, common), ""))
        equal &= same.to_numpy(zero_copy_only=False)
    mismatches = int((~equal).sum()) + abs(sent.num_rows - received.num_rows)
    return Comparison(sent.num_rows, received.num_rows, mismatches)


def _read(options: NatsOptions, stream: str) -> pa.RecordBatch:
    """All messages of the stream."""
    with Link(options) as link:
        state = stream_state(link, stream)
    batches = list(read_batches(options, ReadSpec(state.incarnation, SeqRange(state.first_seq, state.last_seq))))
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], MESSAGES)
