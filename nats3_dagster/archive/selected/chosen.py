"""Chosen: the chunks that a replay takes, of one state of the archive. They are added up, and none is held: a plan asks
for them again, page by page."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.extent import Extent, is_cut
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.next_chunks import next_chunks
from nats3_dagster.archive.selected.removed import removed_notes
from nats3_dagster.archive.selected.uncovered import OfIncarnation, lost_of_selection, uncovered
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Chunk, Incarnation, SeqRange
from nats3_dagster.steps import Next


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chunks with a message of the selection, or that may have one."""

    selected: ArchiveSelection
    extent: Extent
    # Their ids in the order of the stream.
    ids: Sequence[int] = ()
    # Their counted subjects, each with the messages of all of them.
    subjects: Mapping[str, int] = field(default_factory=dict[str, int])
    # The incarnation of the last one; None without one.
    newest: Incarnation | None = None
    # Themselves, where they are few: those that come first for a reader that follows.
    chunks: tuple[Chunk, ...] | None = None

    def pages(self) -> Iterator[tuple[Chunk, ...]]:
        """The chunks as they are now, with their counts by subject. Captures since then may have added some."""
        if self.chunks is not None:
            yield self.chunks
            return
        for page in self.selected.pages():
            yield self.selected.with_subjects(page)

    def has(self, token: str, seq: int) -> bool:
        """True if one of the chunks covers this sequence of the incarnation with this token."""
        rows = self.selected.workspace.catalog.points.sequence(self.selected.archive, seq)
        return any(row.incarnation.token == token and row.chunk_id in self.ids for row in rows)


def choose(selected: ArchiveSelection, *, over_gaps: bool, incarnation: Incarnation | None = None) -> Chosen:
    """The chunks of the selection. Raises OperatorError if there are none, or unless `over_gaps` if messages between
    them were lost; of one `incarnation`, where it is given."""

    def asked() -> tuple[tuple[HourOfChunks, ...], list[SeqRange], Chosen | None]:
        hours = selected.hours()
        lost = [] if over_gaps or not hours else uncovered(selected, Held.of_hours(hours))
        if incarnation:
            lost = [r for r in lost if not isinstance(r, OfIncarnation) or r.incarnation == incarnation]
        return hours, lost, None if lost or not hours else _chosen(selected, hours)

    hours, lost, chosen = selected.of_one_state(asked)
    if lost:
        raise OperatorError(*lost_of_selection(selected.archive, lost))
    if chosen is None:
        raise _nothing_held(selected)
    if not chosen.ids:
        raise _no_subject(selected, hours)
    return chosen


def choose_next(selected: ArchiveSelection, *, over_gaps: bool) -> Chosen:
    """The chunks that come first for one who follows the archive: none where a capture has yet to bring them. Raises
    OperatorError if messages before or between them were lost."""
    found = next_chunks(selected, None, over_gaps=over_gaps)
    if found.lost:
        raise OperatorError(*lost_of_selection(selected.archive, found.lost))
    return chosen_of(selected, selected.with_subjects(found.chunks))


def chosen_of(selected: ArchiveSelection, chunks: tuple[Chunk, ...]) -> Chosen:
    """These chunks, which have their counts by subject."""
    return _added_up(selected, [chunks], chunks)


def _chosen(selected: ArchiveSelection, hours: Sequence[HourOfChunks]) -> Chosen:
    if selected.selection.selects_all_subjects:
        return _summed(selected, hours)
    return _added_up(selected, (selected.with_subjects(page) for page in selected.pages()))


def _summed(selected: ArchiveSelection, hours: Sequence[HourOfChunks]) -> Chosen:
    """Returns what is chosen. Postgres adds it up, but for chunks that the times or the sequences cut."""
    catalog, archive, selection = selected.workspace.catalog, selected.archive, selected.selection
    extent, chunks = Extent(selection), tuple[Chunk, ...]()
    if cut := {hour.hour for hour in hours if hour.is_cut}:
        chunks = catalog.chunks.select(
            archive, hours=[*cut], time_range=selection.times, seqs=selection.sequences, with_subjects=True
        )
    parts = selected.parts(c for c in chunks if is_cut(c.meta, selection))
    pieces = [(p.chunk.meta.incarnation, p.chunk.meta.covers, p) for p in parts]
    pieces += [(h.incarnation, h.covers, h) for h in hours if not h.is_cut]
    for _, _, piece in sorted(pieces, key=lambda one: (one[0].created_ns, one[1])):
        if isinstance(piece, HourOfChunks):
            extent.add_whole(piece)
        else:
            extent.add(piece)
    ids, subjects = catalog.chunk_sums.ids(archive, selection), catalog.chunk_sums.subjects(archive, selection)
    return Chosen(selected, extent, ids, subjects, hours[-1].incarnation)


def _added_up(
    selected: ArchiveSelection, pages: Iterable[Sequence[Chunk]], chunks: tuple[Chunk, ...] | None = None
) -> Chosen:
    extent, ids, subjects = Extent(selected.selection), array("q"), dict[str, int]()
    newest: Incarnation | None = None
    for page in pages:
        for part in selected.parts(page):
            extent.add(part)
        for chunk in page:
            ids.append(chunk.id)
            newest = chunk.meta.incarnation
            for subject, count in (chunk.meta.subjects or {}).items():
                subjects[subject] = subjects.get(subject, 0) + count
    return Chosen(selected, extent, ids, subjects, newest, chunks)


def _nothing_held(selected: ArchiveSelection) -> OperatorError:
    name, gone = selected.archive.name, "".join(f". {note}" for note in removed_notes(selected))
    return OperatorError(f"Archive {name} holds nothing of this selection{gone}", Next.LIST_CHUNKS(archive=name))


def _no_subject(selected: ArchiveSelection, hours: Sequence[HourOfChunks]) -> OperatorError:
    archive, subjects = selected.archive, selected.selection.subjects
    (first,) = selected.workspace.catalog.chunks.select(archive, hours=[hours[0].hour], limit=1)
    return OperatorError(
        f"No subject of archive {archive.name} in this selection matches {' or '.join(map(repr, subjects))}",
        Next.GET_CHUNK(archive=archive.name, chunk=first.id),
    )
