"""Replays: what was asked for, which chunks a replay takes, and what became of each.

Invariant: one process at a time drives a replay (`lock`), and only its newest attempt records results. Postgres refuses
a chunk as done that does not account for all its messages, and a success with chunks left.
"""

import json
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import NoReturn
from uuid import UUID

import psycopg
from psycopg import errors

from nats3_dagster.catalog.connection import Connection, open_connection
from nats3_dagster.catalog.pool import Session
from nats3_dagster.catalog.refusals import failed
from nats3_dagster.catalog.replay_rows import AttemptRow, DoneRow, EndRow, ReplayHourRow, ReplayRow, spec_json
from nats3_dagster.catalog.rows import ChunkRow
from nats3_dagster.catalog.statements import Statements
from nats3_dagster.errors import CatalogError, Conflict, Unknown
from nats3_dagster.model import (
    Archive,
    Chunk,
    ChunkResult,
    Incarnation,
    Pace,
    Replay,
    ReplayChunk,
    ReplayProgress,
    ReplaySpec,
    ReplayState,
    ReplayTarget,
    SeqRange,
)
from nats3_dagster.steps import Next


class ReplayLock:
    """The lock of the process that drives a replay: a connection of its own, on which it is asked to pause."""

    def __init__(self, connection: Connection, replay_id: str, where: str) -> None:
        self._connection, self._replay_id, self._where = connection, replay_id, where

    def wait(self, seconds: float) -> bool:
        """Whether somebody asks for a pause within so many seconds. Raises CatalogError at once when the connection is
        lost: another process may then have the lock."""
        until = time.monotonic() + seconds
        try:
            self._connection.execute("")
            while True:
                rest = max(0.0, until - time.monotonic())
                asked = list(self._connection.notifies(timeout=rest, stop_after=1))
                if any(notice.payload == self._replay_id for notice in asked):
                    return True
                if not asked and time.monotonic() >= until:
                    return False
        except psycopg.Error as error:
            raise failed(error, self._where) from error


