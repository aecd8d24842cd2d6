"""What a selection takes of chunks: runs without a hole, sums, and bounds that leave no message out."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nats3_dagster.archive.selected.extent import Bounds, Extent, SelectedPart, is_cut, part_of
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.uncovered import _joined
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_start
from nats3_dagster.model import Chunk, ChunkMeta, Incarnation, Selection, SeqRange
from nats3_dagster_tests.support.catalog import LOGS, ranges
from nats3_dagster_tests.support.sealed import AGAIN, H6, H7, H8, H9, H10, Pair, of

START = hour_start(H7)


def chunks(*metas: ChunkMeta) -> list[Chunk]:
    return [Chunk(n, meta, datetime.now(UTC), None) for n, meta in enumerate(metas, 1)]


def sums(first: int, last: int, hour: str = H7, **fields: Any) -> HourOfChunks:
    start = hour_start(hour)
    made: dict[str, Any] = {
        "incarnation": LOGS,
        "hour": hour,
        "is_cut": False,
        "chunks": 2,
        "messages": last - first + 1,
        "absent": 0,
        "payload_bytes": 500,
        "largest_bytes": 99,
        "uncounted": 1,
        "covers": SeqRange(first, last),
        "first_ns": start + first,
        "last_ns": start + last,
        "lossy": (),
    }
    return HourOfChunks(**{**made, **fields})


# Runs


@pytest.mark.parametrize(
    ("spans", "hours", "runs"),
    [
        ([], (), []),
        ([], (H7,), []),
        ([(H7, 1, 10)], (), [(1, 10)]),
        # Without hours all of an incarnation is one run, whatever lies between.
        ([(H7, 1, 10), (H9, 15, 20)], (), [(1, 20)]),
        ([(H7, 1, 10), (H8, 11, 20)], (H7, H8), [(1, 20)]),
        # An hour that was not selected divides; one that was and has no chunk joins.
        ([(H7, 1, 10), (H9, 15, 20)], (H7, H9), [(1, 10), (15, 20)]),
        ([(H7, 1, 10), (H9, 15, 20)], (H7, H8, H9), [(1, 20)]),
        ([(H6, 1, 4), (H7, 5, 10), (H9, 15, 20), (H10, 21, 30)], (H6, H7, H9, H10), [(1, 10), (15, 30)]),
        # Hours that interleave: a run ends with its highest sequence.
        ([(H7, 1, 30), (H7, 11, 20)], (H7,), [(1, 30)]),
    ],
)
def test_runs_of_selected_hours(spans: list[tuple[str, int, int]], hours: tuple[str, ...], runs: list[Pair]) -> None:
    held = Held.of_chunks(chunks(*(of(*span) for span in spans)))
    assert list(held.runs(hours)) == [(LOGS, SeqRange(*run)) for run in runs]
    by_hour = Held.of_hours([sums(first, last, hour) for hour, first, last in spans])
    assert list(by_hour.runs(hours)) == list(held.runs(hours))


def test_sequences_that_overlap_or_touch_are_one_range() -> None:
    """Of one incarnation, the older one first; a range may lie within the one before it."""
    spans = [(5, 6), (1, 2), (40, 49), (20, 30), (22, 25), (3, 3), (31, 35), (8, 8), (20, 30)]
    found = _joined([*((LOGS, SeqRange(*span)) for span in spans), (AGAIN, SeqRange(4, 7)), (AGAIN, SeqRange(1, 2))])
    assert [(life, tuple(part)) for life, part in found] == [
        *((LOGS, span) for span in [(1, 3), (5, 6), (8, 8), (20, 35), (40, 49)]),
        (AGAIN, (1, 2)),
        (AGAIN, (4, 7)),
    ]
    assert _joined([]) == []


def test_each_incarnation_has_runs_of_its_own() -> None:
    held = Held.of_chunks(chunks(of(H7, 1, 10), of(H7, 1, 5, incarnation=AGAIN), of(H8, 6, 9, incarnation=AGAIN)))
    assert list(held.runs(())) == [(LOGS, SeqRange(1, 10)), (AGAIN, SeqRange(1, 9))]
    assert list(held.runs((H7, H8))) == [(LOGS, SeqRange(1, 10)), (AGAIN, SeqRange(1, 9))]
    assert (held.hours_of(LOGS), held.hours_of(AGAIN)) == ({H7}, {H7, H8})
    assert held.hours_of(Incarnation("LOGS", 1)) == set()


def test_chunks_that_may_have_lost_messages_are_told() -> None:
    lossy = of(H7, 11, 20, 9, deleted=ranges((15, 15)), absent_reason="expired")
    deleted = of(H7, 21, 30, 9, deleted=ranges((25, 25)))
    held = Held.of_chunks(chunks(of(H7, 1, 10), lossy, deleted, replace(lossy, incarnation=AGAIN), lossy))
    assert held.lossy == {LOGS: [2, 5], AGAIN: [4]}
    by_hour = Held.of_hours(
        [sums(1, 9, lossy=(3, 4)), sums(10, 19), sums(20, 29, lossy=(7,)), sums(1, 9, incarnation=AGAIN, lossy=(8,))]
    )
    assert by_hour.lossy == {LOGS: [3, 4, 7], AGAIN: [8]}


# Sums


def whole(meta: ChunkMeta, *, is_exact: bool = True, messages: int | None = None) -> SelectedPart:
    (chunk,) = chunks(meta)
    return SelectedPart(chunk, meta.messages if messages is None else messages, is_exact, meta.payload_bytes)


def test_parts_are_added_up() -> None:
    extent = Extent(Selection())
    for part in (
        whole(of(H7, 1, 10, subjects={"a": 10}, largest_bytes=70)),
        whole(of(H8, 11, 20, largest_bytes=90)),
        whole(of(H8, 21, 30, subjects={"a": 10}, largest_bytes=80)),
    ):
        extent.add(part)
    assert (extent.chunks, extent.messages, extent.payload_bytes, extent.largest_bytes) == (3, 30, 3000, 90)
    assert (extent.uncounted, extent.is_exact, extent.is_size_exact, extent.is_uncut) == (1, True, True, True)
    assert (extent.whole_chunks, extent.whole_messages, extent.whole_is_exact) == (3, 30, True)
    assert extent.whole_hours == {H7, H8}
    assert extent.bounds == Bounds(1, 30, START + 1, hour_start(H8) + 30)


@pytest.mark.parametrize(
    ("part", "is_exact", "is_size_exact", "is_whole", "whole_is_exact"),
    [
        (whole(of(H8, 11, 20)), True, True, True, True),
        (whole(of(H8, 11, 20), messages=9), True, False, False, True),
        (whole(of(H8, 11, 20), is_exact=False), False, False, True, False),
        (whole(of(H8, 11, 20), messages=9, is_exact=False), False, False, False, True),
        (whole(of(H8, 11, 20), messages=0), True, False, False, True),
    ],
)
def test_one_part_that_is_not_exact_is_enough(
    part: SelectedPart, is_exact: bool, is_size_exact: bool, is_whole: bool, whole_is_exact: bool
) -> None:
    extent = Extent(Selection())
    for one in (whole(of(H7, 1, 10)), part, whole(of(H9, 21, 30))):
        extent.add(one)
    assert (extent.is_exact, extent.is_size_exact, extent.whole_is_exact) == (is_exact, is_size_exact, whole_is_exact)
    assert extent.whole_chunks == 2 + is_whole
    assert extent.whole_hours == ({H7, H8, H9} if is_whole else {H7, H9})
    assert part.is_whole == is_whole


@pytest.mark.parametrize(("seqs", "is_uncut"), [((1, 30), True), ((2, 30), False), ((1, 29), False)])
def test_one_chunk_that_is_cut_is_enough(seqs: Pair, is_uncut: bool) -> None:
    extent = Extent(Selection(sequences=SeqRange(*seqs)))
    for n in range(3):
        extent.add(whole(of(H7, n * 10 + 1, n * 10 + 10)))
    assert extent.is_uncut == is_uncut


def test_a_condition_that_takes_all_of_a_chunk_makes_nothing_inexact() -> None:
    all_times = Selection(from_ns=START, to_ns=START + HOUR_NS)
    assert part(all_times) == (10, True)
    both = replace(all_times, sequences=SeqRange(11, 14), subjects=("a", "b"))
    assert part(both, subjects={"a": 6, "b": 4}, deleted=()) == (4, True)


def test_hours_that_are_whole_are_added_up() -> None:
    extent = Extent(Selection())
    extent.add_whole(sums(1, 10))
    extent.add_whole(sums(11, 30, H8, largest_bytes=98))
    assert (extent.chunks, extent.messages, extent.payload_bytes, extent.largest_bytes) == (4, 30, 1000, 99)
    assert (extent.uncounted, extent.whole_chunks, extent.whole_messages) == (2, 4, 30)
    assert extent.whole_hours == {H7, H8}
    assert extent.bounds == Bounds(1, 30, START + 1, hour_start(H8) + 30)


def test_chunks_without_a_selected_message_bound_nothing() -> None:
    extent = Extent(Selection())
    assert extent.bounds == Bounds()
    assert extent.times is None
    extent.add(whole(of(H7, 1, 10), messages=0))
    assert extent.bounds == Bounds()
    extent.add(whole(of(H8, 11, 20)))
    extent.add(whole(of(H9, 21, 30), messages=0))
    assert extent.bounds == Bounds(11, 20, hour_start(H8) + 11, hour_start(H8) + 20)


@pytest.mark.parametrize(
    ("seqs", "bounds"),
    [
        ((1, 30), (1, 30, True, True)),
        ((2, 30), (2, 30, False, True)),
        ((1, 29), (1, 29, True, False)),
        ((0, 31), (1, 30, True, True)),
        ((5, 25), (5, 25, False, False)),
    ],
)
def test_where_sequences_cut_a_chunk_its_time_is_not_known(seqs: Pair, bounds: tuple[int, int, bool, bool]) -> None:
    extent = Extent(Selection(sequences=SeqRange(max(seqs[0], 1), seqs[1])))
    extent.add(whole(of(H7, 1, 10)))
    extent.add(whole(of(H8, 11, 30)))
    first, last, has_first, has_last = bounds
    assert extent.bounds == Bounds(
        first, last, START + 1 if has_first else None, hour_start(H8) + 30 if has_last else None
    )


def test_times_of_a_selection_bound_those_of_the_chunks() -> None:
    def times(from_ns: int | None, to_ns: int | None) -> tuple[int, int] | None:
        extent = Extent(Selection(from_ns=from_ns, to_ns=to_ns))
        extent.add(whole(of(H7, 5, 10)))
        extent.add(whole(of(H7, 1, 4)))  # a clock that was set back
        return extent.times

    assert times(None, None) == (START + 1, START + 10)
    assert times(START + 1, START + 11) == (START + 1, START + 10)
    assert times(START + 2, START + 10) == (START + 2, START + 9)


# Parts of one chunk


@pytest.mark.parametrize(
    ("selection", "cut"),
    [
        (Selection(), False),
        (Selection(sequences=SeqRange(11, 20)), False),
        (Selection(sequences=SeqRange(10, 21)), False),
        (Selection(sequences=SeqRange(12, 20)), True),
        (Selection(sequences=SeqRange(11, 19)), True),
        (Selection(from_ns=START + 11, to_ns=START + 21), False),
        (Selection(from_ns=START + 12), True),
        (Selection(to_ns=START + 20), True),
        (Selection(to_ns=START + 21), False),
    ],
)
def test_what_cuts_a_chunk(selection: Selection, cut: bool) -> None:
    """A chunk of the sequences 11 to 20, each stored a nanosecond after the other."""
    assert is_cut(of(H7, 11, 20), selection) == cut


@pytest.mark.parametrize(
    ("selection", "cut"),
    [
        (Selection(sequences=SeqRange(11, 11)), False),
        (Selection(sequences=SeqRange(10, 11)), False),
        (Selection(sequences=SeqRange(11, 12)), False),
        (Selection(sequences=SeqRange(10, 10)), True),
        (Selection(sequences=SeqRange(12, 12)), True),
        (Selection(from_ns=START + 11, to_ns=START + 12), False),
        (Selection(from_ns=START + 12), True),
        (Selection(to_ns=START + 11), True),
    ],
)
def test_what_cuts_a_chunk_of_one_message(selection: Selection, cut: bool) -> None:
    assert is_cut(of(H7, 11, 11), selection) == cut


def part(selection: Selection, **fields: Any) -> tuple[int, bool]:
    (chunk,) = chunks(of(H7, 11, 20, fields.pop("messages", None), **fields))
    found = part_of(chunk, selection)
    return found.messages, found.is_exact


@pytest.mark.parametrize(
    ("seqs", "messages"),
    [
        ((11, 20), 8),
        ((11, 11), 1),
        ((20, 20), 1),
        ((10, 12), 2),
        ((14, 17), 2),
        ((14, 16), 1),
        ((15, 16), 0),
        ((21, 30), 0),
        ((1, 10), 0),
    ],
)
def test_sequences_of_a_chunk_without_two(seqs: Pair, messages: int) -> None:
    """The chunk has no message of 15 and 16."""
    selection = Selection(sequences=SeqRange(*seqs))
    assert part(selection, messages=8, deleted=ranges((15, 16))) == (messages, True)
    # Where the catalog does not know which are absent, it is the most that can be.
    most, is_exact = part(selection, messages=8)
    assert most == min(8, len({*range(seqs[0], seqs[1] + 1)} & {*range(11, 21)}))
    assert is_exact == (most in {0} or seqs == (11, 20))


@pytest.mark.parametrize(
    ("subjects", "messages", "is_exact"),
    [
        ((">",), 10, True),
        (("a",), 6, True),
        (("b.*",), 4, True),
        (("c",), 0, True),
        (("a", "b.x"), 10, True),
        ((), 10, True),
    ],
)
def test_subjects_of_a_chunk(subjects: tuple[str, ...], messages: int, is_exact: bool) -> None:
    selection = Selection(subjects=subjects)
    assert part(selection, subjects={"a": 6, "b.x": 4}) == (messages, is_exact)
    assert part(selection) == (10, selection.selects_all_subjects)


MINUTES = tuple(4 if n == 0 else 3 if n == 1 else 3 if n == 59 else 0 for n in range(60))


@pytest.mark.parametrize(
    ("from_minute", "to_minute", "messages"),
    [(0, 60, 10), (0, 1, 4), (1, 2, 3), (1, 60, 6), (2, 59, 0), (0, 59, 7), (59, 60, 3)],
)
def test_minutes_of_a_chunk(from_minute: int, to_minute: int, messages: int) -> None:
    selection = Selection(from_ns=START + from_minute * MINUTE_NS, to_ns=START + to_minute * MINUTE_NS)
    times = {"first_ns": START + 5, "last_ns": START + HOUR_NS - 5}
    assert part(selection, minutes=MINUTES, **times) == (messages, True)
    assert part(selection, **times)[0] == 10


@pytest.mark.parametrize(
    ("from_ns", "to_ns", "messages", "is_exact"),
    [
        (START + MINUTE_NS - 1, START + MINUTE_NS, 4, False),
        (START + MINUTE_NS, START + MINUTE_NS + 1, 3, False),
        (START + 5, START + MINUTE_NS, 4, True),
        (START + 6, START + MINUTE_NS, 4, False),
        (START + 59 * MINUTE_NS, START + HOUR_NS - 4, 3, True),
        (START + 59 * MINUTE_NS, START + HOUR_NS - 5, 3, False),
        (START + HOUR_NS - 4, START + HOUR_NS, 0, True),
        (START, START + 5, 0, True),
    ],
)
def test_a_minute_that_the_times_cut_may_give_all_or_none(
    from_ns: int, to_ns: int, messages: int, is_exact: bool
) -> None:
    times = {"first_ns": START + 5, "last_ns": START + HOUR_NS - 5}
    assert part(Selection(from_ns=from_ns, to_ns=to_ns), minutes=MINUTES, **times) == (messages, is_exact)


def test_the_first_and_the_last_minute_count_what_is_outside_of_the_hour() -> None:
    """A clock that stepped left messages 5 minutes before the hour and after it."""
    times = {"first_ns": START - 5 * MINUTE_NS, "last_ns": START + HOUR_NS + 5 * MINUTE_NS}

    def between(first: int, end: int) -> tuple[int, bool]:
        return part(
            Selection(from_ns=START + first * MINUTE_NS, to_ns=START + end * MINUTE_NS), minutes=MINUTES, **times
        )

    assert between(-5, -4) == (4, False)
    assert between(-6, 1) == (4, True)
    assert between(-5, 2) == (7, True)
    assert between(64, 66) == (3, False)
    assert between(59, 65) == (3, False)
    assert between(59, 66) == (3, True)
    assert between(2, 59) == (0, True)
    assert between(66, 70) == (0, True)


def test_a_part_has_no_more_bytes_than_its_messages_can_have() -> None:
    def size(selection: Selection, **fields: Any) -> int:
        (chunk,) = chunks(of(H7, 11, 20, payload_bytes=1000, largest_bytes=150, **fields))
        return part_of(chunk, selection).payload_bytes

    counted = {"aaaaa": 6, "b": 4}
    assert size(Selection()) == size(Selection(), subjects=counted) == 1000
    assert size(Selection(subjects=("aaaaa",)), subjects=counted) == 6 * 155
    assert size(Selection(subjects=("b",)), subjects=counted) == 4 * 151
    assert size(Selection(sequences=SeqRange(11, 12)), subjects=counted) == 2 * 155
    assert size(Selection(sequences=SeqRange(11, 17)), subjects=counted) == 1000
    assert size(Selection(sequences=SeqRange(11, 11))) == 1000
