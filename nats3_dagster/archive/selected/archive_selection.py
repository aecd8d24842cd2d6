"""Archive selection: what a selection takes of one archive: its chunks, their parts and their sums, as the catalog has
them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from nats3_dagster.archive.selected.extent import SelectedPart, cuts_sequences, part_of
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.catalog.contents.subjects import Probe
from nats3_dagster.model import Archive, Chunk, Selection
from nats3_dagster.subjects import is_one_subject
from nats3_dagster.workspace import Workspace

T = TypeVar("T")
# Chunks that are held at a time: 2.4 KB each.
PAGE = 10_000


@dataclass(frozen=True, slots=True)
class ArchiveSelection:
    """A selection of one archive. Nothing is kept: each answer is of the catalog as it is now."""

    workspace: Workspace
    archive: Archive
    selection: Selection

    def chunks(self) -> tuple[Chunk, ...]:
        """The live chunks in the hours, times and sequences of the selection, in stream order, with their counts by
        subject, and by minute where times cut them. Those of other subjects are among them, because `uncovered` needs
        them: see `with_subjects`."""
        return self.workspace.catalog.chunks.select(self.archive, **self._conditions)

    def pages(self) -> Iterator[tuple[Chunk, ...]]:
        """The same chunks, PAGE at a time."""
        return self.workspace.catalog.chunks.pages(self.archive, PAGE, **self._conditions)

    def hours(self) -> tuple[HourOfChunks, ...]:
        """The sums of the same chunks by hour."""
        return self.workspace.catalog.chunk_sums.hours(self.archive, self.selection)

    def with_subjects(self, chunks: Iterable[Chunk]) -> tuple[Chunk, ...]:
        """The chunks that have, or may have, a message of the selected subjects: by their counts, or where they have
        too many subjects to count, by their bloom filter. A filter with a wildcard may be met by any chunk without
        counts."""
        selection = self.selection
        taken = [c for c in chunks if c.meta.subjects is None or any(map(selection.selects_subject, c.meta.subjects))]
        uncounted = [c.id for c in taken if c.meta.subjects is None]
        if not uncounted or not selection.subjects or not all(map(is_one_subject, selection.subjects)):
            return tuple(taken)
        from nats3_dagster.chunks.bloom import probe  # here, because it loads Arrow, and most callers never come here

        probes = [Probe(*probe(s)) for s in selection.subjects]
        without = self.workspace.catalog.subjects.without(uncounted, probes)
        return tuple(c for c in taken if c.id not in without)

    def parts(self, chunks: Iterable[Chunk]) -> Iterator[SelectedPart]:
        """The selected part of each of `chunks`, which have their counts by subject."""
        return (part_of(self._with_deleted(chunk), self.selection) for chunk in chunks)

    def of_one_state(self, asked: Callable[[], T]) -> T:
        """The answer of `asked`, which asks the catalog several times, of one state of the archive: what is committed
        between two of the questions would be in one of the answers alone."""
        hours = self.workspace.catalog.hours
        while True:
            revision = hours.revision(self.archive)
            answer = asked()
            if hours.revision(self.archive) == revision:
                return answer

    @property
    def _conditions(self) -> dict[str, Any]:
        return {
            "hours": self.selection.hours or None,
            "time_range": self.selection.times,
            "seqs": self.selection.sequences,
            "with_subjects": True,
            "with_minutes": self.selection.times is not None,
        }

    def _with_deleted(self, chunk: Chunk) -> Chunk:
        """The chunk with its deleted sequences, if a sequence range cuts it: two chunks at most of each incarnation."""
        if not cuts_sequences(chunk.meta, self.selection) or not chunk.meta.absent:
            return chunk
        # Retired meanwhile: recording the replay finds that out.
        return self.workspace.catalog.chunks.find(chunk.id) or chunk
