"""The findings of a rebuild in an archive's objects: what they account for, and what does not fit together.

Invariant: the manifest with the highest number says which chunks of an hour are live. Two statements that contradict
each other are named, and neither is taken.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nats3_dagster.archive.recovery.objects import StoredManifest
from nats3_dagster.chunks.manifest import ManifestGap
from nats3_dagster.chunks.naming import parse_key
from nats3_dagster.model import PlacedGap, SeqRange, clipped, without
from nats3_dagster.model.erasure import joined


@dataclass(slots=True)
class StoredIncarnation:
    """One life of the stream, by what objects say of it."""

    created_ns: int
    # The first sequence that some object accounts for.
    start: int
    # The sequences that live chunks cover, joined where they touch.
    covered: list[SeqRange] = field(default_factory=list[SeqRange])
    # By first and last sequence.
    gaps: dict[SeqRange, PlacedGap] = field(default_factory=dict[SeqRange, PlacedGap])
    # The configurations of the stream in the order of the chunks, each as canonical JSON with its value.
    configs: dict[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    # The key of the newest live chunk, its last sequence and the size of its object.
    newest: tuple[int, str, int] = (0, "", 0)

    def cover(self, seqs: SeqRange) -> None:
        """Count the sequences of a live chunk as covered."""
        self.start = min(self.start, seqs.first)
        if self.covered and self.covered[-1].last + 1 == seqs.first:
            self.covered[-1] = SeqRange(self.covered[-1].first, seqs.last)
        else:
            self.covered.append(seqs)

    def covers_any(self, seqs: SeqRange) -> bool:
        """True if a live chunk has one of the sequences."""
        return bool(clipped(self.covered, seqs))

    def is_accounted(self, seqs: SeqRange) -> bool:
        """True if a live chunk or a gap has one of the sequences."""
        return bool(clipped(self.covered, seqs) or clipped(self.gaps, seqs))

    def rest_of_gaps(self) -> tuple[list[PlacedGap], list[str]]:
        """The gaps without what chunks cover, ascending, and what contradicts: two gaps of the same sequences. A real
        message wins over a gap, because a gap yields to it in the catalog too."""
        gaps: dict[SeqRange, PlacedGap] = {}
        faults: list[str] = []
        for seqs, gap in sorted(self.gaps.items()):
            for part in without([seqs], clipped(self.covered, seqs)):
                gaps[part] = replace(gap, seqs=part)
        last: PlacedGap | None = None
        for seqs, gap in sorted(gaps.items()):
            if last and seqs.first <= last.seqs.last:
                faults.append(f"manifests have two gaps, {last.seqs} ({last.reason}) and {seqs} ({gap.reason})")
            last = gap
        return list(gaps.values()), faults


@dataclass(slots=True)
class StoredArchive:
    """An archive, by what its objects say."""

    incarnations: dict[int, StoredIncarnation] = field(default_factory=dict[int, StoredIncarnation])
    # The newest manifest of each hour, ascending; and the earlier ones.
    seals: list[StoredManifest] = field(default_factory=list[StoredManifest])
    former_seals: list[StoredManifest] = field(default_factory=list[StoredManifest])
    # Chunks that no manifest names as live: key, and size in bytes.
    unlisted: dict[str, int] = field(default_factory=dict[str, int])
    # Chunks that manifests name as live and that cannot be had: key, and why.
    missing: dict[str, str] = field(default_factory=dict[str, str])
    # Of the unlisted ones, those that were opened and not taken: key, and why.
    refused: dict[str, str] = field(default_factory=dict[str, str])
    # The sequences that were erased, by the records beside the chunks.
    erased: dict[int, tuple[SeqRange, ...]] = field(default_factory=dict[int, tuple[SeqRange, ...]])
    # Statements that contradict each other.
    contradictions: list[str] = field(default_factory=list[str])

    def incarnation(self, created_ns: int, start: int) -> StoredIncarnation:
        """The one of this `created` time, which accounts for this sequence."""
        one = self.incarnations.setdefault(created_ns, StoredIncarnation(created_ns, start))
        one.start = min(one.start, start)
        return one

    def add_gap(self, created_ns: int, gap: ManifestGap) -> None:
        """Take the gap of a manifest; several hours' manifests may have it."""
        seqs = SeqRange(gap.first_seq, gap.last_seq)
        one = self.incarnation(created_ns, seqs.first)
        placed = PlacedGap(seqs, gap.reason, gap.first_hour, gap.last_hour, gap.after_ns, gap.before_ns)
        if one.gaps.setdefault(seqs, placed) != placed:
            self.contradictions.append(f"manifests give two reasons or times for the gap {seqs}")

    def erased_gaps(self) -> Iterator[tuple[int, PlacedGap]]:
        """The erased sequences that no live chunk covers and no manifest has in a gap, each with its incarnation."""
        for created_ns, ranges in sorted(self.erased.items()):
            one = self.incarnations.get(created_ns)
            for part in without(ranges, [*one.covered, *one.gaps] if one else ()):
                yield created_ns, PlacedGap(part, "erased")

    def explain_missing(self) -> None:
        """Leave those of the missing chunks out that an erasure took away: what it left of them is in other chunks."""
        for key in [*self.missing]:
            name = parse_key(key)
            erased = clipped(self.erased.get(name.created_ns, ()), name.covers) if name else []
            if name and erased:
                one = self.incarnations[name.created_ns]
                if not without([name.covers], joined([*erased, *clipped(one.covered, name.covers)])):
                    del self.missing[key]

    def sorted(self) -> Iterator[StoredIncarnation]:
        """The incarnations, the oldest first."""
        for created_ns in sorted(self.incarnations):
            yield self.incarnations[created_ns]
