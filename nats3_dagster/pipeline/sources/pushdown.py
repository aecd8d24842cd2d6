"""Filters that a read of a stream applies itself.

Invariant: what is narrowed away no filter takes. A filter counts as applied only if all that is left passes it; Spark
applies the others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import CLOCKS_S, SECOND_NS
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.pipeline.sources.comparisons import MOST, bounds_of, cut, kind
from nats3_dagster.subjects import check_filter, covers, is_exact, matches

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# More subjects than a consumer should have filters.
_SUBJECTS = 64
# The text of a byte that is not UTF-8 (subjects.readable): the same text may stand for several subjects.
_ESCAPED = re.compile("%[0-9A-F]{2}")


@dataclass(slots=True)
class Narrowed:
    """The rest of a stream after filters."""

    # Filters of subjects that the consumer applies; one must match. None: no message passes.
    subjects: tuple[str, ...] | None
    # Sequences, both included.
    seqs: tuple[int, int] = (1, MAX_SEQUENCE)
    # Store times in nanoseconds, both included, as the stream's clocks may err.
    times_ns: tuple[int, int] = (-MOST, MOST)

    def take(self, filters: Iterable["Filter"]) -> "list[Filter]":
        """Narrows by these; a row must pass all of them. Returns those that Spark must apply."""
        return [each for each in filters if not self._take(each)]

    def _take(self, each: "Filter") -> bool:
        column, value = getattr(each, "attribute", ()), getattr(each, "value", None)
        if kind(each) == "IsNotNull":
            return column in (("seq",), ("time",), ("time_ns",), ("subject",), ("data",), ("size",))
        if value is None:
            return False
        if column == ("seq",):
            bounds, is_exact = bounds_of(each, value)
            self.seqs = cut(self.seqs, bounds)
            return is_exact
        if column in (("time",), ("time_ns",)):
            scale = 1000 if column == ("time",) else 1
            (first, last), _ = bounds_of(each, value)
            # A sequence says little of a time: a stream's next leader may have another clock. So Spark compares times.
            margin = CLOCKS_S * SECOND_NS
            self.times_ns = cut(self.times_ns, (first * scale - margin, last * scale + scale + margin))
            return False
        return column == ("subject",) and self._take_subject(each, value)

    def _take_subject(self, each: "Filter", value: Any) -> bool:
        if kind(each) in ("EqualTo", "EqualNullSafe", "In"):
            names = list(dict.fromkeys(value if kind(each) == "In" else (value,)))
            if len(names) > _SUBJECTS or not all(_is_name(name) for name in names):
                return False
            self.subjects = self._intersected(names)
            return True
        if kind(each) == "StringStartsWith" and "." in value:
            folder = value.rpartition(".")[0]
            return _is_name(folder) and self._narrow(f"{folder}.>") and value == f"{folder}."
        return False

    def _intersected(self, names: list[str]) -> tuple[str, ...] | None:
        if self.subjects is None:
            return None
        return tuple(n for n in names if not self.subjects or any(matches(f, n) for f in self.subjects)) or None

    def _narrow(self, filter_: str) -> bool:
        """Leave the subjects that a filter takes; whether the result can be written as filters."""
        if self.subjects is None or (self.subjects and all(covers(filter_, f) for f in self.subjects)):
            return True
        if not self.subjects or any(covers(f, filter_) for f in self.subjects):
            self.subjects = (filter_,)
            return True
        return False


def _is_name(text: Any) -> bool:
    """True if the text is that of one subject and of no other, and stands for it in a filter."""
    try:
        check_filter(text)
    except (OperatorError, TypeError):
        return False
    return not _ESCAPED.search(text) and is_exact(text)
