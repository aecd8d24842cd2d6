"""Hours that an archive keeps: one that ended `keep` ago goes, and with a tolerance it stays longer."""

import pytest

from nats3_dagster.archive.keep import retention
from nats3_dagster.archive.keep.retention import TOLERANCE_S, Expired, Promise, end_of_kept
from nats3_dagster.catalog.removal.expiry import ExpiredHour, Unkept
from nats3_dagster.catalog.removal.holds import HeldRow
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
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
