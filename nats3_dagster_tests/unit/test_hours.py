"""Hours and times: exact to the nanosecond, and strict about what they accept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, format_time, hour_bounds, hour_of, hours_between, parse_time

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
