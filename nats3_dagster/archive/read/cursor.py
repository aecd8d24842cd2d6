"""Cursor: goes through a selection of an archive in the order of the stream, and on into the stream; it can be saved.

Invariant: no sequence is passed that is missing, and none is read twice, however often it was saved and resumed.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Self

import pyarrow as pa

from nats3_dagster.archive.read import live
from nats3_dagster.archive.read.cursor_state import CursorState
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.boundary_gaps import Boundary
from nats3_dagster.archive.selected.next_chunks import NextChunks, Position, is_over, next_chunks
from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.archive.selected.uncovered import lost_of_selection, whole_chunks
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.errors import LostMessages, ObjectMissing, OperatorError, SourceError, Unknown
from nats3_dagster.model import Archive, Chunk, Incarnation, Selection, SeqRange, listed_ranges
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Chunks that are asked of the catalog at a time, and objects that are fetched ahead of the one that is read.
ROUND, AHEAD = 256, 2
# How long what the stream no longer has may take to come into the archive: a capture that has it commits it late.
PATIENCE_S = 60.0


class Cursor:
    """`for batch in cursor.batches(): ...; save(cursor.token())`. Only one thread at a time may use it.

    The token counts a batch as read when the next one is asked for, or when `advance` is called."""

    def __init__(self, workspace: Workspace, archive: Archive, progress: CursorState) -> None:
        """Use `begin` or `resume`."""
        self._workspace, self._archive, self._progress = workspace, archive, progress
        self._few = False
        self._columns: Sequence[str] | None = None
        self._hour = ""

    @classmethod
    def begin(cls, workspace: Workspace, archive: Archive, selection: Selection, *, over_gaps: bool = False) -> Self:
        """A cursor before the first message of the selection. `over_gaps`: pass what was lost."""
        return cls(workspace, archive, CursorState.begin(archive, selection, over_gaps=over_gaps))

    @classmethod
    def resume(cls, workspace: Workspace, token: str) -> Self:
        """The cursor that was saved. Raises OperatorError as `CursorState.parse`, and if it is of another catalog, of
        an archive that was deleted (and maybe made again), or of an incarnation of the stream that the archive does not
        have."""
        progress = CursorState.parse(token)
        archive = workspace.catalog.archives.find(progress.archive)
        if archive is None:
            raise Unknown(f"The cursor is of archive {progress.archive}, which is not there", Next.LIST_ARCHIVES())
        if str(archive.job_id) != progress.job_id:
            raise OperatorError(
                f"The cursor is of another archive {archive.name}: one that was deleted, or of another catalog",
                "Begin a new cursor",
            )
        if progress.position and progress.position[0] not in workspace.catalog.coverage.incarnations(archive):
            life = progress.position[0]
            raise OperatorError(
                f"The cursor is of the {life.stream} of {life.token}, which archive {archive.name} does not have",
                "Begin a new cursor",
            )
        return cls(workspace, archive, progress)

    def token(self) -> str:
        """The cursor as text; see `CursorState.token`."""
        return self._progress.token()

    def rewind(self, token: str) -> None:
        """Go back to an earlier position of this cursor: what was read since counts as not read."""
        self._progress = CursorState.parse(token)

    @property
    def archive(self) -> Archive:
        return self._archive

    @property
    def selection(self) -> Selection:
        return self._progress.selection

    @property
    def position(self) -> Position | None:
        """All of the selection up to it was read; None before the first batch."""
        return self._progress.position

    @property
    def incarnation(self) -> Incarnation:
        """Returns the incarnation of the last batch."""
        return self._progress.incarnation

    @property
    def hour(self) -> str:
        """Returns the hour under which the last batch is archived; of a batch that came from the archive."""
        return self._hour

    def removed(self) -> tuple[Removed, ...]:
        """The messages of the selection that were removed from the archive on purpose, and that no read gives."""
        return removed(self._workspace, self._current(), self.selection)

    def begin_at(self, incarnation: Incarnation, seq: int) -> None:
        """Begin after this sequence of an incarnation: what comes before it counts as read."""
        self._progress.move(incarnation, seq)

    def advance(self, upto: tuple[int, int] | None = None) -> None:
        """Count the last batch as read now; `upto`: only up to this message of it, by its sequence and store time in
        nanoseconds."""
        self._progress.advance(upto)

    def batches(
        self, *, follow: bool = False, few: bool = False, columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Batches of MESSAGES, none empty, in the order of the stream. It ends with the last archived message of the
        selection; with `follow` it continues with the stream's later messages, waits for new ones, and ends only with
        the selection, if that has an end. It reads the archive alone if that takes its messages from a queue. `few`: a
        part of a chunk will do; it is read row group by row group, and none ahead. `columns`: those of a chunk that are
        read, instead of MESSAGES, and not with `follow`; `seq` and `time_ns` are among them.

        Raises LostMessages for what is missing, unless the cursor goes over gaps; messages before an end that has come
        are missing as long as no capture brought them. StreamChanged if the stream is another one or forgot messages;
        OperatorError for `follow` of hours; SourceError, StoreError, CatalogError. After an error the token is still
        right."""
        self._few, self._columns = few, columns
        self._progress.forget()
        if self.selection.hours:
            if follow:
                raise OperatorError("A selection by hours has an end and cannot be followed", "Give a time instead")
            yield from self._hours()
            return
        stuck_since: float | None = None
        while not self._progress.is_at_end:
            catalog = self._workspace.catalog
            archive = self._current()
            selected = self._selected(archive)
            # Asked first: what `ahead` finds afterwards is at least all of this.
            coverages, revision = catalog.coverage.all(archive), catalog.hours.revision(archive)
            over = follow and is_over(selected)
            found = self._ahead(selected)
            if found.chunks:
                stuck_since = None
                yield from self._read(selected, found.chunks)
                continue
            if found.lost:
                raise _lost(archive, found.lost)
            if over and not found.is_open:
                return
            if not follow:
                if found.is_open:
                    raise self._open(archive)
                if not self._progress.over_gaps and self._has_end:
                    self._check_end(selected)
                    if catalog.hours.revision(archive) != revision:
                        continue  # a capture may just have brought what was missing
                return
            unsure: SeqRange | None = None
            if archive.spec.mode == "stream":
                before = self.position
                unsure = yield from live.tail(
                    self._workspace, archive, self._progress, coverages, is_open=found.is_open
                )
                if self.position != before:
                    stuck_since = None
            if unsure is not None:
                stuck_since = stuck_since or time.monotonic()
                if time.monotonic() - stuck_since > PATIENCE_S:
                    raise _lost(archive, [unsure])
            catalog.rest()
            time.sleep(live.POLL_S)

    def _ahead(self, selected: ArchiveSelection) -> NextChunks:
        """Returns the archive's chunks after the position. A chunk that was read in part comes again."""
        return next_chunks(selected, self.position, over_gaps=self._progress.over_gaps, limit=ROUND)

    def _read(self, selected: ArchiveSelection, chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
        """The selected messages of these chunks; it ends before a chunk that was retired meanwhile."""
        wanted = selected.with_subjects(chunks)
        if self._few:
            opened = ((chunk, open_ranged(self._workspace, chunk)) for chunk in wanted)
        else:
            opened = fetch_chunks(self._workspace.bucket, wanted, AHEAD)
        ids = {chunk.id for chunk in wanted}
        for chunk in chunks:
            life, covers = chunk.meta.incarnation, chunk.meta.covers
            done = self._progress.done_of(life) or 0
            if chunk.id in ids:
                try:
                    _, reader = next(opened)
                except ObjectMissing:
                    if self._workspace.catalog.points.chunk(chunk.id) is None:
                        return
                    raise
                window = self.selection.sequences or SeqRange(1, covers.last)
                window = SeqRange(max(done + 1, window.first), window.last)
                self._hour, times = chunk.meta.hour, self.selection.times
                for batch in reader.batches(self._columns, seqs=window, times=times) if window.size > 0 else ():
                    yield from self._progress.hand_over(batch, life, int(batch.column("seq")[-1].as_py()))
            self._progress.move(life, max(covers.last, done))

    def _hours(self) -> Iterator[pa.RecordBatch]:
        """Yields the archived messages of a selection with hours, until it has no more of them."""
        revision: int | None = None
        while True:
            archive = self._current()
            before, revision = revision, self._workspace.catalog.hours.revision(archive)
            if revision == before:
                return
            selected = self._selected(archive)
            if self._progress.over_gaps:
                chunks = selected.chunks()
            else:
                chunks, lost = whole_chunks(selected, up_to_now=True)
                if lost:
                    raise _lost(archive, lost)
            yield from self._read(selected, [chunk for chunk in chunks if self._progress.has_ahead(chunk)])

    @property
    def _has_end(self) -> bool:
        return self.selection.to_ns is not None or self.selection.sequences is not None

    def _check_end(self, selected: ArchiveSelection) -> None:
        """Raises LostMessages where messages of a selection whose end has come wait for a capture. Without an end, or
        before it, a read ends with what is archived."""
        uncaptured = Boundary.now(selected).uncaptured(up_to_now=True)
        if waiting := [seqs for life, seqs in uncaptured if self._progress.is_ahead(life, seqs)]:
            raise _lost(selected.archive, waiting)

    def _selected(self, archive: Archive) -> ArchiveSelection:
        return ArchiveSelection(self._workspace, archive, self.selection)

    def _current(self) -> Archive:
        """The archive as it is now: its subjects may have been changed. Raises OperatorError if it was deleted."""
        archive = self._workspace.catalog.archives.get(self._archive.name)
        if archive.id != self._archive.id:
            raise OperatorError(f"Archive {archive.name} was deleted and made again", "Begin a new cursor")
        return archive

    def _open(self, archive: Archive) -> SourceError:
        life, seq = self.position or (self._workspace.catalog.coverage.all(archive)[0].incarnation, 0)
        newest = self._workspace.catalog.coverage.of(archive, life).last
        holes = self._workspace.catalog.coverage.missing(archive, life, SeqRange(seq + 1, max(newest, seq + 1)))
        return SourceError(
            f"No capture has taken the sequences {listed_ranges(holes)} of archive {archive.name} yet, and it has "
            "later ones",
            Next.CAPTURE_LACKING(archive=archive.name),
        )


def _lost(archive: Archive, lost: Sequence[SeqRange]) -> LostMessages:
    return LostMessages(*lost_of_selection(archive, lost), ranges=tuple(lost))