class Replays:
    """Record, drive and list replays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(
        self, replay_id: str, archive: Archive, spec: ReplaySpec, targets: Sequence[ReplayTarget],
        chunks: Sequence[Chunk], *, run_id: str | None = None, job_id: UUID | None = None, job_name: str | None = None,
    ) -> Replay:  # fmt: skip
        """Record a replay of these chunks in this order. `replay_id`: 16 hex digits; `job_id`: by default a new one.
        Raises Conflict when one of the chunks is no longer live, or one of the ids was given before."""
        if self.was_deleted(replay_id):
            raise Conflict(f"There was a replay {replay_id}, which was deleted", Next.BEGIN_NEW_REPLAY())
        with self._session.transaction() as sql:
            try:
                sql.run(
                    "create_replay", replay=replay_id, archive=archive.id, spec=spec_json(spec), chunks=len(chunks),
                    run_id=run_id, job=job_id, job_name=job_name,
                )  # fmt: skip
            except errors.UniqueViolation as error:
                if error.diag.constraint_name == "replay_job":
                    raise Conflict(
                        f"There is a load job {job_id} already, or it was deleted", Next.BEGIN_NEW_REPLAY()
                    ) from error
                raise Conflict(
                    f"There is a replay {replay_id} already", Next.GET_REPLAY(replay=replay_id)
                ) from error
            sql.run(
                "add_targets", replay=replay_id, streams=[t.incarnation.stream for t in targets],
                created=[t.incarnation.created_ns for t in targets], since=[t.since_seq for t in targets],
            )  # fmt: skip
            planned = sql.run("plan_chunks", replay=replay_id, archive=archive.id, chunks=[c.id for c in chunks])
            if planned != len(chunks):
                raise Conflict(
                    f"Chunks of archive {archive.name} were retired since the replay was planned", "Plan again"
                )
            return self.get(replay_id)

    @contextmanager
    def recording(self, archive: Archive) -> Generator[None]:
        """A transaction in which nobody else records a replay of the archive: what is asked in it is still so when
        `begin` is done. Raises Conflict when the archive was deleted."""
        with self._session.transaction() as sql:
            if sql.value_or_none(int, "lock_archive", archive=archive.id) is None:
                raise Conflict(f"Archive {archive.name} was deleted", "What is left in the store cannot be replayed")
            yield

    def get(self, replay_id: str) -> Replay:
        """Raises OperatorError when there is none."""
        with self._session.reading() as sql:
            row = sql.row(
                ReplayRow, "replays", replay=replay_id, job=None, archive=None, bucket=None, states=None, limit_to=1
            )
        return row.replay() if row else _unknown(replay_id)

    def find_job(self, job_id: UUID) -> Replay | None:
        """The replay of a load job; None when there is none, or it was deleted."""
        with self._session.reading() as sql:
            row = sql.row(
                ReplayRow, "replays", replay=None, job=job_id, archive=None, bucket=None, states=None, limit_to=1
            )
        return row.replay() if row else None

    def progress(self, replay_id: str) -> ReplayProgress:
        """How far its newest attempt is. Raises OperatorError when there is no such replay."""
        with self._session.reading() as sql:
            return sql.row(ReplayProgress, "replay_progress", replay=replay_id) or _unknown(replay_id)

    def claim_launch(self, known: Replay) -> int:
        """The number of the run or process that the caller is about to start: what was started before it may not begin
        any more. The replay is planned from now on. `known`: what the caller knows of it. Raises Conflict when
        another run was started since, or an attempt has begun."""
        with self._session.transaction() as sql:
            number = sql.value_or_none(
                int, "claim_launch", replay=known.id, launch=known.launch, attempt=known.attempt
            )
        if number is None:
            raise Conflict(
                f"Replay {known.id} was started, paused or deleted by somebody else just now",
                Next.GET_REPLAY(replay=known.id),
            )
        return number

    def check_launch(self, replay_id: str, launch: int) -> None:
        """Raises Conflict when a newer one was started, or the replay was paused since."""
        if self.get(replay_id).launch != launch:
            raise Conflict(
                f"Replay {replay_id} was started again, or paused, before this run of it began",
                Next.GET_REPLAY(replay=replay_id),
            )

    def fail_launch(self, replay_id: str, launch: int, error: str) -> None:
        """The replay has failed before an attempt began, unless one did or a newer run was started."""
        with self._session.transaction() as sql:
            sql.run("fail_launch", replay=replay_id, launch=launch, error=error)

    def revoke_launch(self, replay_id: str) -> None:
        """What was started and has not begun may not begin any more."""
        with self._session.transaction() as sql:
            sql.run("revoke_launch", replay=replay_id)

    def was_deleted(self, replay_id: str) -> bool:
        """Whether there was a replay of this id that was deleted."""
        with self._session.reading() as sql:
            return bool(sql.value_or_none(bool, "replay_deleted", replay=replay_id))

    def change_pace(self, replay_id: str, pace: Pace) -> None:
        """The pace of later attempts."""
        with self._session.transaction() as sql:
            sql.run("change_pace", replay=replay_id, pace=json.dumps(asdict(pace)))

    def raise_attempt(self, replay_id: str, attempt: int) -> None:
        """Count this attempt as the newest one unless a later one is known: the catalog forgot it."""
        with self._session.transaction() as sql:
            sql.run("raise_attempt", replay=replay_id, attempt=attempt)

    def select(
        self, archive: Archive | None = None, *, bucket: str | None = None,
        states: Collection[ReplayState] | None = None, limit: int | None = None,
    ) -> tuple[Replay, ...]:  # fmt: skip
        """Those of the archive, of archives in the bucket, and in one of these states, or all; newest first."""
        with self._session.reading() as sql:
            rows = sql.rows(
                ReplayRow, "replays", replay=None, job=None, archive=archive and archive.id, bucket=bucket,
                states=None if states is None else list(states), limit_to=limit,
            )  # fmt: skip
        return tuple(row.replay() for row in rows)

    @contextmanager
    def lock(self, replay_id: str) -> Generator[ReplayLock]:
        """Lock the replay for this process. The lock has a connection of its own: it ends when the process does, not
        when the catalog loses a connection. Raises Conflict when another process has it."""
        self.get(replay_id)
        with open_connection(self._session.url) as connection:
            try:
                locked = Statements(connection).value(bool, "try_lock", replay=replay_id)
                Statements(connection).run("listen_for_pause")
            except psycopg.Error as error:
                raise failed(error, self._session.where) from error
            if not locked:
                raise Conflict(f"Replay {replay_id} is being run by another process", "Wait for it, or end it first")
            yield ReplayLock(connection, replay_id, self._session.where)

    def ask_pause(self, replay_id: str) -> None:
        """Ask the process that drives the replay to pause it, if that one waits for new chunks."""
        with self._session.reading() as sql:
            sql.run("ask_pause", replay=replay_id)

    def start_attempt(self, replay_id: str, run_id: str | None = None) -> int:
        """The number of the new attempt, from 1. An earlier one that never ended counts as lost. Raises Conflict when
        the replay has succeeded or is paused."""
        with self._session.transaction() as sql:
            row = sql.row(AttemptRow, "lock_replay", replay=replay_id) or _unknown(replay_id)
            if row.state == "succeeded":
                raise Conflict(f"Replay {replay_id} has succeeded", "Create a new one to publish again")
            if row.state == "paused":
                # Somebody paused it after this process was started, and before it began.
                raise Conflict(f"Replay {replay_id} is paused", Next.RESUME_REPLAY(replay=replay_id))
            attempt = sql.value(int, "begin_attempt", replay=replay_id)
            sql.run("lose_attempts", replay=replay_id)
            sql.run("add_attempt", replay=replay_id, attempt=attempt, run_id=run_id)
        return attempt

    def record(
        self, replay_id: str, attempt: int, results: Sequence[ChunkResult], run_id: str | None = None
    ) -> None:
        """These chunks are done; those that were done before stay as they are. Raises Conflict when a later attempt
        has begun, CatalogError when the counts of a chunk do not add up."""
        with self._session.transaction() as sql:
            row = sql.row(AttemptRow, "lock_replay", replay=replay_id) or _unknown(replay_id)
            _check_newest(replay_id, attempt, row)
            try:
                sql.run(
                    "record_results", replay=replay_id, attempt=attempt, run_id=run_id,
                    results=json.dumps([asdict(r) for r in results]),
                )  # fmt: skip
            except errors.CheckViolation as error:
                raise CatalogError(
                    f"Replay {replay_id} does not account for all messages of a chunk: {error.diag.message_detail}",
                    "Run it again: it asks the target what is there",
                ) from error

    def extend(self, replay_id: str, attempt: int, chunks: Sequence[Chunk]) -> bool:
        """Add chunks behind those that the replay has; False, and none is added, if one is no longer live. Raises
        Conflict when a later attempt has begun."""
        with self._session.transaction() as sql:
            row = sql.row(AttemptRow, "lock_replay", replay=replay_id) or _unknown(replay_id)
            _check_newest(replay_id, attempt, row)
            added = sql.run("extend_replay", replay=replay_id, chunks=[chunk.id for chunk in chunks])
            sql.run("count_chunks", replay=replay_id, chunks=added)
            if added != len(chunks):
                raise psycopg.Rollback
            return True
        return False

    def end(self, replay_id: str) -> tuple[Incarnation, int] | None:
        """Incarnation and last sequence of the last chunk that the replay has; None if it has none."""
        with self._session.reading() as sql:
            row = sql.row(EndRow, "replay_end", replay=replay_id)
        return (Incarnation(row.stream, row.created_ns), row.seqs.last) if row else None

    def behind(self, replay_id: str) -> int:
        """The archive's live chunks behind the last one of the replay: within its times and sequences, of any
        subject."""
        with self._session.reading() as sql:
            return sql.value(int, "chunks_behind", replay=replay_id)

    def archive_id(self, replay_id: str) -> int:
        """Of the archive with which the replay began. Raises OperatorError when there is no such replay."""
        with self._session.reading() as sql:
            return sql.value_or_none(int, "replay_archive", replay=replay_id) or _unknown(replay_id)

    def keep_progress(self, replay_id: str, attempt: int, published: int, found: int) -> None:
        """The attempt's tasks have published so many messages of chunks that are not done, and found so many. Nothing
        is kept of an attempt that a later one has overtaken, nor of one that has ended."""
        with self._session.transaction() as sql:
            sql.run("keep_progress", replay=replay_id, attempt=attempt, published=published, found=found)

    def finish(self, replay_id: str, attempt: int, state: ReplayState, error: str | None = None) -> None:
        """End the attempt and the replay, unless a later attempt has begun or the replay has succeeded. Raises
        CatalogError when `state` is succeeded and chunks are left."""
        with self._session.transaction() as sql:
            if not sql.row(AttemptRow, "lock_replay", replay=replay_id):
                _unknown(replay_id)
            try:
                sql.run("end_replay", replay=replay_id, attempt=attempt, state=state, error=error)
            except errors.CheckViolation as broken:
                raise CatalogError(
                    f"Replay {replay_id} has chunks left and cannot have succeeded",
                    "Run it again: it goes on where it was",
                ) from broken
            sql.run("end_attempt", replay=replay_id, attempt=attempt, state=state, error=error)

    def delete(self, replay_id: str) -> None:
        """Take the replay out of the lists; what it published stays. Raises OperatorError when there is none, Conflict
        when a process runs it."""
        with self.lock(replay_id), self._session.transaction() as sql:
            sql.run("delete_replay", replay=replay_id)

    def pending(self, replay_id: str) -> tuple[Chunk, ...]:
        """The chunks that are not done, in the order of the plan. Raises CatalogError when one was retired since."""
        with self._session.reading() as sql:
            rows = sql.rows(ChunkRow, "pending_chunks", replay=replay_id)
        if retired := [row.key for row in rows if row.deleted_at is not None]:
            raise CatalogError(
                f"Replay {replay_id} still needs {len(retired)} chunks that were retired, {retired[0]} first",
                "Create a new replay of what is left in the archive",
            )
        return tuple(row.chunk() for row in rows)

    def done(
        self, replay_id: str, chunks: Sequence[Chunk] | None = None
    ) -> tuple[tuple[Incarnation, SeqRange, int, int], ...]:
        """Of each chunk that is done, or those of them, in the order of the plan: incarnation, sequences, and of the
        messages in the targets the number and the last sequence."""
        ids = None if chunks is None else [chunk.id for chunk in chunks]
        with self._session.reading() as sql:
            rows = sql.rows(DoneRow, "done_chunks", replay=replay_id, chunks=ids)
        return tuple((Incarnation(r.stream, r.created_ns), r.seqs, r.messages, r.last_seq) for r in rows)

    def chunks(self, replay_id: str) -> tuple[ReplayChunk, ...]:
        """What became of each chunk, in the order of the plan."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ReplayChunk, "replay_chunks", replay=replay_id))

    def whole_hours(self, archive: Archive, replay_ids: Sequence[str]) -> dict[str, set[str]]:
        """The hours that each of these replays published whole, by its id: every chunk that the archive had of them
        when the replay was planned, and every message of each."""
        whole: dict[str, set[str]] = {replay_id: set() for replay_id in replay_ids}
        with self._session.reading() as sql:
            for row in sql.rows(ReplayHourRow, "whole_hours", archive=archive.id, replays=list(replay_ids)):
                whole[row.replay].add(row.hour)
        return whole

    def of_chunk(self, chunk_id: int) -> tuple[ReplayChunk, ...]:
        """What replays did with this chunk, newest first."""
        with self._session.reading() as sql:
            return tuple(sql.rows(ReplayChunk, "published_by", chunk=chunk_id))


def _check_newest(replay_id: str, attempt: int, row: AttemptRow) -> None:
    if row.attempt != attempt:
        raise Conflict(
            f"Attempt {attempt} of replay {replay_id} was overtaken by attempt {row.attempt}",
            "Leave the replay to the process that runs it now",
        )


def _unknown(replay_id: str) -> NoReturn:
    raise Unknown(f"There is no replay {replay_id}", Next.LIST_REPLAYS())
