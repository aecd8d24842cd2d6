"""Narrowing: what Spark's filters on seq, time, subject and hour leave of a selection.

Invariant: it only takes away what the filters refuse. Spark applies every filter again to what comes back.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nats3_dagster.hours import LAST_NS
from nats3_dagster.model import Selection, SeqRange
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.pipeline.sources.comparisons import bounds_of, cut, kind

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

# What a comparison with a text leaves.
_ACCEPTS: dict[str, Callable[[str, Any], bool]] = {
    "EqualTo": lambda text, value: text == value,
    "EqualNullSafe": lambda text, value: text == value,
    "In": lambda text, value: text in value,
    "GreaterThan": lambda text, value: text > value,
    "GreaterThanOrEqual": lambda text, value: text >= value,
    "LessThan": lambda text, value: text < value,
    "LessThanOrEqual": lambda text, value: text <= value,
    "StringStartsWith": lambda text, value: text.startswith(value),
    "StringEndsWith": lambda text, value: text.endswith(value),
    "StringContains": lambda text, value: value in text,
}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The rest of a selection after filters. Ranges include both ends; None is no bound."""

    seqs: tuple[int, int] = (1, MAX_SEQUENCE)
    # Nanoseconds since 1970.
    times_ns: tuple[int, int] = (-LAST_NS, LAST_NS - 1)
    # Filters by one text; all must accept it.
    subject_filters: tuple["Filter", ...] = field(default=())
    hour_filters: tuple["Filter", ...] = field(default=())

    @classmethod
    def of(cls, filters: Iterable["Filter"]) -> "Narrowing":
        """Returns the intersection of all of these filters. Those that it has no use for leave everything."""
        narrowing = cls()
        for each in filters:
            narrowing = narrowing.and_(each)
        return narrowing

    def and_(self, each: "Filter") -> "Narrowing":
        """Returns the rest after one more filter."""
        value: Any = getattr(each, "value", None)
        column = getattr(each, "attribute", ())
        if value is None:
            return self
        if column == ("seq",):
            return replace(self, seqs=cut(self.seqs, bounds_of(each, value)[0]))
        if column == ("time_ns",):
            return replace(self, times_ns=cut(self.times_ns, bounds_of(each, value)[0]))
        if column == ("time",):
            (first, last), _ = bounds_of(each, value)
            # A microsecond is a thousand nanoseconds, and a message may have any of them.
            return replace(self, times_ns=cut(self.times_ns, (first * 1000, last * 1000 + 999)))
        if kind(each) not in _ACCEPTS:
            return self
        if column == ("subject",):
            return replace(self, subject_filters=(*self.subject_filters, each))
        if column == ("hour",):
            return replace(self, hour_filters=(*self.hour_filters, each))
        return self

    def selection(self, selection: Selection) -> Selection | None:
        """The selection with its sequences and times cut; None if nothing is left.

        One without sequences gets none by a filter that has no end: it would then ask for everything that the stream
        has, and not for what is archived."""
        seqs, times = self.seqs, self.times_ns
        if selection.sequences:
            seqs = cut(seqs, (selection.sequences.first, selection.sequences.last))
        if selection.times:
            times = cut(times, (selection.times[0], selection.times[1] - 1))
        if seqs[0] > seqs[1] or times[0] > times[1]:
            return None
        sequences = selection.sequences
        if sequences or self.seqs[1] < MAX_SEQUENCE:
            sequences = SeqRange(*seqs)
        if self.times_ns == Narrowing().times_ns:
            return replace(selection, sequences=sequences)
        return replace(
            selection,
            sequences=sequences,
            from_ns=None if times[0] == -LAST_NS else times[0],
            to_ns=None if times[1] == LAST_NS - 1 else times[1] + 1,
        )

    @property
    def narrows_seqs(self) -> bool:
        """True if sequences are refused."""
        return self.seqs != Narrowing().seqs

    def takes_hour(self, hour: str) -> bool:
        """True if messages of an hour may pass."""
        return _accepted(self.hour_filters, hour)

    def takes_subject(self, subject: str) -> bool:
        """True if messages of a subject, as the column `subject` has it, may pass."""
        return _accepted(self.subject_filters, subject)


def _accepted(filters: Iterable["Filter"], text: str) -> bool:
    return all(_ACCEPTS[kind(each)](text, getattr(each, "value", None)) for each in filters)
