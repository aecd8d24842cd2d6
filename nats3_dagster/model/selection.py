"""A selection: which messages of an archive a replay, a read or an export takes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from nats3_dagster.errors import OperatorError, blaming
from nats3_dagster.hours import HOUR_NS, LAST_NS, format_time, hour_start, parse_time
from nats3_dagster.model.spec_table import Kind, setting
from nats3_dagster.model.stream import MAX_SEQUENCE, SeqRange, parse_sequences
from nats3_dagster.subjects import check_filter, selects_shown


@dataclass(frozen=True, slots=True)
class Selection:
    """All that is given narrows the selection together; without anything it is the whole archive. Raises OperatorError
    if a field is invalid."""

    # Keys of hours (see hours.py), in any order; empty for all.
    hours: tuple[str, ...] = field(
        default=(),
        metadata=setting(Kind.HOURS, "Archived hours, in UTC.", metavar="YYYY-MM-DD-HH:00", limit=10_000),
    )
    # Store times `[from_ns, to_ns)` in nanoseconds since 1970.
    from_ns: int | None = field(
        default=None,
        metadata=setting(
            Kind.TIME, "From this store time on, as 2026-11-21T07:00:00Z.", metavar="TIME", key="from_time"
        ),
    )
    to_ns: int | None = field(
        default=None, metadata=setting(Kind.TIME, "Up to before this store time.", metavar="TIME", key="to_time")
    )
    # Stream sequences, both ends included.
    sequences: SeqRange | None = field(
        default=None,
        metadata=setting(Kind.SEQUENCES, "Sequences of the archived stream, first-last, both included.", metavar="A-B"),
    )
    # NATS filters of archived subjects: one of them must match; empty for all.
    subjects: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.FILTER, "Only archived subjects that this NATS filter matches.", metavar="FILTER", key="read_subject"
        ),
    )

    def __post_init__(self) -> None:
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            raise OperatorError(
                "The selection's start is not before its end", "Give an earlier start or a later end", field="to_ns"
            )
        for name, key in (("from_ns", "from_time"), ("to_ns", "to_time")):
            time_ns = getattr(self, name)
            if time_ns is not None and not -LAST_NS <= time_ns <= LAST_NS:
                hint = f"Give one from {format_time(-LAST_NS)} to {format_time(LAST_NS)}"
                raise OperatorError(f"The {key} is not a time that 64 bits hold", hint, field=name)
        with blaming("sequences"):
            self._check_sequences()
        with blaming("hours"):
            for hour in self.hours:
                hour_start(hour)
        with blaming("subjects"):
            for subject in self.subjects:
                check_filter(subject)

    def _check_sequences(self) -> None:
        if self.sequences is not None and not 1 <= self.sequences.first <= self.sequences.last:
            raise OperatorError(
                f"{self.sequences} is not a sequence range", "Write first-last, from 1, first not above last"
            )
        if self.sequences is not None and self.sequences.last > MAX_SEQUENCE:
            raise OperatorError(f"{self.sequences} is not a sequence range", f"Sequences end at {MAX_SEQUENCE}")

    @classmethod
    def parse(
        cls,
        *,
        hours: Iterable[str] | None = None,
        from_time: str | None = None,
        to_time: str | None = None,
        sequences: str | None = None,
        subjects: Iterable[str] | None = None,
        now: datetime | None = None,
    ) -> "Selection":
        """The selection that a person wrote: hours `YYYY-MM-DD-HH:00`, times as `parse_time` takes them, sequences
        `A-B` or `A`, subject filters. `now`: see `parse_time`. Raises OperatorError."""
        with blaming("from_ns"):
            from_ns = None if from_time is None else parse_time(from_time, now)
        with blaming("to_ns"):
            to_ns = None if to_time is None else parse_time(to_time, now)
        with blaming("sequences"):
            span = None if sequences is None else parse_sequences(sequences.strip())
        return cls(
            hours=tuple(sorted(set(hours or ()))),
            from_ns=from_ns,
            to_ns=to_ns,
            sequences=span,
            subjects=tuple(dict.fromkeys(subjects or ())),
        )

    @property
    def times(self) -> tuple[int, int] | None:
        """The store times as `[from, to)`, an open end as the first or last time there is; None for all."""
        if self.from_ns is None and self.to_ns is None:
            return None
        return self.from_ns or 0, LAST_NS if self.to_ns is None else self.to_ns

    def time_ranges(self) -> Iterator[tuple[int, int]]:
        """The times `[from, to)` that are selected: one for each row of adjacent hours, cut by its times; 0 and LAST_NS
        where there is no bound."""
        times = self.times or (0, LAST_NS)
        runs: list[tuple[int, int]] = []
        for start in sorted(hour_start(hour) for hour in set(self.hours)):
            if runs and runs[-1][1] == start:
                runs[-1] = runs[-1][0], start + HOUR_NS
            else:
                runs.append((start, start + HOUR_NS))
        for from_ns, to_ns in runs or [(0, LAST_NS)]:
            if max(from_ns, times[0]) < min(to_ns, times[1]):
                yield max(from_ns, times[0]), min(to_ns, times[1])

    @property
    def selects_all_subjects(self) -> bool:
        return not self.subjects or ">" in self.subjects

    def selects_subject(self, subject: str) -> bool:
        """True if messages of this archived subject, as `subjects.decoded` gives it, are selected."""
        return selects_shown(self.subjects, subject)
