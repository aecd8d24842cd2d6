"""A selection: which messages of an archive a replay, a read or an export takes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import hour_start, parse_time
from nats3_dagster.model.stream import SeqRange, parse_sequences
from nats3_dagster.subjects import check_filter, matches

# The end of the times that 64 bits hold.
_END_OF_TIME = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """All that is given narrows the selection together; without anything it is the whole archive. Raises OperatorError
    if a field is invalid."""

    # Keys of hours (see hours.py), in any order; empty for all.
    hours: tuple[str, ...] = ()
    # Store times `[from_ns, to_ns)` in nanoseconds since 1970.
    from_ns: int | None = None
    to_ns: int | None = None
    # Stream sequences, both ends included.
    sequences: SeqRange | None = None
    # NATS filters of archived subjects: one of them must match; empty for all.
    subjects: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            raise OperatorError("The selection's start is not before its end", "Give an earlier start or a later end")
        if self.sequences is not None and not 1 <= self.sequences.first <= self.sequences.last:
            raise OperatorError(
                f"{self.sequences} is not a sequence range", "Write first-last, from 1, first not above last"
            )
        for hour in self.hours:
            hour_start(hour)
        for subject in self.subjects:
            check_filter(subject)

    @classmethod
    def parse(
        cls, *, hours: Iterable[str] | None = None, from_time: str | None = None, to_time: str | None = None,
        sequences: str | None = None, subjects: Iterable[str] | None = None, now: datetime | None = None,
    ) -> "Selection":  # fmt: skip
        """The selection that a person wrote: hours `YYYY-MM-DD-HH:00`, times as `parse_time` takes them, sequences
        `A-B` or `A`, subject filters. `now`: see `parse_time`. Raises OperatorError."""
        return cls(
            hours=tuple(sorted(set(hours or ()))),
            from_ns=None if from_time is None else parse_time(from_time, now),
            to_ns=None if to_time is None else parse_time(to_time, now),
            sequences=None if sequences is None else parse_sequences(sequences.strip()),
            subjects=tuple(dict.fromkeys(subjects or ())),
        )

    @property
    def times(self) -> tuple[int, int] | None:
        """The store times as `[from, to)`, an open end as the first or last time there is; None for all."""
        if self.from_ns is None and self.to_ns is None:
            return None
        return self.from_ns or 0, _END_OF_TIME if self.to_ns is None else self.to_ns

    def takes_subject(self, subject: str) -> bool:
        """Whether messages of this archived subject are selected."""
        return not self.subjects or any(matches(filter_, subject) for filter_ in self.subjects)
