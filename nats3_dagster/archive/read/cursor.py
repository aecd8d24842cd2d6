"""Cursor: goes through a selection of an archive in the order of the stream, and on into the stream; it can be saved.

Invariant: no sequence is passed that is missing, and none is read twice, however often it was saved and resumed.
"""

import base64
import binascii
import json
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Self, cast

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.read.ahead import Ahead, Position, ahead, is_over
from nats3_dagster.archive.read.fetch import fetch_chunks
from nats3_dagster.archive.read.live import read_live
from nats3_dagster.archive.read.lookup import chunks_of, uncovered, with_subjects
from nats3_dagster.archive.read.ranged import open_ranged
from nats3_dagster.archive.source import made_again, rewritten, shorter, source_state
from nats3_dagster.errors import LostMessages, ObjectMissing, OperatorError, SourceError, Unknown
from nats3_dagster.model import Archive, Chunk, Coverage, Incarnation, Selection, SeqRange, Witness
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

_FORMAT = 1
# Chunks that are asked of the catalog at a time, and objects that are fetched ahead of the one that is read.
ROUND, AHEAD = 256, 2
# How often the stream is asked for new messages, and how long before the archive is looked at again.
POLL_S, LOOK_S = 0.25, 10.0
# How long what the stream no longer has may take to come into the archive: a capture that has it commits it late.
PATIENCE_S = 60.0


