"""Chunks: committed once, never changed, selected by hour, time or sequence.

Invariant: all that a capture commits is in the archive, or none of it. Postgres refuses chunks and gaps that overlap,
and chunks that do not add up.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.archives.durables import record_deliveries
from nats3_dagster.catalog.archives.history import note
from nats3_dagster.catalog.contents.chunk_rows import add_chunks, id_of
from nats3_dagster.catalog.contents.subjects import counts_of
from nats3_dagster.catalog.rows import ChunkRow, CoverageRow, DeletedRow, StoredSizeRow
from nats3_dagster.catalog.session.multirange import from_multirange, to_multirange
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import broken_rule
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict, Unknown
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, ChunkMeta, Deliveries, Gap, Incarnation, SeqRange, clipped

# Chunks whose absent sequences are asked for at a time.
_LISTS = 200
# Chunks that are read and made at a time.
_BATCH = 10_000


@dataclass(slots=True, kw_only=True)
class _InTimeRow:
    """The sequences between which the chunks of a time lie: `first` None if there is none, `last` None if there are
    many."""

    first: int | None
    last: int | None


class Chunks:
    """Commit, list and retire."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def commit(
        self,
        archive: Archive,
        chunks: Sequence[ChunkMeta],
        gaps: Sequence[Gap] = (),
        *,
        begun: datetime | None = None,
        deliveries: Deliveries | None = None,
        source: Incarnation | None = None,
        merged: Sequence[int] | None = None,
        what: str | None = None,
    ) -> None:
        """Make the chunks and gaps part of the archive. `begun` is a time by `Catalog.now` before the first object was
        put: with it, a chunk is refused if its object was in the store already and a purge removed it meanwhile.
        `deliveries`: which ones of the archive's durable are accounted for then. `source`: what the messages were read
        of; Conflict if a restored stream continues it since. `merged`: the chunks that a compaction made these of.
        `what`: as the history calls it, if it is not a capture.

        Raises Conflict when another process committed some of it first or the archive was deleted."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            coverages = sql.rows(CoverageRow, "coverages", archive=archive.id)
            ids = {row.incarnation: row.incarnation_id for row in coverages}
            _check_source(coverages, source)
            try:
                if chunks:
                    _check_not_removed(sql, chunks, begun)
                    add_chunks(sql, archive, chunks, ids, merged)
                if gaps:
                    sql.run(
                        "add_gaps",
                        archive=archive.id,
                        run_id=current_run(),
                        reasons=[g.reason for g in gaps],
                        incarnations=[id_of(ids, g.incarnation) for g in gaps],
                        ranges=[to_multirange(g.ranges) for g in gaps],
                    )
                if deliveries:
                    record_deliveries(sql, archive, deliveries)
                if what:
                    note(sql, archive, what, {"chunks": len(chunks)})
                fault_point("capture.in_commit")
            except psycopg.IntegrityError as error:
                raise broken_rule(error, archive.name) from error

    def select(
        self,
        archive: Archive,
        *,
        hours: Sequence[str] | None = None,
        time_range: tuple[int | None, int | None] | None = None,
        seqs: SeqRange | None = None,
        incarnation: Incarnation | None = None,
        with_subjects: bool = False,
        with_deleted: bool = False,
        with_minutes: bool = True,
        after: tuple[Incarnation, int] | None = None,
        limit: int | None = None,
    ) -> tuple[Chunk, ...]:
        """The live chunks in the order of the stream (incarnation, then sequence) that meet all conditions: hours; any
        message's time in `[from, to)`, None for no bound; any sequence in `seqs`. `after`: only those with a sequence
        after this one of this incarnation; with the last one of a page, the next page. A compaction may have put what
        was in that page and what is in the next one into one chunk meanwhile: it comes then."""
        start, end = time_range or (None, None)
        chunks: list[Chunk] = []
        # A subject is one string however many chunks have it.
        known: dict[str, str] = {}
        with self._session.reading() as sql:
            # One incarnation at a time: the rows then come in the order of an index, and a page reads a page.
            for covered in sql.rows(CoverageRow, "coverages", archive=archive.id):
                if incarnation and incarnation != covered.incarnation:
                    continue
                if after and covered.created_ns < after[0].created_ns:
                    continue
                begin = after[1] if after and covered.incarnation == after[0] else None
                place = _in_time(sql, archive, covered, time_range, seqs, begin) if time_range else (seqs, begin)
                if place is None:
                    continue
                within, begin = place
                for rows in sql.batches(
                    ChunkRow,
                    "list_chunks",
                    _BATCH,
                    archive=archive.id,
                    incarnation=covered.incarnation_id,
                    hours=None if hours is None else list(hours),
                    timed=time_range is not None,
                    first_ns=start,
                    end_ns=end,
                    first_seq=within and within.first,
                    last_seq=within and within.last,
                    after=begin,
                    limit_to=None if limit is None else limit - len(chunks),
                    minutes=with_minutes,
                ):
                    ids = [row.id for row in rows]
                    subjects = counts_of(sql, ids, known) if with_subjects else {}
                    deleted = _deleted(sql, ids) if with_deleted else {}
                    chunks += [row.chunk(deleted.get(row.id), subjects.get(row.id)) for row in rows]
        return tuple(chunks)

    def pages(self, archive: Archive, size: int, **conditions: Any) -> Iterator[tuple[Chunk, ...]]:
        """The chunks of `select` with these conditions, `size` at a time. No transaction is open between two pages."""
        page: tuple[Chunk, ...] | None = None
        while page is None or len(page) == size:
            after = (page[-1].meta.incarnation, page[-1].meta.covers.last) if page else None
            if page := self.select(archive, after=after, limit=size, **conditions):
                yield page

    def absent_ranges(self, chunk_ids: Sequence[int]) -> Iterator[tuple[SeqRange, ...]]:
        """The absent sequences of each of these chunks that has its list of them, ascending."""
        for at in range(0, len(chunk_ids), _LISTS):
            with self._session.reading() as sql:
                lists = _deleted(sql, list(chunk_ids[at : at + _LISTS]))
            yield from lists.values()

    def of_hour(self, archive: Archive, hour: str, incarnation: Incarnation | None = None) -> tuple[Chunk, ...]:
        """The live chunks of an hour, in the order of the stream."""
        return self.select(archive, hours=[hour], incarnation=incarnation)

    def get(self, chunk_id: int) -> Chunk:
        """A live chunk with its subjects and deleted sequences. Raises OperatorError when there is none."""
        if found := self.find(chunk_id):
            return found
        raise Unknown(f"There is no chunk {chunk_id}")

    def find(self, chunk_id: int) -> Chunk | None:
        """A live chunk with its subjects and deleted sequences; None when there is none."""
        with self._session.reading() as sql:
            row = sql.row(ChunkRow, "chunk", chunk=chunk_id)
            if row is None:
                return None
            subjects, deleted = counts_of(sql, [chunk_id], {}), _deleted(sql, [chunk_id])
        return row.chunk(deleted.get(chunk_id), subjects.get(chunk_id))

    def by_key(self, bucket: str, key: str) -> Chunk | None:
        """The live chunk that has this object; None when there is none."""
        with self._session.reading() as sql:
            chunk_id = sql.value_or_none(int, "chunk_id", bucket=bucket, key=key)
        return None if chunk_id is None else self.find(chunk_id)

    def stored_sizes(self, buckets: Collection[str], keys: Sequence[str]) -> dict[str, int]:
        """The bytes of each of these objects that a chunk has or had in one of the buckets. A key has the object's
        digest, so it has one size."""
        with self._session.reading() as sql:
            rows = sql.rows(StoredSizeRow, "stored_sizes", buckets=[*buckets], keys=[*keys]) if keys else []
        return {row.key: row.stored_bytes for row in rows}

    def retire(
        self, archive: Archive, chunk_ids: Sequence[int], *, recapture: bool = False, replay_id: str | None = None
    ) -> int:
        """Take chunks out of the archive; how many were live. Their sequences become gaps of the reason `retired`, or
        with `recapture` are missing again, so that the next capture of the hour fills them. `replay_id`: the one that
        published their messages. Objects stay: see `Removals`. Raises Conflict when the archive was deleted, Held when
        a hold keeps one of them: then none is taken out."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            retired = sql.values(int, "retire_chunks", archive=archive.id, chunks=list(chunk_ids))
            if not recapture:
                sql.run("add_removed_gaps", chunks=retired, reason="retired", run_id=current_run(), replay=replay_id)
            if retired:
                note(sql, archive, "removed", {"chunks": len(retired), "replay": replay_id})
            return len(retired)

    def replace(
        self,
        archive: Archive,
        chunk_ids: Sequence[int],
        chunks: Sequence[ChunkMeta],
        gaps: Sequence[Gap],
        *,
        begun: datetime,
        merged: Sequence[int] | None = None,
        what: str | None = "repaired",
    ) -> None:
        """Take live chunks out of the archive, and chunks and gaps of the same sequences in: all or nothing, as
        `commit` does; `what`: as the history calls it, None if it has another line. Raises Conflict also when one of
        the chunks is no longer live, Held when a hold keeps messages of them that the new chunks do not have."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive)
            retired = sql.values(int, "retire_chunks", archive=archive.id, chunks=list(chunk_ids))
            if len(retired) < len(chunk_ids):
                gone = ", ".join(str(chunk_id) for chunk_id in sorted({*chunk_ids} - {*retired}))
                raise Conflict(f"Another process replaced or retired chunk {gone}", "See which chunks are bad now")
            self.commit(archive, chunks, gaps, begun=begun, merged=merged)
            if what:
                note(sql, archive, what, {"chunks": len(retired)})


def _in_time(
    sql: Statements,
    archive: Archive,
    covered: CoverageRow,
    time_range: tuple[int | None, int | None],
    seqs: SeqRange | None,
    begin: int | None,
) -> tuple[SeqRange | None, int | None] | None:
    """The sequences in which the chunks of the time are looked for, and the one after which; None where there is none
    of them. Without these, a page of a time, which is read in the order of the sequences, would begin with the oldest
    chunk of the archive, and go on to the newest one."""
    row = sql.row(
        _InTimeRow,
        "sequences_of_time",
        archive=archive.id,
        incarnation=covered.incarnation_id,
        first_ns=time_range[0],
        end_ns=time_range[1],
    )
    assert row is not None
    if row.first is None:
        return None
    if row.last is None:
        return seqs, max(begin or 0, row.first - 1)
    near = [SeqRange(row.first, row.last)]
    parts = clipped(near, seqs) if seqs else near
    return (parts[0], begin) if parts else None


def _check_source(coverages: Sequence[CoverageRow], source: Incarnation | None) -> None:
    """Raises Conflict if the stream was restored since it was read: it may have other messages there."""
    for row in coverages:
        if source and source == row.incarnation and source.restored_ns != row.incarnation.restored_ns:
            raise Conflict(f"Stream {row.stream} was restored from a backup while this ran", "Run it again")


def _check_not_removed(sql: Statements, chunks: Sequence[ChunkMeta], begun: datetime | None) -> None:
    if begun is None:
        return
    removed = sql.value_or_none(
        str, "removed_since", buckets=[c.bucket for c in chunks], keys=[c.key for c in chunks], since=begun
    )
    if removed:
        raise Conflict(f"The object {removed} was removed from the store while this ran", "Run it again")


def _deleted(sql: Statements, ids: list[int]) -> dict[int, tuple[SeqRange, ...]]:
    rows = sql.rows(DeletedRow, "deleted_of", chunks=ids)
    return {row.id: from_multirange(row.deleted) for row in rows if row.deleted is not None}
