"""Comparisons: what a filter of Spark leaves of whole numbers, and of times, which it compares by the microsecond.

Filters are told apart by the names of their classes, because not every PySpark has these classes.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# After every sequence and every time in microseconds.
MOST = 1 << 64
# The first and the last number, both included.
Bounds = tuple[int, int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LEFT: dict[str, Callable[[int], Bounds]] = {
    "EqualTo": lambda value: (value, value),
    "EqualNullSafe": lambda value: (value, value),
    "GreaterThan": lambda value: (value + 1, MOST),
    "GreaterThanOrEqual": lambda value: (value, MOST),
    "LessThan": lambda value: (-MOST, value - 1),
    "LessThanOrEqual": lambda value: (-MOST, value),
}


def bounds_of(each: "Filter", value: Any) -> tuple[Bounds, bool]:
    """The first and last number, or microsecond of a time, that a filter leaves; and whether it leaves all between."""
    if kind(each) == "In":
        numbers = [_number(item) for item in value if item is not None]
        known = [number for number in numbers if number is not None]
        if not known or len(known) < len(numbers):
            return (-MOST, MOST), False
        return (min(known), max(known)), max(known) - min(known) + 1 == len(set(known))
    number = _number(value)
    if number is None or kind(each) not in _LEFT:
        return (-MOST, MOST), False
    return _LEFT[kind(each)](number), True


def kind(each: "Filter") -> str:
    """The name of a filter's class."""
    return type(each).__name__


def cut(range_: Bounds, bounds: Bounds) -> Bounds:
    """Returns the intersection; the last below the first for nothing."""
    return max(range_[0], bounds[0]), min(range_[1], bounds[1])


def _number(value: Any) -> int | None:
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return (moment - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
