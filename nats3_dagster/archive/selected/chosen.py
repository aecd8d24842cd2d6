"""Chosen: the chunks that a replay takes, of one state of the archive. They are added up, and none is held: a plan asks
for them again, page by page."""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nats3_dagster.archive.selected.extent import Extent, is_cut, parts_of
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.lookup import lost_of_selection, of_one_state, pages_of, uncovered, with_subjects
from nats3_dagster.archive.selected.next_chunks import next_chunks
from nats3_dagster.archive.selected.removed import removed
from nats3_dagster.catalog.contents.chunk_sums import HourOfChunks
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, Chunk, Incarnation, Selection, SeqRange
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Chosen:
    """The chunks with a message of the selection, or that may have one."""

    archive: Archive
    selection: Selection
    extent: Extent
    # Their ids in the order of the stream.
    ids: Sequence[int] = ()
    # Their counted subjects, each with the messages of all of them.
    subjects: Mapping[str, int] = field(default_factory=dict[str, int])
    # The incarnation of the last one; None without one.
    newest: Incarnation | None = None
    # Themselves, where they are few: those that come first for a reader that follows.
    chunks: tuple[Chunk, ...] | None = None

    def pages(self, workspace: Workspace) -> Iterator[tuple[Chunk, ...]]:
        """The chunks as they are now, with their counts by subject. Captures since then may have added some."""
        if self.chunks is not None:
            yield self.chunks
            return
        for page in pages_of(workspace, self.archive, self.selection):
            yield with_subjects(workspace, page, self.selection)

    def has(self, workspace: Workspace, token: str, seq: int) -> bool:
        """True if one of the chunks covers this sequence of the incarnation with this token."""
        rows = workspace.catalog.points.sequence(self.archive, seq)
        return any(row.incarnation.token == token and row.chunk_id in self.ids for row in rows)


def choose(workspace: Workspace, archive: Archive, selection: Selection, *, over_gaps: bool) -> Chosen:
    """The chunks of the selection. Raises OperatorError if there are none, or unless `over_gaps` if messages between
    them were lost."""

    def asked() -> tuple[tuple[HourOfChunks, ...], list[SeqRange], Chosen | None]:
        hours = workspace.catalog.chunk_sums.hours(archive, selection)
        lost = [] if over_gaps or not hours else uncovered(workspace, archive, selection, Held.of_hours(hours))
        return hours, lost, None if lost or not hours else _chosen(workspace, archive, selection, hours)

    hours, lost, chosen = of_one_state(workspace, archive, asked)
    if lost:
        raise OperatorError(*lost_of_selection(archive, lost))
    if chosen is None:
        gone = "".join(f". {note}" for note in removed_notes(workspace, archive, selection))
        raise OperatorError(
            f"Archive {archive.name} holds nothing of this selection{gone}", Next.LIST_CHUNKS(archive=archive.name)
        )
    if not chosen.ids:
        (first,) = workspace.catalog.chunks.select(archive, hours=[hours[0].hour], limit=1)
        wanted = " or ".join(map(repr, selection.subjects))
        raise OperatorError(
            f"No subject of archive {archive.name} in this selection matches {wanted}",
            Next.GET_CHUNK(archive=archive.name, chunk=first.id),
        )
    return chosen


def choose_next(workspace: Workspace, archive: Archive, selection: Selection, *, over_gaps: bool) -> Chosen:
    """The chunks that come first for one who follows the archive: none where a capture has yet to bring them. Raises
    OperatorError if messages before or between them were lost."""
    found = next_chunks(workspace, archive, selection, None, over_gaps=over_gaps)
    if found.lost:
        raise OperatorError(*lost_of_selection(archive, found.lost))
    return chosen_of(workspace, archive, selection, with_subjects(workspace, found.chunks, selection))


def chosen_of(workspace: Workspace, archive: Archive, selection: Selection, chunks: tuple[Chunk, ...]) -> Chosen:
    """These chunks, which have their counts by subject."""
    return _added_up(workspace, archive, selection, [chunks], chunks)


def _chosen(workspace: Workspace, archive: Archive, selection: Selection, hours: Sequence[HourOfChunks]) -> Chosen:
    if selection.selects_all_subjects:
        return _summed(workspace, archive, selection, hours)
    pages = (with_subjects(workspace, page, selection) for page in pages_of(workspace, archive, selection))
    return _added_up(workspace, archive, selection, pages)


def _summed(workspace: Workspace, archive: Archive, selection: Selection, hours: Sequence[HourOfChunks]) -> Chosen:
    """Returns what is chosen. Postgres adds it up, but for chunks that the times or the sequences cut."""
    extent, chunks = Extent(selection), tuple[Chunk, ...]()
    if cut := {hour.hour for hour in hours if hour.is_cut}:
        chunks = workspace.catalog.chunks.select(
            archive, hours=[*cut], time_range=selection.times, seqs=selection.sequences, with_subjects=True
        )
    parts = parts_of(workspace, [c for c in chunks if is_cut(c.meta, selection)], selection)
    pieces = [(p.chunk.meta.incarnation, p.chunk.meta.covers, p) for p in parts]
    pieces += [(h.incarnation, h.covers, h) for h in hours if not h.is_cut]
    for _, _, piece in sorted(pieces, key=lambda one: (one[0].created_ns, one[1])):
        if isinstance(piece, HourOfChunks):
            extent.add_whole(piece)
        else:
            extent.add(piece)
    sums = workspace.catalog.chunk_sums
    ids, subjects = sums.ids(archive, selection), sums.subjects(archive, selection)
    return Chosen(archive, selection, extent, ids, subjects, hours[-1].incarnation)


def _added_up(
    workspace: Workspace,
    archive: Archive,
    selection: Selection,
    pages: Iterable[Sequence[Chunk]],
    chunks: tuple[Chunk, ...] | None = None,
) -> Chosen:
    extent, ids, subjects = Extent(selection), array("q"), dict[str, int]()
    newest: Incarnation | None = None
    for page in pages:
        for part in parts_of(workspace, page, selection):
            extent.add(part)
        for chunk in page:
            ids.append(chunk.id)
            newest = chunk.meta.incarnation
            for subject, count in (chunk.meta.subjects or {}).items():
                subjects[subject] = subjects.get(subject, 0) + count
    return Chosen(archive, selection, extent, ids, subjects, newest, chunks)


def removed_notes(workspace: Workspace, archive: Archive, selection: Selection) -> tuple[str, ...]:
    """Notes on messages of the selection that were taken out of the archive on purpose."""
    parts = removed(workspace, archive, selection)
    return tuple(f"Not in archive {part.archive} any more: {part.text}" for part in parts)
