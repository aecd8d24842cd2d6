"""An hour of an archive: what it accounts for."""

from dataclasses import dataclass

from nats3_dagster.model.chunk import Reason
from nats3_dagster.model.stream import Incarnation, SeqRange


@dataclass(frozen=True, slots=True)
class PlacedGap:
    """A gap beside an hour's chunks, and the hours that its messages may belong to."""

    seqs: SeqRange
    reason: Reason
    # The first and the last of these hours; None where nothing is missing (deleted, unselected).
    first_hour: str | None = None
    last_hour: str | None = None
    # Its messages were stored from the one time to the other, in nanoseconds; None as the hours are.
    after_ns: int | None = None
    before_ns: int | None = None


@dataclass(frozen=True, slots=True)
class OtherHour:
    """Sequences among an hour's own that belong to another one."""

    seqs: SeqRange
    hour: str


@dataclass(frozen=True, slots=True)
class HourPart:
    """What an hour accounts for in one incarnation: its chunks, the gaps beside them, and what it may have lost."""

    incarnation: Incarnation
    # From behind the chunk before them to the last of them.
    seqs: SeqRange
    # Ascending.
    gaps: tuple[PlacedGap, ...]
    # Ascending. Not empty where hours interleave, as they do when two clocks differ.
    others: tuple[OtherHour, ...]
