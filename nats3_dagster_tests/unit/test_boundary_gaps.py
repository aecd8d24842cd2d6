"""Sequences that are missing at the edges of a selection, to the sequence and to the nanosecond.

The stream has three messages in each hour from six to ten: the first at its first nanosecond, one at half past, and one
at its last nanosecond. So seven o'clock has the sequences 4 to 6.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nats3_dagster.archive.selected import boundary_gaps
from nats3_dagster.archive.selected.boundary_gaps import expired, times_of, uncaptured, without_chunks
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_of, hour_start, hours_between
from nats3_dagster.model import Coverage, Incarnation, Selection, SeqRange, StreamState
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import LOGS, archive, ranges
from nats3_dagster_tests.support.sealed import H6, H7, H8, H9, H10, Pair

TIMES = [0, *(hour_start(hour) + at for hour in (H6, H7, H8, H9, H10) for at in (0, HOUR_NS // 2, HOUR_NS - 1))]
LAST = len(TIMES) - 1
NOW = hour_start(H10) + 45 * MINUTE_NS
END = 2**63 - 1


class MadeUp:
    """A workspace whose catalog has these sequences in chunks and gaps, and knows these hours as sealed."""

    def __init__(self, *covered: Pair, start: int = 1, sealed: Sequence[str] = ()) -> None:
        self.seqs = {seq for first, last in covered for seq in range(first, last + 1)}
        self._sealed = {*sealed}
        last = max(self.seqs, default=0)
        self.coverages = [Coverage(LOGS, start, last, last, 1, last, 0, 0, 0, None, TIMES[last] or None)]
        self.state: StreamState | None = stream()
        self.spans: dict[str, Pair] = {}
        coverage = SimpleNamespace(
            all=lambda _: self.coverages,
            missing=self._missing,
            incarnations=lambda _: [one.incarnation for one in self.coverages],
            last_state=lambda _: self.state,
        )
        hours = SimpleNamespace(are_sealed=self._are_sealed, beside=self._beside)
        self.workspace = cast(
            "Workspace", SimpleNamespace(link=None, catalog=SimpleNamespace(coverage=coverage, hours=hours))
        )

    def _missing(self, _: Any, incarnation: Incarnation, window: SeqRange) -> tuple[SeqRange, ...]:
        assert incarnation == LOGS
        assert 1 <= window.first <= window.last <= LAST
        return ranges(*((seq, seq) for seq in range(window.first, window.last + 1) if seq not in self.seqs))

    def _are_sealed(self, _: Any, first: str, last: str) -> bool:
        return self._sealed >= {*hours_between(hour_start(first), hour_start(last) + 1)}

    def _beside(self, _: Any, incarnation: Incarnation, first: str, last: str) -> tuple[int | None, int | None]:
        before = [span[1] for hour, span in self.spans.items() if hour < first]
        after = [span[0] for hour, span in self.spans.items() if hour > last]
        return max(before, default=None), min(after, default=None)


def stream(first: int = 1, incarnation: Incarnation = LOGS) -> StreamState:
    return StreamState(incarnation, first, LAST, TIMES[first], TIMES[LAST], LAST - first + 1, 0, {})


@pytest.fixture(autouse=True)
def _clocks_and_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_at(_: Any, spec: Any, time_ns: int) -> int:
        return next((seq for seq in range(1, LAST + 1) if TIMES[seq] >= time_ns), LAST + 1)

    monkeypatch.setattr(boundary_gaps, "first_at", first_at)
    monkeypatch.setattr(boundary_gaps, "ask_clocks", lambda *_: SimpleNamespace(earliest_ns=NOW))


def lacking(made: MadeUp, selection: Selection, state: StreamState | None, *, up_to_now: bool = False) -> list[int]:
    """Returns the missing sequences one by one."""
    found = uncaptured(made.workspace, archive(), selection, state, up_to_now=up_to_now)
    return [seq for life, part in found if life == LOGS for seq in range(part.first, part.last + 1)]


def of(*hours: str, **fields: Any) -> Selection:
    return Selection(hours=hours, **fields)


def seqs(first: int, last: int, **fields: Any) -> Selection:
    return Selection(sequences=SeqRange(first, last), **fields)


E7, E8, E9, E10 = (hour_start(hour) for hour in (H7, H8, H9, H10))


@pytest.mark.parametrize(
    ("selection", "covered", "first", "missing"),
    [
        # Without an end it ends with what is archived.
        (Selection(), [(1, 12)], 1, []),
        (Selection(), [(1, 4), (7, 12)], 1, [5, 6]),
        (Selection(), [(3, 3)], 1, [1, 2]),
        (Selection(), [], 1, []),
        # What the stream has no more is another matter.
        (Selection(), [(1, 4), (7, 12)], 6, [6]),
        (Selection(), [(1, 4), (7, 12)], 7, []),
        (seqs(1, 15), [(1, 4)], 14, [14, 15]),
        # Sequences: up to those, or to the end of the stream.
        (seqs(4, 15), [(1, 12)], 1, [13, 14, 15]),
        (seqs(1, 99), [(1, 12)], 1, [13, 14, 15]),
        (seqs(2, 13), [(1, 12)], 1, [13]),
        (seqs(2, 12), [(1, 12)], 1, []),
        (seqs(5, 5), [], 1, [5]),
        (seqs(16, 99), [], 1, []),
        # Hours.
        (of(H8), [(1, 6), (10, 15)], 1, [7, 8, 9]),
        (of(H8), [(1, 7), (9, 15)], 1, [8]),
        (of(H8), [(7, 9)], 1, []),
        (of(H10), [(1, 12)], 1, [13, 14, 15]),
        (of(H7, H9), [(7, 9)], 1, [4, 5, 6, 10, 11, 12]),
        (of(H8, sequences=SeqRange(8, 20)), [], 1, [8, 9]),
        (of(H8, sequences=SeqRange(1, 8)), [], 1, [7, 8]),
        (of(H8, sequences=SeqRange(10, 20)), [], 1, []),
        # Times: from the first nanosecond, and up to the one before the last.
        (Selection(from_ns=E8), [(1, 6), (8, 9)], 1, [7]),
        (Selection(from_ns=E8 + 1), [(1, 6), (8, 9)], 1, []),
        (Selection(from_ns=E8), [(1, 5), (7, 9)], 1, []),
        (Selection(to_ns=E8), [(1, 3)], 1, [4, 5, 6]),
        (Selection(to_ns=E8 + 1), [(1, 3)], 1, [4, 5, 6, 7]),
        (Selection(to_ns=E8 - 1), [(1, 3)], 1, [4, 5]),
        (Selection(from_ns=E7, to_ns=E8), [(1, 3)], 1, [4, 5, 6]),
        (Selection(from_ns=E7, to_ns=E8, sequences=SeqRange(5, 9)), [(1, 3)], 1, [5, 6]),
        (Selection(from_ns=E8, sequences=SeqRange(1, 20)), [], 1, [*range(7, 16)]),
    ],
)
def test_what_is_missing_of_a_stream(selection: Selection, covered: list[Pair], first: int, missing: list[int]) -> None:
    made = MadeUp(*covered)
    assert lacking(made, selection, stream(first)) == missing
    if not (selection.hours or selection.to_ns):
        assert lacking(made, selection, stream(first), up_to_now=True) == missing


@pytest.mark.parametrize(
    ("selection", "covered", "missing"),
    [
        # Its end has come, or comes this nanosecond.
        (Selection(to_ns=E10), [(1, 9)], [10, 11, 12]),
        (Selection(to_ns=NOW), [(1, 12)], [13, 14]),
        (Selection(to_ns=NOW + 1), [(1, 12)], []),
        (Selection(to_ns=NOW + 1), [(1, 9), (11, 12)], [10]),
        # The open hour ends with what is archived; those before it are whole.
        (of(H10), [(1, 12)], []),
        (of(H10), [(1, 12), (14, 14)], [13]),
        (of(H9), [(1, 9)], [10, 11, 12]),
        (of(H9, H10), [(1, 10)], [11, 12]),
        (of(H9, H10), [(1, 10), (12, 13)], [11]),
        (of(H8, H9, H10), [(1, 6)], [7, 8, 9, 10, 11, 12]),
        (of(H8, H10), [(1, 6)], [7, 8, 9]),
        (of(H9, H10, from_ns=E9 + 1), [(1, 9)], [11, 12]),
    ],
)
def test_what_is_missing_up_to_now(selection: Selection, covered: list[Pair], missing: list[int]) -> None:
    assert lacking(MadeUp(*covered), selection, stream(), up_to_now=True) == missing


@pytest.mark.parametrize(
    ("selection", "missing"),
    [
        (of(H8), []),
        (of(H7, H8), [4, 5, 6, 7, 8, 9]),
        (of(H8, H9), [7, 8, 9, 10, 11, 12]),
        (of(H7, H9), [4, 5, 6, 10, 11, 12]),
        (Selection(from_ns=E8, to_ns=E9), []),
        (Selection(from_ns=E8 + 1, to_ns=E9 - 1), []),
        (Selection(from_ns=E8, to_ns=E9 + 1), [7, 8, 9, 10]),
        (Selection(from_ns=E8 - 1, to_ns=E9), [6, 7, 8, 9]),
        # Without both bounds nothing says that all of it is sealed.
        (Selection(to_ns=E7), [1, 2, 3]),
    ],
)
def test_sealed_hours_lack_nothing(selection: Selection, missing: list[int]) -> None:
    """The stream is not asked about eight o'clock, which is sealed: what it said would not count."""
    assert lacking(MadeUp(sealed=[H8]), selection, stream()) == missing


