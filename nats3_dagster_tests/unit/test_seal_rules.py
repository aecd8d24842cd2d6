"""Which hours are sealed, and what is said of the others: at the first and last nanosecond, and hour by hour."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from nats3_dagster.archive.proof import seal
from nats3_dagster.archive.proof.seal import (
    check_sealed,
    complete_hours,
    ended_hours,
    newest_closed,
    require_sealed,
    seal_asked,
    sealable,
)
from nats3_dagster.errors import Conflict, OperatorError, SourceError
from nats3_dagster.hours import CLOCKS_S, HOUR_NS, SECOND_NS, hour_start
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import LOGS, archive, state
from nats3_dagster_tests.support.sealed import H6, H7, H8, H9, H10

DAY = [f"2026-11-21-{hour:02}:00" for hour in range(24)]
WAIT_NS = CLOCKS_S * SECOND_NS
NOW = hour_start(H10) + WAIT_NS


class MadeUp:
    """A workspace: hours that are complete and not known as sealed, hours with a seal and whether it is valid, and
    hours with chunks. The stream ended its hours with sequence 50."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        due: tuple[str, ...] = (),
        seals: Mapping[str, bool] | None = None,
        chunks: tuple[str, ...] = (),
        now_ns: int = NOW,
        server_ns: int | None = None,
        begins: str | None = H7,
        problem: SourceError | None = None,
    ) -> None:
        self.due, self.bounds, self.limits, self.sealed = due, list[Any](), list[int](), list[str]()
        self._seals, self._problem = seals or {}, problem
        totals = None if begins is None else SimpleNamespace(begins_ns=hour_start(begins) + 5)
        catalog = SimpleNamespace(
            archives=SimpleNamespace(totals_of=lambda _: totals, get=lambda _: archive()),
            hours=SimpleNamespace(revision=lambda _: 7, select=lambda _, first, last: self._of(chunks, first, last)),
            seals=SimpleNamespace(unsealed=self._unsealed, select=self._select),
        )
        self.workspace = cast("Workspace", SimpleNamespace(catalog=catalog))

        def clocks(_: Any, state: Any = None) -> Any:
            earliest = min(now_ns, server_ns or now_ns) if state else now_ns
            return SimpleNamespace(earliest_ns=earliest, difference="differ" if earliest < now_ns else "")

        def end_of(workspace: Any, archive: Any, state: Any, hour: str) -> int:
            return 50 if hour == newest_closed(min(now_ns, server_ns or now_ns)) else 0

        monkeypatch.setattr(seal, "ask_clocks", clocks)
        monkeypatch.setattr(seal, "checked_state", self._state)
        monkeypatch.setattr(seal, "end_of", end_of)
        monkeypatch.setattr(seal, "_seal", lambda _, folder, hour: self.sealed.append(hour) or hour)
        monkeypatch.setattr(seal.folder, "require", lambda *_: None)

    @staticmethod
    def _of(hours: tuple[str, ...], first: str, last: str) -> list[Any]:
        return [SimpleNamespace(hour=hour) for hour in hours if first <= hour <= last]

    def _state(self, *_: Any) -> Any:
        if self._problem:
            raise self._problem
        return state()

    def _unsealed(self, _: Any, first: str, last: str, *, bound: Any = None, limit: int = 1000) -> tuple[str, ...]:
        self.bounds.append(bound)
        self.limits.append(limit)
        return tuple(hour for hour in self.due if first <= hour <= last)[:limit]

    def _select(self, _: Any, hours: Any) -> tuple[Any, ...]:
        return tuple(SimpleNamespace(hour=h, valid=valid) for h, valid in self._seals.items() if h in hours)


@pytest.mark.parametrize(
    ("now_ns", "hour"),
    [(NOW, H9), (NOW - 1, H8), (NOW + HOUR_NS - 1, H9), (NOW + HOUR_NS, H10), (hour_start(H10), H8)],
)
def test_an_hour_has_ended_when_all_clocks_have_passed_it(now_ns: int, hour: str) -> None:
    assert newest_closed(now_ns) == hour


@pytest.mark.parametrize(("begins", "ended"), [(H6, 4), (H8, 2), (H9, 1), (H10, 0), ("2026-11-21-11:00", 0)])
def test_how_many_hours_have_ended(monkeypatch: pytest.MonkeyPatch, begins: str, ended: int) -> None:
    assert ended_hours(MadeUp(monkeypatch, begins=begins).workspace, archive()) == (begins, ended)


def test_a_deleted_archive_has_no_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Conflict, match="was deleted"):
        ended_hours(MadeUp(monkeypatch, begins=None).workspace, archive())


@pytest.mark.parametrize(
    ("asked", "found"),
    [([], []), ([H6], []), ([H7], [H7]), ([H6, H7, H9], [H7, H9]), ([H8], []), ([H10], []), ([H9, H7], [H7, H9])],
)
def test_complete_hours_are_those_of_the_archive(
    monkeypatch: pytest.MonkeyPatch, asked: list[str], found: list[str]
) -> None:
    """It begins at seven o'clock; eight o'clock is not complete, and ten o'clock has not ended."""
    made = MadeUp(monkeypatch, due=(H6, H7, H9, H10))
    assert complete_hours(made.workspace, archive(), asked) == (set(found), None)


