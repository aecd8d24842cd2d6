"""Messages on their way: the Arrow schema between the socket, a chunk and a publisher, and their exact subjects."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.subjects import decoded, readable, selects, selects_shown

# A chunk's columns (chunks.columns.SCHEMA) but `time`, which follows from `time_ns`.
MESSAGES: Final = pa.schema(
    [
        # Stream sequence.
        pa.field("seq", pa.int64(), nullable=False),
        # Store time, nanoseconds since 1970.
        pa.field("time_ns", pa.int64(), nullable=False),
        # The subject; of one that is not UTF-8 its readable text (see subjects.readable).
        pa.field("subject", pa.string(), nullable=False),
        # The bytes of a subject that is not UTF-8; null for all others.
        pa.field("subject_bytes", pa.binary(), nullable=True),
        # The header block as on the wire; null for none.
        pa.field("headers", pa.binary(), nullable=True),
        # The payload.
        pa.field("data", pa.binary(), nullable=False),
    ]
)


def subject_columns(raw: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The columns `subject` and `subject_bytes` of these subjects, binary. No copy where all of them are UTF-8."""
    try:
        return raw.cast(pa.string()), pa.nulls(len(raw), pa.binary())
    except pa.ArrowInvalid:
        distinct = raw.dictionary_encode()
    # Each distinct subject once: publishers of such subjects must not slow down a capture.
    subjects = [decoded(value) for value in distinct.dictionary.to_pylist()]
    texts = [readable(subject) for subject in subjects]
    exact = [
        None if text == subject else value
        for text, subject, value in zip(texts, subjects, distinct.dictionary.to_pylist(), strict=True)
    ]
    return pa.array(texts, pa.string()).take(distinct.indices), pa.array(exact, pa.binary()).take(distinct.indices)


def exact_subjects(batch: pa.RecordBatch) -> pa.DictionaryArray:
    """The subjects of a batch of MESSAGES as a dictionary array, whose values are binary where one of them is not UTF-8
    and string elsewhere: see `subject_names`."""
    subjects, exact = batch.column("subject"), batch.column("subject_bytes")
    if exact.null_count < len(exact):
        if pa.types.is_dictionary(subjects.type):
            subjects = pc.cast(subjects, pa.string())
        subjects = pc.coalesce(exact, subjects.cast(pa.binary()))
    return subjects if pa.types.is_dictionary(subjects.type) else subjects.dictionary_encode()


def subject_names(subjects: pa.DictionaryArray) -> list[str]:
    """The distinct subjects of `exact_subjects`, in the order of its dictionary, as subjects.decoded gives them."""
    values = subjects.dictionary.to_pylist()
    return values if pa.types.is_string(subjects.dictionary.type) else [decoded(value) for value in values]


def selected(
    batch: pa.RecordBatch, filters: Sequence[str], answers: dict[str, bool] | None = None, *, shown: bool = False
) -> pa.RecordBatch:
    """Selects messages by their subject: one of the filters must take it; all messages where there are no filters. It
    compares bytes, as a server does, or with `shown` also texts as people write them. Each distinct subject is compared
    once. `answers`: those of earlier batches, which this adds to. The batch has the columns `subject` and
    `subject_bytes`."""
    if not filters:
        return batch
    answers = {} if answers is None else answers
    subjects = exact_subjects(batch)
    names = subject_names(subjects)
    for name in names:
        if name not in answers:
            answers[name] = selects_shown(filters, name) if shown else selects(filters, name)
    taken = [answers[name] for name in names]
    return batch if all(taken) else batch.filter(pc.take(pa.array(taken, pa.bool_()), subjects.indices))