@pytest.mark.parametrize("other", [None, stream(1, Incarnation("LOGS", LOGS.created_ns + 1))])
@pytest.mark.parametrize(
    ("selection", "covered", "missing"),
    [
        # It was seen up to 15; the times of what came after the last archived one are not known.
        (Selection(), [(1, 12)], []),
        (Selection(from_ns=E9), [(1, 12)], []),
        (seqs(4, 20), [(1, 12)], [13, 14, 15]),
        (seqs(4, 14), [(1, 12)], [13, 14]),
        (seqs(1, 12), [(1, 12)], []),
        (seqs(1, 20), [(1, 4), (6, 15)], [5]),
        (of(H10), [(1, 12)], [13, 14, 15]),
        (of(H9), [(1, 12)], [13, 14, 15]),
        (of(H8), [(1, 12)], []),
        (of(H8, H10), [(1, 12)], [13, 14, 15]),
        (of(H10), [(1, 15)], []),
        (of(H10), [(1, 10), (12, 12)], [13, 14, 15]),
        (Selection(to_ns=TIMES[12] + 1), [(1, 12)], [13, 14, 15]),
        (Selection(to_ns=TIMES[12]), [(1, 12)], []),
        (Selection(from_ns=TIMES[15], to_ns=END - 1), [(1, 12)], [13, 14, 15]),
        (Selection(from_ns=TIMES[15] + 1, to_ns=END - 1), [(1, 12)], []),
        (Selection(to_ns=1), [], [*range(1, 16)]),
    ],
)
def test_what_is_missing_of_a_stream_that_is_gone(
    selection: Selection, covered: list[Pair], missing: list[int], other: StreamState | None
) -> None:
    made = MadeUp(*covered)
    assert lacking(made, selection, other) == missing
    made.state = None
    assert lacking(made, selection, other) == []


