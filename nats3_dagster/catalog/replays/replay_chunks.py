"""Chunks of replays: the remaining ones, the result of each, and those that are added at the end.

Invariant: only the newest attempt of a replay records results. Postgres refuses a chunk as done that does not account
for all its messages.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace

import psycopg
from psycopg import errors

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.contents.subjects import counts_of
from nats3_dagster.catalog.replays.replay_rows import (
    AttemptRow,
    DoneRow,
    EndRow,
    MergedRow,
    PlaceRow,
    ReplayHourRow,
    RetiredRow,
    WholeRow,
    unknown,
)
from nats3_dagster.catalog.rows import ChunkRow
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.errors import CatalogError, Conflict
from nats3_dagster.model import Chunk, ChunkMeta, ChunkResult, DonePart, Incarnation, ReplayChunk, ReplayHour


@dataclass(frozen=True, slots=True)
class PendingPage:
    """Chunks that a replay has not done, in the order of its plan."""

    chunks: tuple[Chunk, ...]
    # The place of the last one in the plan; without one, that of the page before.
    position: int
    # True if no pending chunk comes after them.
    is_last: bool


class ReplayChunks:
    """Record and list the chunks of replays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def pending(
        self,
        replay_id: str,
        *,
        after: int = 0,
        places: int | None = None,
        with_subjects: bool = False,
        with_minutes: bool = False,
    ) -> PendingPage:
        """A page of the chunks that are not done, in the order of the plan; one that a compaction retired with the
        chunk that has its messages. `after`: the position of the page before; `places`: how many places of the plan the
        page has, done ones too. Raises CatalogError when one was retired since in another way."""
        while True:
            subjects: dict[int, dict[str, int]] = {}
            merged: dict[int, ChunkMeta] = {}
            with self._session.reading() as sql:
                page = sql.rows(PlaceRow, "pending_places", replay=replay_id, after=after, places=places)
                position = page[-1].position if page else after
                is_last = not page or not sql.value(bool, "has_pending_after", replay=replay_id, place=position)
                ids = [row.chunk_id for row in page]
                rows = {row.id: row for row in sql.rows(ChunkRow, "planned_chunks", chunks=ids, minutes=with_minutes)}
                if gone := [row.id for row in rows.values() if row.deleted_at is not None]:
                    # Asked afterwards: what was retired before is here, if it was merged.
                    found = sql.rows(MergedRow, "merged_into", chunks=gone)
                    merged = {row.part_id: row.chunk().meta for row in found}
                if with_subjects:
                    subjects = counts_of(sql, ids, {})
            if len(merged) == len(gone):
                chunks = (replace(rows[id_].chunk(None, subjects.get(id_)), merged_into=merged.get(id_)) for id_ in ids)
                return PendingPage(tuple(chunks), position, is_last)
            # A compaction may have merged again, between the two questions, what it had merged into a chunk.
            self.check_pending(replay_id)

    def check_pending(self, replay_id: str) -> None:
        """Raises CatalogError when a chunk that is not done was retired, and a compaction did not merge it."""
        with self._session.reading() as sql:
            if row := sql.row(RetiredRow, "retired_pending", replay=replay_id):
                raise CatalogError(
                    f"Replay {replay_id} still needs {row.chunks} chunks that were retired, {row.key} first",
                    "Create a new replay of what is left in the archive",
                )

    def done(self, replay_id: str, chunks: Sequence[Chunk] | None = None) -> tuple[DonePart, ...]:
        """The chunks that are done, or those of them, in the order of the plan."""
        ids = None if chunks is None else [chunk.id for chunk in chunks]
        with self._session.reading() as sql:
            return tuple(row.part() for row in sql.rows(DoneRow, "done_chunks", replay=replay_id, chunks=ids))

    def hours(self, replay_id: str) -> tuple[ReplayHour, ...]:
        """The results by hour, ascending; also of chunks that were retired since."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ReplayHour, "replay_hours", replay=replay_id))

    def last(self, replay_id: str, each: int) -> tuple[ReplayChunk, ...]:
        """The results of the last `each` chunks of each hour, in the order of the plan."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ReplayChunk, "last_results", replay=replay_id, each=each))

    def whole_hours(self, replay_ids: Sequence[str]) -> dict[str, set[str]]:
        """The hours that each of these replays published whole, by its id: every chunk that the archive had of them
        when the replay was planned, and every message of each."""
        whole: dict[str, set[str]] = {replay_id: set() for replay_id in replay_ids}
        with self._session.reading() as sql:
            for row in sql.rows(ReplayHourRow, "whole_hours", replays=list(replay_ids)):
                whole[row.replay].add(row.hour)
        return whole

    def of_chunk(self, chunk_id: int) -> tuple[ReplayChunk, ...]:
        """Returns the results of replays for this chunk, newest first."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ReplayChunk, "published_by", chunk=chunk_id))

    def record(self, replay_id: str, attempt: int, results: Sequence[ChunkResult]) -> None:
        """These chunks are done; those that were done before stay as they are. Raises Conflict when a later attempt
        has begun, CatalogError when the counts of a chunk do not add up."""
        with self._session.transaction() as sql:
            row = sql.row(AttemptRow, "lock_replay", replay=replay_id) or unknown(replay_id)
            _check_newest(replay_id, attempt, row)
            try:
                sql.run(
                    "record_results",
                    replay=replay_id,
                    attempt=attempt,
                    run_id=current_run(),
                    results=json.dumps([asdict(r) for r in results]),
                )
            except errors.CheckViolation as error:
                raise CatalogError(
                    f"Replay {replay_id} does not account for all messages of a chunk: {error.diag.message_detail}",
                    "Run it again: it asks the target what is there",
                ) from error

    def extend(self, replay_id: str, attempt: int, chunks: Sequence[Chunk]) -> bool:
        """Adds chunks after those that the replay has; False, and none is added, if one is no longer live. Raises
        Conflict when a later attempt has begun."""
        with self._session.transaction() as sql:
            row = sql.row(AttemptRow, "lock_replay", replay=replay_id) or unknown(replay_id)
            _check_newest(replay_id, attempt, row)
            added = sql.run("extend_replay", replay=replay_id, chunks=[chunk.id for chunk in chunks])
            sql.run("count_chunks", replay=replay_id, chunks=added)
            if added != len(chunks):
                raise psycopg.Rollback
            return True
        return False

    def parts_after(self, chunk: Chunk, seq: int) -> tuple[Chunk, ...]:
        """The chunks that a compaction merged into this one, from the sequence after `seq` on, each with it. Raises
        CatalogError if the catalog does not know them any more, or `seq` lies within one."""
        with self._session.reading() as sql:
            rows = sql.rows(ChunkRow, "merged_parts", chunk=chunk.id, after=seq)
        parts = tuple(replace(row.chunk(), merged_into=replace(chunk.meta, subjects=None)) for row in rows)
        ends = [seq, *(part.meta.covers.last for part in parts)]
        begins = [part.meta.covers.first for part in parts]
        if ends[-1] != chunk.meta.covers.last or begins != [end + 1 for end in ends[:-1]]:
            raise CatalogError(
                f"Chunk {chunk.id} has messages that were merged, and the catalog does not know in which parts",
                "Create a new replay of what is left in the archive",
            )
        return parts

    def whole(self, replay_id: str, chunk_ids: Collection[int] | None = None) -> dict[str, list[int]]:
        """Returns the ids of the live chunks that the replay published whole, or those of them, by hour; and those of
        chunks that a compaction made of nothing but chunks that it published whole."""
        with self._session.reading() as sql:
            ids = None if chunk_ids is None else list(chunk_ids)
            rows = sql.rows(WholeRow, "whole_chunks", replay=replay_id, chunks=ids)
        return {row.hour: row.chunks for row in rows}

    def end(self, replay_id: str) -> tuple[Incarnation, int] | None:
        """Incarnation and last sequence of the last chunk that the replay has; None if it has none."""
        with self._session.reading() as sql:
            row = sql.row(EndRow, "replay_end", replay=replay_id)
        return (Incarnation(row.stream, row.created_ns), row.seqs.last) if row else None

    def count_after(self, replay_id: str) -> int:
        """Counts the archive's live chunks after the last one of the replay: within its times and sequences, of any
        subject."""
        with self._session.reading() as sql:
            return sql.value(int, "chunks_after", replay=replay_id)


def _check_newest(replay_id: str, attempt: int, row: AttemptRow) -> None:
    if row.attempt != attempt:
        raise Conflict(
            f"Attempt {attempt} of replay {replay_id} was overtaken by attempt {row.attempt}",
            "Leave the replay to the process that runs it now",
        )
