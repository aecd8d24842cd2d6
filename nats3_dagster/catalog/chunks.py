"""Chunks: committed once, never changed, found by hour, time or sequence.

The rule kept here: one transaction takes all that a capture brought, or none of it; Postgres refuses what overlaps or
does not add up.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg

from nats3_dagster.catalog.connection import Statements
from nats3_dagster.catalog.multirange import from_multirange, to_multirange
from nats3_dagster.catalog.refusals import broken_rule
from nats3_dagster.catalog.rows import chunk_of
from nats3_dagster.catalog.session import Session
from nats3_dagster.errors import CatalogError, Conflict, OperatorError
from nats3_dagster.model import Archive, Chunk, ChunkMeta, Gap, Incarnation, SeqRange
from nats3_dagster.steps import Next

# A parameter may have 1 GB, and one chunk's deleted ranges several MB.
STATEMENT_CHARS = 64 << 20


class Chunks:
    """Commit, list and retire."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def commit(
        self, archive: Archive, chunks: Sequence[ChunkMeta], gaps: Sequence[Gap] = (), *, run_id: str | None = None,
        begun: datetime | None = None,
    ) -> None:  # fmt: skip
        """Make the chunks and gaps part of the archive. `begun` (see `now`) is a time before the first object was put:
        with it, a chunk is refused whose object was found in the store and then removed by a purge.

        Raises Conflict when another process committed some of it first or the archive was deleted."""
        with self._session.transaction() as sql:
            if sql.lock_archive(archive=archive.id) is None:
                raise Conflict(f"Archive {archive.name} was deleted", "Create it again, or stop what captures into it")
            ids = {(row.stream, row.created_ns): row.incarnation_id for row in sql.coverages(archive=archive.id)}
            try:
                if chunks:
                    self._check_kept(sql, chunks, begun)
                    self._add_chunks(sql, archive, chunks, ids, run_id)
                if gaps:
                    sql.add_gaps(
                        archive=archive.id, run_id=run_id, incarnations=[_id(ids, g.incarnation) for g in gaps],
                        reasons=[g.reason for g in gaps], ranges=[to_multirange(g.ranges) for g in gaps],
                    )  # fmt: skip
            except psycopg.IntegrityError as error:
                raise broken_rule(error, archive.name) from error

    def select(
        self, archive: Archive, *, hours: Sequence[str] | None = None,
        time_range: tuple[int | None, int | None] | None = None, seqs: SeqRange | None = None,
        incarnation: Incarnation | None = None, with_subjects: bool = False, with_deleted: bool = False,
        after: int | None = None, limit: int | None = None,
    ) -> tuple[Chunk, ...]:  # fmt: skip
        """The live chunks in the order of the stream (incarnation, then sequence) that meet all that is given: hours;
        any message's time in `[from, to)`, None for no bound; any sequence in `seqs`. `after` is the id of the last
        chunk of the page before."""
        start, end = time_range or (None, None)
        last = self.get(after) if after is not None else None
        rows: list[Any] = []
        with self._session.transaction() as sql:
            # One incarnation at a time: the rows then come in the order of an index, and a page reads a page.
            for of in list(sql.coverages(archive=archive.id)):
                if incarnation and incarnation != Incarnation(of.stream, of.created_ns):
                    continue
                if last and of.created_ns < last.meta.incarnation.created_ns:
                    continue
                passed = last and of.created_ns == last.meta.incarnation.created_ns
                rows += sql.list_chunks(
                    archive=archive.id, incarnation=of.incarnation_id, hours=None if hours is None else list(hours),
                    timed=time_range is not None, first_ns=start, end_ns=end, first_seq=seqs and seqs.first,
                    last_seq=seqs and seqs.last, after=last.meta.covers.last if last and passed else None,
                    limit_to=None if limit is None else limit - len(rows),
                )  # fmt: skip
            ids = [row.id for row in rows]
            subjects = self._subjects(sql, ids) if with_subjects else {}
            deleted = self._deleted(sql, ids) if with_deleted else {}
        return tuple(chunk_of(row, archive.name, deleted.get(row.id), subjects.get(row.id)) for row in rows)

    def of_hour(self, archive: Archive, hour: str, incarnation: Incarnation | None = None) -> tuple[Chunk, ...]:
        """The live chunks of an hour, in the order of the stream."""
        return self.select(archive, hours=[hour], incarnation=incarnation)

    def get(self, chunk_id: int) -> Chunk:
        """A live chunk with its subjects and deleted sequences. Raises OperatorError when there is none."""
        with self._session.reading() as sql:
            row = sql.chunk(chunk=chunk_id)
            if row is None:
                raise OperatorError(f"There is no chunk {chunk_id}", Next.LIST_CHUNK_IDS())
            subjects, deleted = self._subjects(sql, [chunk_id]), self._deleted(sql, [chunk_id])
        return chunk_of(row, row.archive, deleted.get(chunk_id), subjects.get(chunk_id))

    def by_key(self, bucket: str, key: str) -> Chunk | None:
        """The live chunk whose object this is."""
        with self._session.reading() as sql:
            found = sql.chunk_id(bucket=bucket, key=key)
        return None if found is None else self.get(found)

    def subject_counts(self, archive: Archive, hours: Iterable[str]) -> tuple[dict[str, int], int]:
        """Messages by subject in these hours, and how many messages more are in chunks that were not counted by
        subject (see MAX_SUBJECTS)."""
        chosen = list(hours)
        with self._session.transaction() as sql:
            counts = {row.subject: row.messages for row in sql.subject_counts(archive=archive.id, hours=chosen)}
            return counts, sql.uncounted(archive=archive.id, hours=chosen)

    def retire(
        self, archive: Archive, chunk_ids: Sequence[int], *, run_id: str | None = None, recapture: bool = False
    ) -> int:
        """Take chunks out of the archive; how many were live. Their sequences become gaps of the reason `retired`, or
        with `recapture` are missing again, so that the next capture of the hour fills them. Objects stay: see
        `Removals`."""
        with self._session.transaction() as sql:
            retired = [row.id for row in sql.retire_chunks(archive=archive.id, chunks=list(chunk_ids))]
            if not recapture:
                sql.add_retired_gaps(chunks=retired, run_id=run_id)
            return len(retired)

    def _check_kept(self, sql: Any, chunks: Sequence[ChunkMeta], begun: datetime | None) -> None:
        if begun is None:
            return
        removed = sql.removed_since(buckets=[c.bucket for c in chunks], keys=[c.key for c in chunks], since=begun)
        if removed:
            raise Conflict(f"The object {removed} was removed from the store while this ran", "Run it again")

    def _add_chunks(
        self, sql: Statements, archive: Archive, chunks: Sequence[ChunkMeta], ids: Mapping[tuple[str, int], int],
        run_id: str | None,
    ) -> None:  # fmt: skip
        subjects = {(c.bucket, c.key): _storable(c.subjects) for c in chunks}
        rows = [
            {
                "incarnation_id": _id(ids, c.incarnation), "hour": c.hour, "first_seq": c.covers.first,
                "last_seq": c.covers.last, "messages": c.messages,
                "deleted": None if c.deleted is None else to_multirange(c.deleted), "first_ns": c.first_ns,
                "last_ns": c.last_ns, "payload_bytes": c.payload_bytes, "largest_bytes": c.largest_bytes,
                "stored_bytes": c.stored_bytes, "sha256": c.sha256, "bucket": c.bucket, "key": c.key,
                "subjects": len(subjects[c.bucket, c.key]) or None, "minutes": c.minutes,
            }
            for c in chunks
        ]  # fmt: skip
        added = [
            row
            for statement in _statements(rows)
            for row in sql.add_chunks(archive=archive.id, run_id=run_id, chunks=statement)
        ]
        with sql.connection.cursor() as cursor, cursor.copy(sql.text("copy_subjects")) as copy:
            for chunk in added:
                for subject, messages in subjects[chunk.bucket, chunk.key].items():
                    copy.write_row((chunk.id, subject, messages))

    def _subjects(self, sql: Any, ids: list[int]) -> dict[int, dict[str, int]]:
        rows = sql.subjects_of(chunks=ids)
        return {row.chunk_id: dict(zip(row.subjects, row.messages, strict=True)) for row in rows}

    def _deleted(self, sql: Any, ids: list[int]) -> dict[int, tuple[SeqRange, ...]]:
        rows = sql.deleted_of(chunks=ids)
        return {row.id: from_multirange(row.deleted) for row in rows if row.deleted is not None}


def _statements(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The rows as JSON arrays of about STATEMENT_CHARS. Few, because the triggers sum once for each."""
    batch: list[str] = []
    size = 0
    for row in rows:
        text = json.dumps(row)
        if batch and size + len(text) > STATEMENT_CHARS:
            yield f"[{','.join(batch)}]"
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    yield f"[{','.join(batch)}]"


def _id(ids: Mapping[tuple[str, int], int], incarnation: Incarnation) -> int:
    found = ids.get((incarnation.stream, incarnation.created_ns))
    if found is None:
        raise CatalogError(
            f"The archive does not archive the {incarnation.stream} of {incarnation.token}", "Observe or adopt it first"
        )
    return found


def _storable(subjects: Mapping[str, int] | None) -> Mapping[str, int]:
    """Empty where the chunk was not counted by subject, or a subject has a NUL, which Postgres' text cannot hold."""
    if subjects is None or any("\0" in subject for subject in subjects):
        return {}
    return subjects