@pytest.mark.parametrize(
    ("first", "covered", "gone"), [(1, [], []), (2, [], [1]), (6, [(1, 3)], [4, 5]), (6, [(1, 5)], [])]
)
def test_what_the_stream_has_no_more(first: int, covered: list[Pair], gone: list[int]) -> None:
    made, state = MadeUp(*covered), stream(first)

    def found(state: StreamState | None, **fields: Any) -> list[int]:
        parts = expired(made.workspace, archive(**fields), state)
        return [seq for life, part in parts if life == LOGS for seq in range(part.first, part.last + 1)]

    assert found(state) == found(state, subjects=("a",)) == gone
    # What the own consumer of an archive took is not to be told from what was lost, unless it takes everything.
    assert found(state, mode="consumer") == gone
    assert found(state, mode="consumer", subjects=("a",)) == []
    assert found(None) == []
    assert found(replace(state, incarnation=Incarnation("LOGS", 1))) == []


@pytest.mark.parametrize(
    ("hours", "spans", "start", "between"),
    [
        ((), {H6: (1, 3)}, 1, []),
        ((H8,), {H6: (1, 3), H10: (13, 15)}, 1, [(4, 12)]),
        ((H7, H8), {H6: (1, 3), H10: (13, 15)}, 1, [(4, 12)]),
        ((H7, H9), {H6: (1, 3), H8: (7, 9), H10: (13, 15)}, 1, [(4, 6), (10, 12)]),
        # One sequence between them, and none.
        ((H8,), {H7: (1, 6), H9: (8, 9)}, 1, [(7, 7)]),
        ((H8,), {H7: (1, 6), H9: (7, 9)}, 1, []),
        # Before the first chunk and after the last one.
        ((H6,), {H10: (13, 15)}, 1, [(1, 12)]),
        ((H6,), {H10: (13, 15)}, 12, [(12, 12)]),
        ((H6,), {H10: (13, 15)}, 13, []),
        ((H10,), {H9: (1, 12)}, 1, [(13, END - 1)]),
        # An hour that has a chunk, or a neighbour that was selected with it.
        ((H8,), {H8: (7, 9)}, 1, []),
        ((H7, H8), {H8: (7, 9)}, 1, []),
        ((H8, H9), {H8: (7, 9)}, 1, []),
    ],
)
def test_hours_without_a_chunk(hours: tuple[str, ...], spans: dict[str, Pair], start: int, between: list[Pair]) -> None:
    made = MadeUp(start=start)
    made.spans = spans
    held = Held([(LOGS, hour, SeqRange(*span)) for hour, span in spans.items() if hour in hours])
    found = without_chunks(made.workspace, archive(), Selection(hours=hours), held)
    assert [tuple(part) for _, part in found] == between


