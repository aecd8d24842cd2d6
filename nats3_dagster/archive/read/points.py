"""Points: one message of an archive, by its sequence or by its store time.

Invariant: what the catalog knows not to be there is answered without reading an object, with the reason.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import pyarrow as pa

from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.catalog.contents.points import SequenceRow
from nats3_dagster.errors import ChunkError, NotArchived, ObjectMissing, OperatorError, Unknown
from nats3_dagster.hours import LAST_NS, format_time
from nats3_dagster.model import Archive, Chunk, Incarnation, Message, Reason, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.model.stream import MAX_SEQUENCE
from nats3_dagster.steps import Next, Step
from nats3_dagster.workspace import Workspace

C = TypeVar("C", Chunk, Chunk | None)
R = TypeVar("R")

_NEXT: Final = "Ask for the next message after it"
# Why there is no message, after "Sequence 7 is not in archive logs: ".
_WHY: Final[Mapping[Reason, str]] = {
    "deleted": "it was deleted from the stream before it was captured",
    "expired": "a limit of the stream, or a purge, had removed it before it was captured",
    "superseded": "newer messages of its subject had replaced it before it was captured",
    "ttl": "its time to live had ended before it was captured",
    "superseded_or_ttl": "it had been replaced, or its time to live had ended, before it was captured",
    "damaged": "the server had lost it with a damaged block",
    "undelivered": "the archive's consumer did not deliver it to the archive: it was made again after the message, or "
    "delivered it to another client",
    "missing": "it was gone with its stream before it was captured",
    "unselected": "the archive does not take its subject",
    "retired": "it was taken out of the archive",
    "erased": "it was erased",
    "expired_by_policy": "the archive does not keep messages of its age, or more bytes",
}


def by_sequence(workspace: Workspace, archive: Archive, seq: int, incarnation: Incarnation | None = None) -> Message:
    """The message of this stream sequence, of the newest incarnation unless another one is given.

    Raises OperatorError for what cannot be a sequence, NotArchived with the reason, StoreError, ObjectMissing and
    ChunkError."""

    def read(chunk: Chunk) -> Message:
        for batch in open_ranged(workspace, chunk).batches(seqs=SeqRange(seq, seq)):
            return message_of(chunk, batch, 0)
        raise not_selected(archive, seq, chunk)

    return read_live(lambda: locate(workspace, archive, seq, incarnation), read)


def first_at(
    workspace: Workspace, archive: Archive, time_ns: int, incarnation: Incarnation | None = None
) -> Message | None:
    """The first message, in the order of the stream, whose store time is `time_ns` or later; None when there is none.
    Clocks step back: later messages may be older. `incarnation`: of this one alone. Raises OperatorError for what
    cannot be a time, StoreError, ObjectMissing and ChunkError."""
    if not -LAST_NS <= time_ns <= LAST_NS:
        raise OperatorError(f"{time_ns} is not a time", f"Nanoseconds in 64 bits end at {format_time(LAST_NS)}")

    def read(chunk: Chunk | None) -> Message | None:
        if chunk is None:
            return None
        for batch in open_ranged(workspace, chunk).batches(times=(time_ns, LAST_NS + 1)):
            return message_of(chunk, batch, 0)
        raise ChunkError(f"Chunk {chunk.id} has no message of its own last time", Next.OBJECT_DAMAGED())

    return read_live(lambda: workspace.catalog.points.first_at(archive, time_ns, incarnation), read)


def locate(workspace: Workspace, archive: Archive, seq: int, incarnation: Incarnation | None = None) -> Chunk:
    """The live chunk that has this sequence, without its lists; one under a subject filter may have it. Reads no
    object. Raises OperatorError for what cannot be a sequence or incarnation, and NotArchived."""
    if not 1 <= seq <= MAX_SEQUENCE:
        raise OperatorError(f"{seq} is not a sequence", f"Sequences are from 1 to {MAX_SEQUENCE}", field="seq")
    with workspace.catalog.together():
        return _located(workspace, archive, seq, incarnation)


def _located(workspace: Workspace, archive: Archive, seq: int, incarnation: Incarnation | None) -> Chunk:
    rows = workspace.catalog.points.sequence(archive, seq)
    if not rows:
        raise NotArchived(f"Archive {archive.name} has no messages yet", Next.CAPTURE(archive=archive.name))
    row = rows[-1]
    if incarnation is not None:
        of_life = [r for r in rows if r.incarnation == incarnation]
        if not of_life:
            lives = ", ".join(r.incarnation.token for r in rows)
            raise Unknown(
                f"Archive {archive.name} has no {incarnation.stream} of {incarnation.token}",
                f"It has {lives}",
                field="incarnation",
            )
        row = of_life[0]
    if row.chunk_id is not None and row.absent is None:
        chunk = workspace.catalog.points.chunk(row.chunk_id)
        # Retired since: what has become of it is known now.
        return chunk or _located(workspace, archive, seq, incarnation)
    older = [r for r in rows if r is not row and r.chunk_id is not None and r.absent is None]
    raise _absent(archive, seq, row, older[-1].incarnation if older else None)


def read_live(ask: Callable[[], C], read: Callable[[C], R]) -> R:
    """Returns the result of `read` for the chunk that `ask` finds in the catalog; tries once more if the object is gone
    because the chunk was retired, and swept, in between. Raises as both do, and ChunkError with the chunk's id and
    key."""
    chunk = ask()
    try:
        return _read(chunk, read)
    except ObjectMissing:
        again = ask()
        if again == chunk:
            raise
        return _read(again, read)


def _read(chunk: C, read: Callable[[C], R]) -> R:
    try:
        return read(chunk)
    except ChunkError as error:
        if chunk is None or chunk.meta.key in error.what:
            raise
        raise ChunkError(f"Chunk {chunk.id} ({chunk.meta.key}) is damaged: {error.what}", error.hint) from error


def message_of(chunk: Chunk, batch: pa.RecordBatch, row: int) -> Message:
    """A row of a batch with the columns of MESSAGES."""
    values = {name: batch.column(name)[row].as_py() for name in MESSAGES.names}
    return Message(incarnation=chunk.meta.incarnation, **values)


def not_selected(archive: Archive, seq: int, chunk: Chunk) -> NotArchived:
    """The answer where only the object could tell that the sequence is absent: its archive takes some subjects only."""
    return _because(archive, seq, chunk.meta.absent_reason)


def _absent(archive: Archive, seq: int, row: SequenceRow, earlier: Incarnation | None) -> NotArchived:
    """`earlier`: an incarnation of the archive that has the sequence."""
    name = archive.name
    if row.chunk_id is not None:
        return _because(archive, seq, row.absent_reason, row.absent, earlier)
    if row.gap is not None:
        return _because(archive, seq, row.reason, row.gap, earlier)
    if row.hole is not None:
        why = f"no capture has taken the sequences {row.hole} yet"
        return _not_archived(archive, seq, why, earlier, Next.CAPTURE_LACKING(archive=name))
    if seq < row.start_seq:
        return _not_archived(archive, seq, f"the archive begins with {row.start_seq}", earlier, _NEXT)
    if row.last_seq < row.start_seq:
        return _not_archived(archive, seq, "it has none yet", earlier, Next.CAPTURE(archive=name))
    # The catalog does not know whether the stream has it by now.
    return _not_archived(archive, seq, f"its last one is {row.last_seq}", earlier, Next.GET_ARCHIVE(archive=name))


def _because(
    archive: Archive,
    seq: int,
    reason: Reason | None,
    absent: SeqRange | None = None,
    earlier: Incarnation | None = None,
) -> NotArchived:
    why = _WHY[reason or "unselected"]
    if absent is not None and absent.size > 1:
        why += f" (so are the sequences {absent})"
    return _not_archived(archive, seq, why, earlier, _NEXT)


def _not_archived(archive: Archive, seq: int, why: str, earlier: Incarnation | None, hint: str | Step) -> NotArchived:
    what = f"Sequence {seq} is not in archive {archive.name}: {why}"
    if earlier is not None:
        made = format_time(earlier.created_ns)
        hint = f"The earlier {earlier.stream}, made {made}, has this sequence: ask for that incarnation"
    return NotArchived(what, hint)
