"""Hours that an archive keeps: one that ended `keep` ago goes, and with a tolerance it stays longer."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nats3_dagster.archive.keep import retention
from nats3_dagster.archive.keep.retention import (
    TOLERANCE_S,
    Expired,
    Promise,
    end_of_kept,
    expire,
    expire_each,
    promise,
)
from nats3_dagster.catalog.removal.expiry import ExpiredHour, Unkept
from nats3_dagster.catalog.removal.holds import HeldRow
from nats3_dagster.errors import Conflict, StoreError
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import archive

NOON = hour_start("2026-11-21-12:00")


@pytest.mark.parametrize(
    ("keep_s", "now_ns", "tolerance_s", "end"),
    [
        # The hour from 10:00 to 11:00 ended an hour ago at noon, and not a nanosecond before.
        (3600, NOON, 0, "2026-11-21-11:00"),
        (3600, NOON - 1, 0, "2026-11-21-10:00"),
        (3600, NOON + HOUR_NS - 1, 0, "2026-11-21-11:00"),
        (3600, NOON + HOUR_NS, 0, "2026-11-21-12:00"),
        (1, NOON, 0, "2026-11-21-11:00"),
        (1, NOON + SECOND_NS, 0, "2026-11-21-12:00"),
        (7200, NOON, 0, "2026-11-21-10:00"),
        # With a tolerance more hours are still kept, never less.
        (3600, NOON, 3600, "2026-11-21-10:00"),
        (3600, NOON, 1, "2026-11-21-10:00"),
        (3600, NOON + SECOND_NS, 1, "2026-11-21-11:00"),
        # Everything is kept, or all that there can be.
        (0, NOON, 0, ""),
        (0, NOON, 3600, ""),
        (100 * 365 * 86_400, NOON, 0, "1970-01-01-00:00"),
    ],
)
def test_the_first_hour_that_is_kept(keep_s: int, now_ns: int, tolerance_s: int, end: str) -> None:
    assert end_of_kept(archive(keep_s=keep_s), now_ns, tolerance_s) == end


def test_a_check_waits_for_six_hours() -> None:
    assert TOLERANCE_S == 21_600


def test_hours_that_expired_are_added_up() -> None:
    def hour(n: int) -> ExpiredHour:
        return ExpiredHour(hour=f"2026-11-21-{n:02}:00", ids=[n, n + 1], bytes=10 * n, messages=n)

    first = retention._sum(Expired("logs", held_chunks=7), [hour(1), hour(2), hour(3)])
    assert first == Expired("logs", 3, hour(1).hour, hour(3).hour, 6, 6, 60, held_chunks=7)
    assert retention._sum(first, []) == first
    both = retention._sum(first, [hour(4), hour(5)])
    assert both == Expired("logs", 5, hour(1).hour, hour(5).hour, 10, 15, 150, held_chunks=7)


@pytest.mark.parametrize("keep_h", [1, 2, 24])
def test_an_hour_goes_when_it_ended_long_enough_ago(keep_h: int) -> None:
    for hours_ago in range(30):
        ended_ns = NOON - hours_ago * HOUR_NS
        goes = hour_of(ended_ns - HOUR_NS) < end_of_kept(archive(keep_s=keep_h * 3600), NOON)
        assert goes == (hours_ago >= keep_h)


@pytest.mark.parametrize(
    ("hours", "held_absences", "is_unchecked", "is_kept"),
    [(0, 0, False, True), (1, 0, False, False), (0, 1, False, False), (0, 0, True, False), (1, 1, True, False)],
)
def test_a_promise_is_kept(hours: int, held_absences: int, is_unchecked: bool, is_kept: bool) -> None:
    unkept = Unkept(hours=hours, oldest=None, unsealed=0)
    held = HeldRow(chunks=0, bytes=0)
    assert Promise(unkept, held, held_absences, 0, is_unchecked).is_kept == is_kept


class MadeUp:
    """A workspace with so many hours to expire, and so many expired ones that are not sealed again."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, due: int = 0, unsealed: int = 0, *, is_live: bool = True, **fields: Any
    ) -> None:
        self.due, self.unsealed_hours, self.asked, self.sealed = due, unsealed, list[Any](), 0
        self.failing, self.held, self._archive, self._is_live = (
            "",
            HeldRow(chunks=3, bytes=30),
            archive(**fields),
            is_live,
        )
        catalog = SimpleNamespace(
            archives=SimpleNamespace(get=self._get, of_job=lambda _: (self._archive, True) if self._is_live else None),
            holds=SimpleNamespace(held=lambda _: self.held, absences=lambda _: 4, all=lambda _: [1, 2]),
            expiry=SimpleNamespace(
                find=self._find,
                expire=self._expire,
                unsealed=self._unsealed,
                unkept=self._unkept,
                due_archives=lambda: ["one", "two"],
            ),
        )
        self.workspace = cast("Workspace", SimpleNamespace(catalog=catalog))
        monkeypatch.setattr(retention, "ask_clocks", lambda _: SimpleNamespace(earliest_ns=NOON))
        monkeypatch.setattr(retention, "seal_hours", self._seal)
        monkeypatch.setattr(retention, "is_unchecked", lambda *_: True)

    def _get(self, name: str) -> Any:
        if name == self.failing:
            raise Conflict(f"{name} fails", "")
        return self._archive

    def _find(self, _: Any, end_hour: str, keep_bytes: int | None, limit: int | None) -> list[ExpiredHour]:
        self.asked.append((end_hour, keep_bytes, limit))
        return [ExpiredHour(hour=f"{n:06}", ids=[n], bytes=1, messages=1) for n in range(self.due)][:limit]

    def _expire(self, one: Any, end_hour: str, keep_bytes: int | None, limit: int | None) -> list[ExpiredHour]:
        hours = self._find(one, end_hour, keep_bytes, limit)
        self.due -= len(hours)
        return hours

    def _unsealed(self, _: Any, limit: int) -> list[str]:
        assert limit == 100
        return [f"{n}" for n in range(min(self.unsealed_hours, limit))]

    def _unkept(self, _: Any, end_hour: str) -> Unkept:
        self.asked.append(end_hour)
        return Unkept(hours=1, oldest=end_hour, unsealed=0)

    def _seal(self, _: Any, __: Any, hours: list[str]) -> Any:
        for hour in hours:
            if self.failing == "seal":
                raise StoreError("The store fails")
            self.unsealed_hours -= 1
            self.sealed += 1
            yield hour