@pytest.mark.parametrize(("to_ns", "between"), [(E8 + 1, []), (E8, [(4, 6)])])
def test_times_say_which_hours_have_no_chunk(to_ns: int, between: list[Pair]) -> None:
    """Of seven and eight o'clock the second has a chunk: it is selected by its first nanosecond."""
    made = MadeUp()
    made.spans = {H6: (1, 3), H8: (7, 9)}
    held = Held([(LOGS, H8, SeqRange(7, 9))])
    found = without_chunks(made.workspace, archive(), of(H7, H8, to_ns=to_ns), held)
    assert [tuple(part) for _, part in found] == between


@pytest.mark.parametrize(("hour", "lives"), [(H6, [0]), (H7, [0]), (H8, [0, 1]), (H9, [1, 2]), (H10, [2])])
def test_an_hour_without_a_chunk_is_of_the_streams_that_there_were(hour: str, lives: list[int]) -> None:
    """The stream was made again at half past eight and at half past nine."""
    made = MadeUp()
    known = [Incarnation("LOGS", hour_start(at) + HOUR_NS // 2) for at in (H10, H8, H9)]
    made.coverages = [replace(made.coverages[0], incarnation=life) for life in known]
    found = without_chunks(made.workspace, archive(), of(hour), Held())
    assert [known.index(life) for life, _ in found] == lives


@pytest.mark.parametrize(
    ("selection", "times"),
    [
        (Selection(), [(0, END)]),
        (Selection(from_ns=5), [(5, END)]),
        (Selection(to_ns=5), [(0, 5)]),
        (of(H8), [(E8, E9)]),
        (of(H8, H7), [(E7, E9)]),
        (of(H8, H8), [(E8, E9)]),
        (of(H7, H9), [(E7, E8), (E9, E10)]),
        (of(H6, H8, H9), [(E7 - HOUR_NS, E7), (E8, E10)]),
        (of(H7, H9, from_ns=E8 - 1), [(E8 - 1, E8), (E9, E10)]),
        (of(H7, H9, from_ns=E8), [(E9, E10)]),
        (of(H7, H9, to_ns=E9 + 1), [(E7, E8), (E9, E9 + 1)]),
        (of(H7, H9, to_ns=E9), [(E7, E8)]),
        (of(H7, from_ns=E7 + 1, to_ns=E7 + 2), [(E7 + 1, E7 + 2)]),
    ],
)
def test_the_times_of_a_selection(selection: Selection, times: list[Pair]) -> None:
    assert list(times_of(selection)) == times
    assert hour_of(E8) == H8