class Cursor:
    """`for batch in cursor.batches(): ...; save(cursor.token())`. Not for several threads at once.

    The token counts a batch as read when the next one is asked for, or when `advance` is called."""

    def __init__(
        self, workspace: Workspace, archive: Archive, selection: Selection, *, over_gaps: bool,
        position: Position | None = None, witness: Witness | None = None,
    ) -> None:  # fmt: skip
        """Use `begin` or `resume`."""
        self._workspace, self._archive, self.selection, self.over_gaps = workspace, archive, selection, over_gaps
        # All of the selection up to it was read; None before the first batch.
        self.position: Position | None = position
        # The newest message that was read: a server that forgot it gives its sequence to another one.
        self._witness = witness
        # What becomes of these when the last batch counts as read.
        self._pending: tuple[Position, Witness | None] | None = None
        self._few = False

    @classmethod
    def begin(
        cls, workspace: Workspace, archive: Archive, selection: Selection, *, over_gaps: bool = False
    ) -> Self:
        """A cursor before the first message of the selection. `over_gaps`: pass what was lost."""
        return cls(workspace, archive, selection, over_gaps=over_gaps)

    @classmethod
    def resume(cls, workspace: Workspace, token: str) -> Self:
        """The cursor that was saved. Raises OperatorError if the token is none or has another format, and if it is of
        another catalog, of an archive that was deleted (and maybe made again), or of an incarnation of the stream that
        the archive does not have."""
        saved = _parsed(token)
        name = saved["archive"]
        archive = workspace.catalog.archives.find(name)
        if archive is None:
            raise Unknown(f"The cursor is of archive {name}, which is not there", Next.LIST_ARCHIVES())
        if str(archive.job_id) != saved["id"]:
            raise OperatorError(
                f"The cursor is of another archive {name}: one that was deleted, or of another catalog",
                "Begin a new cursor",
            )
        cursor = cls(workspace, archive, saved["selection"], over_gaps=saved["over_gaps"], position=saved["position"],
                     witness=saved["witness"])  # fmt: skip
        if cursor.position and cursor.position[0] not in workspace.catalog.coverage.incarnations(archive):
            life = cursor.position[0]
            raise OperatorError(
                f"The cursor is of the {life.stream} of {life.token}, which archive {name} does not have",
                "Begin a new cursor",
            )
        return cursor

    def token(self) -> str:
        """The cursor as text, safe in URLs: JSON in base64. It holds no secret."""
        selection = asdict(self.selection)
        value = {
            "format": _FORMAT, "archive": self._archive.name, "id": str(self._archive.job_id),
            "over_gaps": self.over_gaps, "selection": {k: v for k, v in selection.items() if v},
            "position": self.position and [self.position[0].stream, self.position[0].created_ns, self.position[1]],
            "witness": self._witness and [self._witness.seq, self._witness.time_ns],
        }  # fmt: skip
        text = json.dumps({key: item for key, item in value.items() if item}, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @property
    def archive(self) -> Archive:
        return self._archive

    @property
    def incarnation(self) -> Incarnation:
        """Of the last batch."""
        at = self._pending[0] if self._pending else self.position
        assert at is not None
        return at[0]

    def advance(self, upto: tuple[int, int] | None = None) -> None:
        """Count the last batch as read now; `upto`: only up to this message of it, by its sequence and store time in
        nanoseconds."""
        if self._pending and upto:
            self.position, self._witness = (self._pending[0][0], upto[0]), Witness(*upto)
        elif self._pending:
            self.position, self._witness = self._pending
            self._pending = None

    def batches(self, *, follow: bool = False, few: bool = False) -> Iterator[pa.RecordBatch]:
        """Batches of MESSAGES, none empty, in the order of the stream. It ends with what is archived of the selection;
        with `follow` it goes on with what the stream has behind it, waits for new messages, and ends only with the
        selection, if that has an end. Of an archive that takes its messages from a queue it reads the archive alone.
        `few`: a part of a chunk will do; it is read row group by row group, and none ahead.

        Raises LostMessages for what is missing, unless the cursor goes over gaps; StreamChanged if the stream is
        another one or forgot messages; OperatorError for `follow` of hours; SourceError, StoreError, CatalogError.
        After an error the token is still right."""
        self._few = few
        if self.selection.hours:
            if follow:
                raise OperatorError("Hours have an end: nothing comes behind them", "Give a time instead")
            yield from self._hours()
            return
        stuck_since: float | None = None
        while not self._at_end():
            catalog = self._workspace.catalog
            archive = self._current()
            # Asked first: what `ahead` finds afterwards is at least all of this.
            coverages = catalog.coverage.all(archive)
            over = follow and is_over(self._workspace, archive, self.selection)
            found = self._ahead(archive)
            if found.chunks:
                stuck_since = None
                yield from self._read(found.chunks)
                continue
            if found.lost:
                raise _lost(archive, found.lost)
            if over and not found.is_open:
                return
            if not follow:
                if found.is_open:
                    raise self._open(archive)
                return
            unsure: SeqRange | None = None
            if archive.spec.mode == "stream":
                before = self.position
                unsure = cast("SeqRange | None", (yield from self._live(archive, coverages, found.is_open)))
                if self.position != before:
                    stuck_since = None
            if unsure is not None:
                stuck_since = stuck_since or time.monotonic()
                if time.monotonic() - stuck_since > PATIENCE_S:
                    raise _lost(archive, [unsure])
            catalog.rest()
            time.sleep(POLL_S)

    def _ahead(self, archive: Archive) -> Ahead:
        """What the archive has behind the position. A chunk that was read in part comes again."""
        after, seq = self.position, 0
        if after is not None:
            life, seq = after
            after = life, self._workspace.catalog.subjects.begin_of(archive, life, seq + 1) - 1
        found = ahead(self._workspace, archive, self.selection, after, over_gaps=self.over_gaps, limit=ROUND)
        if found.lost and after and after[1] < seq and all(lost.last <= seq for lost in found.lost):
            # They lie in the part that was read.
            return ahead(self._workspace, archive, self.selection, after, over_gaps=True, limit=1)
        return found

    def _read(self, chunks: Sequence[Chunk]) -> Iterator[pa.RecordBatch]:
        """The selected messages of these chunks; it ends before a chunk that was retired meanwhile."""
        wanted = with_subjects(chunks, self.selection)
        if self._few:
            opened = ((chunk, open_ranged(self._workspace, chunk)) for chunk in wanted)
        else:
            opened = fetch_chunks(self._workspace.bucket, wanted, AHEAD)
        ids = {chunk.id for chunk in wanted}
        for chunk in chunks:
            life, covers = chunk.meta.incarnation, chunk.meta.covers
            done = self.position[1] if self.position and self.position[0] == life else 0
            if chunk.id in ids:
                try:
                    _, reader = next(opened)
                except ObjectMissing:
                    if self._workspace.catalog.points.chunk(chunk.id) is None:
                        return
                    raise
                window = self.selection.sequences or SeqRange(1, covers.last)
                window = SeqRange(max(done + 1, window.first), window.last)
                for batch in reader.batches(seqs=window, times=self.selection.times) if window.size > 0 else ():
                    yield from self._hand_over(batch, life, int(batch.column("seq")[-1].as_py()))
            self._move(life, max(covers.last, done))

    def _live(
        self, archive: Archive, coverages: Sequence[Coverage], is_open: bool
    ) -> Generator[pa.RecordBatch, None, SeqRange | None]:
        """Read the stream behind what is archived, for a while; what only the archive can tell of ends it. `coverages`:
        as they were before the archive was read. `is_open`: there is a hole, which a capture may fill."""
        newest = coverages[-1]
        life: Incarnation = newest.incarnation
        began = time.monotonic()
        while not self._at_end():
            state = source_state(self._workspace, archive)
            if changed := made_again(archive, coverages, state):
                raise changed
            if state.incarnation != life:
                return None
            done: int = newest.start - 1
            if self.position and self.position[0] == life:
                done = self.position[1]
                if changed := shorter(archive, state, done):
                    raise changed
                if self._witness and (changed := rewritten(self._workspace.link, archive, state, self._witness)):
                    raise changed
            first, last = max(done, newest.last) + 1, state.last_seq
            if is_open:
                own = self.position[0] == life if self.position else len(coverages) == 1
                holes = self._workspace.catalog.coverage.missing(archive, life, SeqRange(done + 1, newest.last))
                if not own or self.selection.times or not holes:
                    return None  # a capture has to fill it
                first, last = holes[0].first, min(holes[0].last, state.last_seq)
            if self.selection.sequences:
                first, last = max(first, self.selection.sequences.first), min(last, self.selection.sequences.last)
            if first <= last:
                parts = read_live(self._workspace, archive, state, SeqRange(first, last), over_gaps=self.over_gaps)
                while True:
                    try:
                        part = next(parts)
                    except StopIteration as end:
                        unsure: SeqRange | None = end.value
                        if unsure is not None:
                            return unsure
                        break
                    yield from self._hand_over(self._timed(part.batch), life, part.last)
            if is_open or time.monotonic() - began > LOOK_S:
                return None
            time.sleep(POLL_S)
        return None

    def _hand_over(self, batch: pa.RecordBatch, life: Incarnation, last: int) -> Iterator[pa.RecordBatch]:
        """The selected messages of the batch, if any; then all up to `last` counts as read."""
        if self.selection.subjects and batch.num_rows:
            subjects = batch.column("subject").dictionary_encode()
            taken = [self.selection.takes_subject(name) for name in subjects.dictionary.to_pylist()]
            batch = batch.filter(pc.take(pa.array(taken, pa.bool_()), subjects.indices))
        if batch.num_rows:
            witness = Witness(batch.column("seq")[-1].as_py(), batch.column("time_ns")[-1].as_py())
            self._pending = (life, last), witness
            yield batch
            self.advance()
        self._move(life, last)

    def _move(self, life: Incarnation, seq: int) -> None:
        """All of the incarnation up to this sequence was read."""
        if self.position and self.position[0] != life:
            self._witness = None
        self.position = life, seq

    def _timed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self.selection.times or not batch.num_rows:
            return batch
        stamps = batch.column("time_ns").to_numpy()
        first, end = self.selection.times
        return batch.filter(pa.array((stamps >= first) & (stamps < end)))

    def _hours(self) -> Iterator[pa.RecordBatch]:
        """What is archived of a selection with hours, until nothing more of it comes."""
        while True:
            archive = self._current()
            chunks = chunks_of(self._workspace, archive, self.selection)
            rest = [chunk for chunk in chunks if self._is_behind(chunk)]
            if not rest:
                return
            if not self.over_gaps and (lost := uncovered(self._workspace, archive, self.selection, chunks)):
                raise _lost(archive, lost)
            yield from self._read(rest)

    def _is_behind(self, chunk: Chunk) -> bool:
        if self.position is None:
            return True
        life, seq = self.position
        meta = chunk.meta
        return meta.covers.last > seq if meta.incarnation == life else meta.incarnation.created_ns > life.created_ns

    def _at_end(self) -> bool:
        sequences = self.selection.sequences
        return sequences is not None and self.position is not None and self.position[1] >= sequences.last

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
            f"No capture has taken the sequences {_listed(holes)} of archive {archive.name} yet, and it has later ones",
            Next.CAPTURE_LACKING(archive=archive.name),
        )