@pytest.mark.parametrize(("first", "hours"), [(H6, (H6, H7, H9)), (H7, (H7, H9)), (H8, (H9,)), (H9, (H9,)), (H10, ())])
def test_hours_that_can_be_sealed(monkeypatch: pytest.MonkeyPatch, first: str, hours: tuple[str, ...]) -> None:
    made = MadeUp(monkeypatch, due=(H6, H7, H9, H10))
    found = sealable(made.workspace, archive(), first)
    assert (found.hours, found.problem, found.clocks) == (hours, None, "")
    assert (found.position.closed, found.position.revision) == (H9, 7)
    assert made.bounds == ([] if first > H9 else [(LOGS, 50)])
    assert sealable(made.workspace, archive(), first, 1).hours == hours[:1]


def test_the_servers_clock_closes_no_hour_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, due=(H7, H8, H9), server_ns=NOW - 1)
    found = sealable(made.workspace, archive(), H7)
    assert (found.hours, found.position.closed, found.clocks) == ((H7, H8), H8, "differ")
    assert made.bounds == [(LOGS, 50)]


@pytest.mark.parametrize(
    ("chunks", "hours"), [((), ()), ((H7,), ()), ((H7, H8), (H7,)), ((H7, H9), (H7, H8)), ((H9, H10), (H7, H8))]
)
def test_without_the_stream_hours_end_before_the_last_chunk(
    monkeypatch: pytest.MonkeyPatch, chunks: tuple[str, ...], hours: tuple[str, ...]
) -> None:
    problem = SourceError("No answer")
    made = MadeUp(monkeypatch, due=(H7, H8, H9), chunks=chunks, problem=problem)
    found = sealable(made.workspace, archive(), H7)
    assert (found.hours, found.problem) == (hours, problem)
    assert made.bounds == [None]
    assert complete_hours(made.workspace, archive(), [H7]) == ({H7} & {*hours}, problem)


@pytest.mark.parametrize(
    ("asked", "seals", "before", "sealed", "says"),
    [
        ((H7, H8, H9), {H8: True}, [H8], [H7, H9], ""),
        ((H7,), {}, [], [H7], ""),
        ((H8,), {H8: True}, [H8], [], ""),
        # Its seal is not valid any more, and it is not complete.
        ((H7, H8), {H8: False}, [], [H7], "is not complete in 2026-11-21-08:00"),
        # It is again as it was sealed, and nothing else knows it.
        ((H7, H8), {H7: True, H8: True}, [H8], [H7], ""),
        ((H9, H10), {}, [], [H9], "Hour 2026-11-21-10:00 has not ended"),
    ],
)
def test_hours_that_are_asked_for_are_sealed_once(
    monkeypatch: pytest.MonkeyPatch,
    asked: tuple[str, ...],
    seals: Mapping[str, bool],
    before: list[str],
    sealed: list[str],
    says: str,
) -> None:
    made = MadeUp(monkeypatch, due=(H7, H9, H10), seals=seals)
    found: list[Any] = []
    with pytest.raises(OperatorError, match=says) if says else nullcontext():
        found.extend(seal_asked(made.workspace, "logs", asked))
    assert says or [one if isinstance(one, str) else one.hour for one in found] == [*before, *sealed]
    assert made.sealed == sealed
    assert (made.bounds, made.limits) == ([(LOGS, 50)], [len(asked)])


@pytest.mark.parametrize(
    ("hours", "says"),
    [
        ((), ""),
        (DAY[:1], "is not complete in 2026-11-21-00:00"),
        (DAY[:5], "2026-11-21-04:00"),
        (DAY[:6], "2026-11-21-04:00 and more"),
        (DAY[9:11], "is not complete in 2026-11-21-09:00, 2026-11-21-10:00"),
        (DAY[10:12], "Hour 2026-11-21-10:00 has not ended"),
    ],
)
def test_what_is_said_of_hours_that_are_not_sealed(hours: list[str], says: str) -> None:
    if not says:
        check_sealed(DAY[:3], DAY[:4], "logs", H9)
        return
    with pytest.raises(OperatorError) as caught:
        check_sealed([*hours, DAY[8]], [DAY[8]], "logs", H9)
    assert caught.value.what.endswith(says)
    with pytest.raises(OperatorError) as caught:
        check_sealed(hours, [], "logs", H9, "The clocks differ")
    assert caught.value.what.endswith("The clocks differ" if "not ended" in says else says)
    assert ("Set the clocks right" in str(caught.value.hint)) == ("not ended" in says)


@pytest.mark.parametrize(
    ("hours", "rest"),
    [
        (DAY[:7], ""),
        ([H7, H8], ""),
        ([H6, H7, H9], "that are not sealed: 2026-11-21-09:00"),
        (DAY[7:14], "2026-11-21-12:00, 2026-11-21-13:00"),
        (DAY[7:15], "2026-11-21-13:00 and 1 more"),
    ],
)
def test_hours_that_must_be_sealed(monkeypatch: pytest.MonkeyPatch, hours: list[str], rest: str) -> None:
    """The archive begins at seven o'clock. Seven and eight o'clock are sealed, nine o'clock changed since."""
    made = MadeUp(monkeypatch, seals={H7: True, H8: True, H9: False})
    if not rest:
        require_sealed(made.workspace, archive(), hours)
        return
    with pytest.raises(OperatorError) as caught:
        require_sealed(made.workspace, archive(), hours)
    assert caught.value.what.endswith(rest)
