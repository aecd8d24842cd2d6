"""What a selection takes of a chunk, by the catalog's counts, compared with the messages themselves."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.archive.selected.extent import Bounds, Extent, SelectedPart, part_of
from nats3_dagster.chunks.meta import by_minute
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_start
from nats3_dagster.model import Chunk, ChunkMeta, Incarnation, Selection, SeqRange

HOUR = "2026-11-21-10:00"
START = hour_start(HOUR)
COVERS = SeqRange(101, 140)
SUBJECTS = ("a.x", "a.y", "b.x")


@dataclass(frozen=True)
class Message:
    seq: int
    time_ns: int
    subject: str


def chunk_of(messages: list[Message], *, counted: bool = True, deleted: bool = True, timed: bool = True) -> Chunk:
    """A chunk that covers 101 to 140 and holds these messages, with 10 bytes and the subject each."""
    times = [m.time_ns for m in messages]
    absent = sorted(set(range(COVERS.first, COVERS.last + 1)) - {m.seq for m in messages})
    meta = ChunkMeta(
        archive="a",
        incarnation=Incarnation("S", 1),
        hour=HOUR,
        covers=COVERS,
        messages=len(messages),
        first_ns=min(times),
        last_ns=max(times),
        payload_bytes=sum(10 + len(m.subject) for m in messages),
        largest_bytes=10,
        stored_bytes=1,
        sha256="0" * 64,
        key="k",
        bucket="b",
        deleted=tuple(SeqRange(seq, seq) for seq in absent) if deleted else None,
        subjects=dict(Counter(m.subject for m in messages)) if counted else None,
        minutes=tuple(by_minute(np.array(times), HOUR).tolist()) if timed else None,
    )
    return Chunk(1, meta, datetime.now(UTC), None)


def is_selected(message: Message, selection: Selection) -> bool:
    first, end = selection.times or (0, 2**63 - 1)
    seqs = selection.sequences or SeqRange(1, 2**63)
    in_range = seqs.first <= message.seq <= seqs.last and first <= message.time_ns < end
    return in_range and selection.selects_subject(message.subject)


def bounds(selection: Selection, part: SelectedPart) -> Bounds:
    extent = Extent(selection)
    extent.add(part)
    assert (extent.messages, extent.is_exact, extent.payload_bytes) == (
        part.messages,
        part.is_exact,
        part.payload_bytes,
    )
    return extent.bounds


# A clock that was set back or forward leaves messages outside of their hour.
TIMES = st.integers(START - MINUTE_NS, START + HOUR_NS + MINUTE_NS)
MESSAGES = st.lists(st.tuples(TIMES, st.sampled_from(SUBJECTS)), min_size=1, max_size=COVERS.size).flatmap(
    lambda rows: st.permutations(range(COVERS.first, COVERS.last + 1)).map(
        lambda seqs: [Message(seq, *row) for seq, row in zip(sorted(seqs[: len(rows)]), rows, strict=True)]
    )
)
SELECTIONS = st.builds(
    Selection,
    from_ns=st.none() | st.integers(START - 2 * MINUTE_NS, START + HOUR_NS // 2),
    to_ns=st.none() | st.integers(START + HOUR_NS // 2 + 1, START + HOUR_NS + 2 * MINUTE_NS),
    sequences=st.none() | st.builds(lambda a, n: SeqRange(a, a + n), st.integers(90, 140), st.integers(0, 60)),
    subjects=st.sampled_from([(), (">",), ("a.*",), ("b.x",), ("c",)]),
)


@given(MESSAGES, SELECTIONS, st.booleans(), st.booleans(), st.booleans())
def test_it_is_never_less_than_what_is_selected_and_where_it_is_exact_it_is_that(
    messages: list[Message], selection: Selection, counted: bool, deleted: bool, timed: bool
) -> None:
    part = part_of(chunk_of(messages, counted=counted, deleted=deleted, timed=timed), selection)
    taken = [m for m in messages if is_selected(m, selection)]
    size = sum(10 + len(m.subject) for m in taken)
    assert part.messages >= len(taken)
    assert part.payload_bytes >= size
    if part.is_exact:
        assert part.messages == len(taken)
        assert not part.is_whole or part.payload_bytes == size
    if len(taken) == len(messages):
        assert part.is_whole
    limits = bounds(selection, part)
    for message in taken:
        assert limits.first_seq is not None
        assert limits.last_seq is not None
        assert limits.first_seq <= message.seq <= limits.last_seq
        assert limits.first_ns is None or limits.first_ns <= message.time_ns
        assert limits.last_ns is None or limits.last_ns >= message.time_ns


# A message each minute, but sequence 103 was deleted: subjects alternate.
EACH_MINUTE = [Message(COVERS.first + n, START + n * MINUTE_NS, SUBJECTS[n % 2]) for n in range(COVERS.size) if n != 2]


@pytest.mark.parametrize(
    ("selection", "messages", "exact"),
    [
        (Selection(), 39, True),
        (Selection(subjects=(">",)), 39, True),
        (Selection(sequences=SeqRange(1, 105)), 4, True),
        (Selection(sequences=SeqRange(103, 103)), 0, True),
        (Selection(sequences=SeqRange(1, 200)), 39, True),
        (Selection(subjects=("a.y",)), 20, True),
        (Selection(subjects=("c",), sequences=SeqRange(1, 105)), 0, True),
        (Selection(subjects=("a.y",), sequences=SeqRange(101, 105)), 4, False),
        (Selection(to_ns=START + 1), 1, False),
        (Selection(to_ns=START + MINUTE_NS), 1, True),
        (Selection(from_ns=START + 10 * MINUTE_NS), 30, True),
        (Selection(from_ns=START + 10 * MINUTE_NS + 1), 30, False),
        (Selection(from_ns=START + 50 * MINUTE_NS), 0, True),
    ],
)
def test_what_is_exact(selection: Selection, messages: int, exact: bool) -> None:
    part = part_of(chunk_of(EACH_MINUTE), selection)
    assert (part.messages, part.is_exact) == (messages, exact)


def test_the_bounds_are_those_of_the_selection() -> None:
    chunk, end = chunk_of(EACH_MINUTE), START + 39 * MINUTE_NS
    for selection, limits in (
        (Selection(), Bounds(101, 140, START, end)),
        (Selection(sequences=SeqRange(1, 105)), Bounds(101, 105, START, None)),
        (Selection(sequences=SeqRange(104, 200)), Bounds(104, 140, None, end)),
        (Selection(from_ns=START + 5, to_ns=START + 9), Bounds(101, 140, START + 5, START + 8)),
        (Selection(sequences=SeqRange(103, 103)), Bounds()),
    ):
        assert bounds(selection, part_of(chunk, selection)) == limits
