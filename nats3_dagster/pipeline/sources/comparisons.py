"""Comparisons: what a filter of Spark leaves of whole numbers, and of times, which it compares by the microsecond."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import datasource as ds

# Behind every sequence and every time in microseconds.
MOST = 1 << 64
# The first and the last number, both included.
Bounds = tuple[int, int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEFT: dict[type[ds.Filter], Callable[[int], Bounds]] = {
    ds.EqualTo: lambda value: (value, value),
    ds.EqualNullSafe: lambda value: (value, value),
    ds.GreaterThan: lambda value: (value + 1, MOST),
    ds.GreaterThanOrEqual: lambda value: (value, MOST),
    ds.LessThan: lambda value: (-MOST, value - 1),
    ds.LessThanOrEqual: lambda value: (-MOST, value),
}


def bounds_of(each: ds.Filter, value: Any) -> tuple[Bounds, bool]:
    """The first and last number, or microsecond of a time, that a filter leaves; and whether it leaves all between."""
    if isinstance(each, ds.In):
        numbers = [_number(item) for item in value if item is not None]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return (-MOST, MOST), False
        return (min(known), max(known)), max(known) - min(known) + 1 == len(set(known))
    number = _number(value)
    if number is None or type(each) not in _LEFT:
        return (-MOST, MOST), False
    return _LEFT[type(each)](number), True


def cut(range_: Bounds, bounds: Bounds) -> Bounds:
    """What both leave; the last below the first for nothing."""
    return max(range_[0], bounds[0]), min(range_[1], bounds[1])


def _number(value: Any) -> int | None:
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (moment - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
