"""Hours and times: exact to the nanosecond, and strict about what they accept."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import (
    CLOCKS_S,
    HOUR_NS,
    LAST_NS,
    MINUTE_NS,
    SECOND_NS,
    format_time,
    hour_bounds,
    hour_of,
    hours_between,
    parse_time,
)

times = st.integers(min_value=0, max_value=4_000_000_000 * 10**9)


@given(times)
def test_a_time_lies_in_its_own_hour_and_survives_text(time_ns: int) -> None:
    start, end = hour_bounds(hour_of(time_ns))
    assert start <= time_ns < end
    assert end - start == HOUR_NS
    assert parse_time(format_time(time_ns)) == time_ns


def test_hours_between_names_every_hour_once() -> None:
    first = parse_time("2026-02-28T22:59:59.999999999Z")
    assert list(hours_between(first, first + 2 * HOUR_NS)) == [
        "2026-02-28-22:00",
        "2026-02-28-23:00",
        "2026-03-01-00:00",
    ]
    assert list(hours_between(first, first)) == ["2026-02-28-22:00"]


def test_an_hour_that_is_touched_by_its_first_nanosecond_alone() -> None:
    start, end = hour_bounds("2026-02-28-22:00")
    assert list(hours_between(start, end - 1)) == ["2026-02-28-22:00"]
    assert list(hours_between(start, end)) == ["2026-02-28-22:00", "2026-02-28-23:00"]
    assert list(hours_between(end, end)) == ["2026-02-28-23:00"]
    assert list(hours_between(end, end - 1)) == []


@pytest.mark.parametrize(
    ("text", "before_ns"),
    [
        ("-1s", SECOND_NS),
        ("-90m", 90 * MINUTE_NS),
        ("-2h", 2 * HOUR_NS),
        ("-3d", 72 * HOUR_NS),
        ("-0s", 0),
    ],
)
def test_a_duration_before_now(text: str, before_ns: int) -> None:
    now = datetime(2026, 11, 21, 7, 30, 15, 250_000, UTC)
    assert parse_time(text, now) == parse_time("2026-11-21T07:30:15.25Z") - before_ns
    assert abs(parse_time(text) - (time.time_ns() - before_ns)) < MINUTE_NS


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:00.1Z", 100_000_000),
        ("1970-01-01T00:00:00.00000001Z", 10),
        ("1970-01-01T00:00:01.000000001+00:00", SECOND_NS + 1),
        ("1969-12-31T23:59:59.999999999Z", -1),
        # The first and the last time there are, by the calendar and by 64 bits.
        ("0001-01-01T00:00:00Z", -62_135_596_800 * SECOND_NS),
        ("2262-04-11T23:47:16.854775807Z", LAST_NS),
    ],
)
def test_times_to_the_nanosecond(text: str, time_ns: int) -> None:
    assert parse_time(text) == time_ns


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0001-01-01T00:00:00+00:01", "It lies before the year 1"),
        ("2262-04-11T23:47:16.854775808Z", "Nanoseconds in 64 bits end at 2262-04-11T23:47:16.854775807Z"),
        ("-999999999d", "It lies before all times"),
    ],
)
def test_times_beside_those_that_there_are(text: str, why: str) -> None:
    with pytest.raises(OperatorError) as refused:
        parse_time(text)
    assert why in str(refused.value.hint)


def test_units_are_exact_and_clocks_may_differ_by_half_a_minute() -> None:
    assert (SECOND_NS, MINUTE_NS, HOUR_NS) == (10**9, 60 * 10**9, 3600 * 10**9)
    assert LAST_NS == 9_223_372_036_854_775_807
    assert CLOCKS_S == 30


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("2026-11-21", "2026-11-21T00:00:00Z"),
        ("2026-11-21-07:00", "2026-11-21T07:00:00Z"),
        ("2026-11-21T07:00:00+02:00", "2026-11-21T05:00:00Z"),
        ("2026-11-21 07:00:00", "2026-11-21T07:00:00Z"),
    ],
)
def test_other_ways_to_write_a_time(text: str, same_as: str) -> None:
    assert parse_time(text) == parse_time(same_as)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-13-01", "2026-11-21T25:00:00Z", "2026-02-30-07:00", "-2w", "1"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(OperatorError):
        parse_time(text)


@pytest.mark.parametrize(
    "text", ["2026-11-21-07:30", "2026-11-21", "2026-11-21-7:00", "2026-02-30-07:00", "2026-11-21-24:00"]
)
def test_what_is_no_hour_is_refused(text: str) -> None:
    with pytest.raises(OperatorError):
        hour_bounds(text)
