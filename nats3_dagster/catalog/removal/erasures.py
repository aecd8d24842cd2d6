"""Erasures: messages leave an archive for good.

Invariant: an erasure is kept, with its sequences, before anything is removed for it, and stays open until a search has
found no message of it. Postgres refuses every chunk that has an erased message (migrations/sql/0100_erasures.sql).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.archives.history import note
from nats3_dagster.catalog.contents.chunks import Chunks
from nats3_dagster.catalog.session.multirange import from_multirange, to_multirange
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict, Held
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, ChunkMeta, Gap, Incarnation, SeqRange
from nats3_dagster.model.erasure import ErasureRecord
from nats3_dagster.steps import Next


@dataclass(slots=True, kw_only=True)
class ErasureRow:
    """An erasure without its sequences."""

    id: int
    record_id: UUID
    number: int
    previous: str | None
    # Of its record, in hex.
    digest: str
    messages: int
    decided_at: datetime
    # Whether a search has yet to find nothing of it.
    is_open: bool


@dataclass(slots=True, kw_only=True)
class _FinishedRow:
    """An erasure that ended now."""

    number: int
    messages: int


@dataclass(slots=True, kw_only=True)
class _RangesRow:
    """The erased sequences of an incarnation, as the text of an int8multirange."""

    created_ns: int
    ranges: str


@dataclass(slots=True, kw_only=True)
class _HeldRow:
    """A chunk that a hold covers."""

    seqs: SeqRange
    hour: str
    name: str


@dataclass(slots=True, kw_only=True)
class _ReplayRow:
    """A chunk that a replay has to publish."""

    replay: str
    chunk: int


@dataclass(slots=True, kw_only=True)
class _CutRow:
    """A chunk that may have erased messages; incarnation and first sequence are its place in the order."""

    id: int
    created_ns: int
    first: int


class Erasures:
    """Decide, learn, take out, finish."""

    def __init__(self, session: Session, chunks: Chunks) -> None:
        self._session = session
        self._chunks = chunks

    def decide(
        self, archive: Archive, record: ErasureRecord, digest: str, *, reason: str, chosen_by: Sequence[str]
    ) -> None:
        """Record an erasure that was asked for, in the history too, and note that nothing may write its messages from
        now on. Raises Held if a hold covers one of its chunks, Conflict if a running replay has to publish one; then
        nothing was done."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            for created_ns, ranges in record.sequences.items():
                given = {
                    "archive": archive.id,
                    "stream": archive.spec.stream,
                    "created_ns": created_ns,
                    "ranges": to_multirange(ranges),
                }
                if held := sql.row(_HeldRow, "holds_on_erasure", **given):
                    raise Held(
                        f"The hold {held.name} keeps messages of the chunk {held.seqs} of {held.hour}",
                        Next.DELETE_HOLD(archive=archive.name, hold=held.name),
                    )
                if replay := sql.row(_ReplayRow, "replay_on_erasure", **given):
                    raise _to_publish(replay.replay, replay.chunk)
            if _add(sql, archive, record, digest, reason, chosen_by):
                detail = {"messages": record.messages, "number": record.number, "reason": reason, "by": [*chosen_by]}
                note(sql, archive, "erased", detail)

    def learn(self, archive: Archive, record: ErasureRecord, digest: str) -> None:
        """Record an erasure whose record was found beside the chunks, as one that is not finished: this catalog is
        older, or was made again."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            if _add(sql, archive, record, digest, "its record was found beside the chunks", ()):
                note(sql, archive, "learned", {"messages": record.messages, "number": record.number})

    def all(self, archive: Archive) -> list[ErasureRow]:
        """The erasures of the archive, ascending by their numbers."""
        with self._session.reading() as sql:
            return sql.rows(ErasureRow, "erasures", archive=archive.id)

    def record(self, archive: Archive, row: ErasureRow) -> ErasureRecord:
        """The record of an erasure, as it is beside the chunks."""
        sequences = self._ranges(archive, erasure=row.id)
        return ErasureRecord(row.record_id, row.number, row.previous, row.decided_at, sequences)

    def sequences(self, archive: Archive, *, is_open: bool = False) -> dict[int, tuple[SeqRange, ...]]:
        """The erased sequences by the incarnation's `created_ns`, of all erasures or of the open ones."""
        return self._ranges(archive, is_open=is_open)

    def of(self, archive: Archive, incarnation: Incarnation, within: SeqRange) -> tuple[SeqRange, ...]:
        """The erased ranges of an incarnation that touch `within`, ascending."""
        found = self._ranges(archive, created_ns=incarnation.created_ns, within=within)
        return found.get(incarnation.created_ns, ())

    def hours_with(self, archive: Archive, incarnation: Incarnation, ranges: Sequence[SeqRange]) -> list[str]:
        """The hour of each live chunk that has, or may have, a message of these sequences."""
        with self._session.reading() as sql:
            return sql.values(
                str,
                "hours_with",
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                ranges=to_multirange(ranges),
            )

    def to_cut(self, archive: Archive) -> list[int]:
        """The ids of live chunks that may have messages of an open erasure, in the order of the stream."""
        with self._session.reading() as sql:
            return [row.id for row in sql.rows(_CutRow, "chunks_to_cut", archive=archive.id)]

    def hours(self, archive: Archive) -> list[str]:
        """The hours whose sequences an open erasure touches, ascending."""
        with self._session.reading() as sql:
            return sql.values(str, "hours_of_open_erasures", archive=archive.id)

    def swap(
        self,
        archive: Archive,
        old: Chunk,
        metas: Sequence[ChunkMeta],
        gaps: Sequence[Gap],
        *,
        begun: datetime,
    ) -> None:
        """Put chunks and gaps with the other messages in the place of a live chunk. `begun`: see `Chunks.commit`.
        Raises Conflict if the chunk is no longer live, a running replay has to publish it, or the archive was deleted;
        Held if a hold covers the chunk."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            if replay := sql.value_or_none(str, "replay_of_chunk", chunk=old.id):
                raise _to_publish(replay, old.id)
            self._chunks.replace(archive, [old.id], metas, gaps, begun=begun, merged=[old.id], what=None)
            fault_point("erase.in_swap")

    def unfinished_archives(self) -> list[str]:
        """The archives with an erasure that is not finished."""
        with self._session.reading() as sql:
            return sql.values(str, "unfinished_erasures")

    def left_over(self, archive: Archive, objects: int) -> None:
        """Record how many objects with erased messages a search found and could not remove."""
        with self._session.transaction() as sql:
            sql.run("note_left_over", archive=archive.id, objects=objects)

    def reopen(self, archive: Archive) -> None:
        """Let all erasures of the archive count as not finished: a message of one was found."""
        with self._session.transaction() as sql:
            sql.run("reopen_erasures", archive=archive.id)

    def finish(self, archive: Archive, erasures: Collection[int]) -> None:
        """End these erasures, after a search that found nothing; each is then in the history of the archive."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            for one in sql.rows(_FinishedRow, "finish_erasures", archive=archive.id, erasures=list(erasures)):
                note(sql, archive, "erasure_finished", {"messages": one.messages, "number": one.number})

    def former_copies(self, archive: Archive) -> list[str]:
        """The buckets of copies that were taken out of the settings."""
        with self._session.reading() as sql:
            return sql.values(str, "former_copies", archive=archive.id)

    def add_former_copies(self, archive: Archive, buckets: Collection[str]) -> None:
        """Record former copies of an archive that is made again."""
        with self._session.transaction() as sql:
            sql.run("add_former_copies", archive=archive.id, buckets=list(buckets))

    def forget_former_copy(self, archive: Archive, bucket: str) -> bool:
        """Forget a former copy that is gone for good. False if there is none of this bucket."""
        with self._session.transaction() as sql:
            is_forgotten = bool(sql.run("forget_former_copy", archive=archive.id, bucket=bucket))
            if is_forgotten:
                note(sql, archive, "forgotten", {"bucket": bucket})
            return is_forgotten

    def exports_of(self, archive: Archive, hours: Sequence[str]) -> list[str]:
        """The exports that have files of one of these hours."""
        with self._session.reading() as sql:
            return sql.values(str, "exports_with_hours", archive=archive.id, hours=list(hours))

    def other_archives(self, archive: Archive, created_ns: Collection[int]) -> list[str]:
        """The names of other archives of the stream that have chunks of these incarnations."""
        with self._session.reading() as sql:
            return sql.values(str, "other_archives", archive=archive.id, created_ns=list(created_ns))

    def _ranges(
        self,
        archive: Archive,
        *,
        erasure: int | None = None,
        created_ns: int | None = None,
        within: SeqRange | None = None,
        is_open: bool = False,
    ) -> dict[int, tuple[SeqRange, ...]]:
        with self._session.reading() as sql:
            rows = sql.rows(
                _RangesRow,
                "erased_ranges",
                archive=archive.id,
                erasure=erasure,
                created_ns=created_ns,
                first_seq=within and within.first,
                last_seq=within and within.last,
                is_open=is_open,
            )
        return {row.created_ns: from_multirange(row.ranges) for row in rows}


def _add(
    sql: Statements, archive: Archive, record: ErasureRecord, digest: str, reason: str, chosen_by: Sequence[str]
) -> bool:
    """Add an erasure with its sequences; False if the archive has it."""
    erasure = sql.value_or_none(
        int,
        "add_erasure",
        archive=archive.id,
        record_id=record.id,
        number=record.number,
        previous=record.previous,
        digest=digest,
        reason=reason,
        chosen_by=list(chosen_by),
        messages=record.messages,
        decided_at=record.decided_at,
    )
    for created_ns, ranges in record.sequences.items() if erasure is not None else ():
        sql.run(
            "add_erased_ranges",
            archive=archive.id,
            erasure=erasure,
            created_ns=created_ns,
            ranges=to_multirange(ranges),
        )
    return erasure is not None


def _to_publish(replay: str, chunk: int) -> Conflict:
    return Conflict(
        f"Replay {replay} still has to publish messages of chunk {chunk}",
        "Nothing was changed. Wait until it has ended, or cancel it; then erase again",
    )
