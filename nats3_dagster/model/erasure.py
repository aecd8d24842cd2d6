"""An erasure: which messages left an archive for good. Nothing of a message is in it but its sequence."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from nats3_dagster.model.stream import SeqRange

# The sequences by the incarnation's `created` time in nanoseconds; those of each ascending and disjoint.
ErasedSequences = Mapping[int, tuple[SeqRange, ...]]


@dataclass(frozen=True, slots=True)
class ErasureRecord:
    """An erasure as it is written beside the chunks. The records of an archive's folder are a chain."""

    id: UUID
    # From 1 on: one more than the highest number that was known when the erasure was decided.
    number: int
    # SHA-256 in hex of the record with the number before; None for the first one.
    previous: str | None
    decided_at: datetime
    sequences: ErasedSequences

    @property
    def messages(self) -> int:
        """The erased messages."""
        return sum(part.size for ranges in self.sequences.values() for part in ranges)


@dataclass(frozen=True, slots=True)
class Trace:
    """A place that still has an erased message: an object, or a version of it."""

    bucket: str
    key: str
    # The version's id; empty where the store keeps no versions.
    version: str = ""
    # Why it stays.
    why: str = ""
    # True where nats3 does not remove it: it did not write it, or cannot read it.
    by_hand: bool = False

    def __str__(self) -> str:
        version = f" version {self.version}" if self.version else ""
        return f"{self.key} in the bucket {self.bucket!r}{version}{f': {self.why}' if self.why else ''}"


def joined(ranges: Iterable[SeqRange]) -> tuple[SeqRange, ...]:
    """The sequences of these ranges, which may overlap, as ranges that do not touch, ascending."""
    found: list[SeqRange] = []
    for part in sorted(ranges):
        if found and part.first <= found[-1].last + 1:
            found[-1] = SeqRange(found[-1].first, max(found[-1].last, part.last))
        else:
            found.append(part)
    return tuple(found)


def all_sequences(records: Iterable[ErasureRecord]) -> dict[int, tuple[SeqRange, ...]]:
    """The sequences that these erasures erased together."""
    ranges: dict[int, list[SeqRange]] = {}
    for record in records:
        for created_ns, own in record.sequences.items():
            ranges.setdefault(created_ns, []).extend(own)
    return {created_ns: joined(parts) for created_ns, parts in ranges.items()}