ELEVEN = "2026-11-21-11:00"


@pytest.mark.parametrize(
    ("due", "limit", "hours", "at_once"),
    [
        (0, None, 0, [100]),
        (5, None, 5, [100, 100]),
        (100, None, 100, [100, 100]),
        (250, None, 250, [100, 100, 100, 100]),
        # A limit is no more than that, in transactions of a hundred hours.
        (250, 0, 0, []),
        (250, 1, 1, [1]),
        (250, 99, 99, [99]),
        (250, 100, 100, [100]),
        (250, 101, 101, [100, 1]),
        (250, 220, 220, [100, 100, 20]),
        (50, 220, 50, [100, 100]),
    ],
)
def test_hours_expire_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch, due: int, limit: int | None, hours: int, at_once: list[int]
) -> None:
    made = MadeUp(monkeypatch, due, 130, keep_s=3600)
    found = expire(made.workspace, "logs", limit=limit)
    assert (found.hours, found.chunks, made.due) == (hours, hours, due - hours)
    assert made.asked == [(ELEVEN, None, number) for number in at_once]
    assert (found.held_chunks, found.held_bytes, found.problem) == (3, 30, None)
    # All that expired before are sealed again too.
    assert (made.sealed, made.unsealed_hours) == (130, 0)


def test_a_dry_run_expires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, 250, 5, keep_s=3600, keep_bytes=77)
    found = expire(made.workspace, "logs", dry_run=True, limit=220)
    assert (found.hours, found.first, found.last) == (220, "000000", "000219")
    assert (made.due, made.sealed, made.asked) == (250, 0, [(ELEVEN, 77, 220)])


def test_what_keeps_all_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, 9, 1)
    assert expire(made.workspace, "logs").hours == 0
    assert (made.asked, made.sealed) == ([], 1)
    by_bytes = MadeUp(monkeypatch, 9, keep_bytes=77)
    assert expire(by_bytes.workspace, "logs").hours == 9
    assert by_bytes.asked[0] == ("", 77, 100)


def test_a_deleted_archive_expires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, 9, keep_s=3600, is_live=False)
    with pytest.raises(Conflict, match="was deleted"):
        expire(made.workspace, "logs")
    assert made.due == 9


def test_an_hour_that_is_not_sealed_again_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, 2, 2, keep_s=3600)
    made.failing = "seal"
    found = expire(made.workspace, "logs")
    assert (found.hours, found.problem and found.problem.what) == (2, "The store fails")


def test_an_archive_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, 600, keep_s=3600)
    made.failing = "one"
    first, second = expire_each(made.workspace)
    assert (first.archive, first.hours, first.problem and first.problem.what) == ("one", 0, "one fails")
    assert (second.hours, second.problem) == (500, None)


def test_a_promise_asks_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MadeUp(monkeypatch, keep_s=3600)
    late, now = promise(made.workspace, archive(keep_s=3600)), promise(made.workspace, archive(keep_s=3600), 0)
    assert made.asked == ["2026-11-21-05:00", ELEVEN]
    assert late == Promise(Unkept(hours=1, oldest="2026-11-21-05:00", unsealed=0), made.held, 4, 2, True)
    assert not now.is_kept
