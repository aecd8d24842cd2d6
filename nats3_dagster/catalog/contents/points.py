"""Points: where one message is, by its sequence or by its time. No chunk's lists are read, however long they are."""

from dataclasses import dataclass

from nats3_dagster.catalog.rows import ChunkRow
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.model import Archive, Chunk, Incarnation, Reason, SeqRange


@dataclass(slots=True, kw_only=True)
class SequenceRow:
    """The record of one incarnation of an archive about a sequence. At most one of chunk, gap and hole is set; none is
    if the sequence lies before `start_seq` or after `last_seq`."""

    stream: str
    created_ns: int
    start_seq: int
    # The last sequence that is in a chunk or a gap.
    last_seq: int
    # The live chunk that covers it.
    chunk_id: int | None
    # Sequences around it that the chunk covers and has no message of; None where it has the message, or its list of
    # absent sequences is not known.
    absent: SeqRange | None
    absent_reason: Reason | None
    # The sequences of the gap that it lies in, and why they are in no chunk.
    gap: SeqRange | None
    reason: Reason | None
    # The sequences around it that are in no chunk and no gap.
    hole: SeqRange | None

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.stream, self.created_ns)


class Points:
    """Find chunks of single messages."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def sequence(self, archive: Archive, seq: int) -> tuple[SequenceRow, ...]:
        """Returns the record of each incarnation of the archive about a sequence, oldest first."""
        with self._session.reading() as sql:
            return tuple(sql.rows(SequenceRow, "sequence_in", archive=archive.id, seq=seq))

    def first_at(self, archive: Archive, time_ns: int, incarnation: Incarnation | None = None) -> Chunk | None:
        """The first live chunk in the order of the stream with a message of this store time or a later one, without its
        lists; None when there is none. `incarnation`: of this one alone."""
        created_ns = incarnation and incarnation.created_ns
        with self._session.reading() as sql:
            row = sql.row(ChunkRow, "first_chunk_at", archive=archive.id, time_ns=time_ns, created_ns=created_ns)
        return None if row is None else row.chunk()

    def messages_from(self, archive: Archive, incarnation: Incarnation, seq: int) -> int:
        """The number of messages in the live chunks of the incarnation that begin at this sequence or later."""
        with self._session.reading() as sql:
            return sql.value(
                int,
                "messages_from",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                seq=seq,
            )

    def last_to(self, archive: Archive, incarnation: Incarnation, seq: int) -> Chunk | None:
        """The last live chunk of the incarnation that begins at this sequence or before it, without its lists."""
        with self._session.reading() as sql:
            row = sql.row(
                ChunkRow,
                "last_chunk_to",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                seq=seq,
            )
        return None if row is None else row.chunk()

    def chunk(self, chunk_id: int) -> Chunk | None:
        """A live chunk without its lists; None when there is none."""
        with self._session.reading() as sql:
            row = sql.row(ChunkRow, "chunk", chunk=chunk_id)
        return None if row is None else row.chunk()