def _lost(archive: Archive, lost: Sequence[SeqRange]) -> LostMessages:
    return LostMessages(
        f"Sequences of the selection are not in archive {archive.name}: {_listed(lost)}",
        Next.CAPTURE_OR_READ_OVER_GAPS(), ranges=tuple(lost),
    )  # fmt: skip


def _listed(ranges: Sequence[SeqRange]) -> str:
    return f"{', '.join(map(str, ranges[:3]))}{' ...' if len(ranges) > 3 else ''}"


def _parsed(token: str) -> dict[str, Any]:
    """Raises OperatorError."""
    try:
        saved = json.loads(base64.b64decode(token + "=" * (-len(token) % 4), b"-_", validate=True))
        if saved["format"] != _FORMAT:
            raise OperatorError(
                f"The cursor has format {saved['format']}, and this release reads {_FORMAT}", "Begin a new cursor"
            )
        given = dict(saved.get("selection", {}))
        for name in ("hours", "subjects"):
            given[name] = tuple(given.get(name, ()))
        if "sequences" in given:
            given["sequences"] = SeqRange(*given["sequences"])
        position, witness = saved.get("position"), saved.get("witness")
        return {
            "archive": str(saved["archive"]), "id": saved["id"], "over_gaps": bool(saved.get("over_gaps")),
            "selection": Selection(**given),
            "position": (Incarnation(position[0], position[1]), int(position[2])) if position else None,
            "witness": Witness(*map(int, witness)) if witness else None,
        }  # fmt: skip
    except (binascii.Error, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"{token[:40]!r} is not a cursor"
        raise OperatorError(what, "Give the whole text that was saved", field="cursor") from error
