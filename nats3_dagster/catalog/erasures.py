"""Erasures: messages leave an archive for good, and the objects that have them are known until they are gone.

Invariant: one transaction takes the messages out of the archive and keeps the objects that still have them. So an
erasure that dies is finished by the next process that asks for the list.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from nats3_dagster.catalog.archives import lock_archive
from nats3_dagster.catalog.chunks import Chunks
from nats3_dagster.catalog.history import note
from nats3_dagster.catalog.multirange import to_multirange
from nats3_dagster.catalog.pool import Session
from nats3_dagster.errors import Conflict
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, ChunkMeta, DeadObject, Gap, SeqRange


@dataclass(slots=True, kw_only=True)
class ErasureRow:
    """A finished erasure."""

    id: int
    reason: str
    # Kinds of conditions: subject, sequences, hours, times, header, where.
    chosen_by: list[str]
    messages: int
    # Chunks that had them.
    chunks: int


class Erasures:
    """Begin, take out, finish."""

    def __init__(self, session: Session, chunks: Chunks) -> None:
        self._session = session
        self._chunks = chunks

    def begin(self, archive: Archive, reason: str, chosen_by: Sequence[str]) -> int:
        """The id of a new erasure."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            return sql.value(int, "add_erasure", archive=archive.id, reason=reason, chosen_by=list(chosen_by))

    def swap(
        self,
        archive: Archive,
        erasure: int,
        old: Chunk,
        erased: Sequence[SeqRange],
        metas: Sequence[ChunkMeta],
        gaps: Sequence[Gap],
        *,
        begun: datetime,
    ) -> None:
        """Put chunks and gaps with the other messages in the place of a live chunk. `begun`: see `Chunks.commit`.
        Raises Conflict if the chunk is no longer live, a running replay has to publish it, or the archive was deleted;
        Held if a hold covers the chunk."""
        incarnation = old.meta.incarnation
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            if replay := sql.value_or_none(str, "replay_of_chunk", chunk=old.id):
                raise Conflict(
                    f"Replay {replay} still has to publish messages of chunk {old.id}",
                    "Wait until it has ended, or cancel it; then erase again",
                )
            self._chunks.replace(archive, [old.id], metas, gaps, begun=begun, merged=[old.id], what=None)
            sql.run(
                "add_erased_objects",
                erasure=erasure,
                archive=archive.id,
                stream=incarnation.stream,
                created_ns=incarnation.created_ns,
                ranges=to_multirange(erased),
            )
            sql.run("count_erased", erasure=erasure, messages=sum(seqs.size for seqs in erased))
            fault_point("erase.in_swap")

    def add_object(self, erasure: int, one: DeadObject) -> None:
        """Keep an object that no chunk has and that is to be removed."""
        with self._session.transaction() as sql:
            sql.run("add_erased_object", erasure=erasure, bucket=one.bucket, key=one.key)

    def objects(self, archive: Archive) -> list[DeadObject]:
        """The objects that are to be removed."""
        with self._session.reading() as sql:
            return sql.rows(DeadObject, "erased_objects", archive=archive.id)

    def unfinished_archives(self) -> list[str]:
        """The archives with an erasure that is not finished."""
        with self._session.reading() as sql:
            return sql.values(str, "unfinished_erasures")

    def exports_of(self, archive: Archive, hours: Sequence[str]) -> list[str]:
        """The exports that have files of one of these hours."""
        with self._session.reading() as sql:
            return sql.values(str, "exports_with_hours", archive=archive.id, hours=list(hours))

    def gone(self, objects: Sequence[DeadObject]) -> None:
        """These objects are gone from every bucket."""
        with self._session.transaction() as sql:
            buckets, keys = [one.bucket for one in objects], [one.key for one in objects]
            sql.run("forget_erased_objects", buckets=buckets, keys=keys)

    def finish(self, archive: Archive, run_id: str | None = None) -> list[ErasureRow]:
        """Finish the erasures that have no object left; each is then in the history of the archive."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            done = sql.rows(ErasureRow, "finish_erasures", archive=archive.id)
            # What erased nothing, or was refused, is no erasure of the archive.
            for one in (erased for erased in done if erased.messages):
                detail = {"messages": one.messages, "chunks": one.chunks, "reason": one.reason, "by": one.chosen_by}
                note(sql, archive, "erased", detail, run_id)
            return done
