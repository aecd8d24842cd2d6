"""Replays: what was asked for, which chunks a replay takes, and what became of each.

Invariant: one process at a time drives a replay (`lock`), and only its newest attempt records results. Postgres refuses
a chunk as done that does not account for all its messages, and a success with chunks left.
"""

import json
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import errors

from nats3_dagster.actor import current_run
from nats3_dagster.catalog.archives.archives import lock_archive
from nats3_dagster.catalog.replays.replay_lock import ReplayLock
from nats3_dagster.catalog.replays.replay_rows import AttemptRow, ReplayRow, spec_json, unknown
from nats3_dagster.catalog.session.locks import lock_connection
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import CatalogError, Conflict
from nats3_dagster.model import (
    Archive,
    Pace,
    Replay,
    ReplayProgress,
    ReplaySpec,
    ReplayState,
    ReplayTarget,
)
from nats3_dagster.steps import Next

# Chunks of a plan that is counted at once, and how many are recorded at a time.
_LARGE_PLAN, _BATCH = 1000, 10_000
# The parameters of the query `replays` that takes all.
_ANY: Final[dict[str, Any]] = dict.fromkeys(("replay", "job", "name", "archive", "bucket", "states", "limit_to"))


class Replays:
    """Record, drive and list replays."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def begin(
        self,
        replay_id: str,
        archive: Archive,
        spec: ReplaySpec,
        targets: Sequence[ReplayTarget],
        chunks: Sequence[int],
        *,
        job_id: UUID | None = None,
        job_name: str | None = None,
    ) -> Replay:
        """Record a replay of the chunks with these ids in this order. `replay_id`: 16 hex digits; `job_id`: by
        default a new one. Raises Conflict when one of the chunks is no longer live, or an id was given before."""
        if self.was_deleted(replay_id):
            raise Conflict(f"There was a replay {replay_id}, which was deleted", Next.BEGIN_NEW_REPLAY())
        with self._session.transaction() as sql:
            try:
                sql.run(
                    "create_replay",
                    replay=replay_id,
                    archive=archive.id,
                    spec=spec_json(spec),
                    chunks=len(chunks),
                    run_id=current_run(),
                    job=job_id,
                    job_name=job_name,
                )
            except errors.UniqueViolation as error:
                if error.diag.constraint_name == "replay_job":
                    raise Conflict(
                        f"There is a load job {job_id} already, or it was deleted", Next.BEGIN_NEW_REPLAY()
                    ) from error
                raise Conflict(f"There is a replay {replay_id} already", Next.GET_REPLAY(replay=replay_id)) from error
            sql.run(
                "add_targets",
                replay=replay_id,
                streams=[t.incarnation.stream for t in targets],
                created=[t.incarnation.created_ns for t in targets],
                since=[t.since_seq for t in targets],
            )
            planned = 0
            for after in range(0, len(chunks), _BATCH):
                part = [*chunks[after : after + _BATCH]]
                planned += sql.run("plan_chunks", replay=replay_id, archive=archive.id, chunks=part, after=after)
            if planned != len(chunks):
                raise Conflict(
                    f"Chunks of archive {archive.name} were retired since the replay was planned", "Plan again"
                )
            if planned >= _LARGE_PLAN:
                sql.run("count_plan")
            return self.get(replay_id)

    @contextmanager
    def recording(self, archive: Archive) -> Generator[None]:
        """A transaction that keeps other processes from recording a replay of the archive: its reads are still true
        when `begin` is done. Raises Conflict when the archive was deleted."""
        with self._session.transaction() as sql:
            lock_archive(sql, archive, "What is left in the store cannot be replayed")
            yield

    def get(self, replay_id: str) -> Replay:
        """Raises OperatorError when there is none."""
        with self._session.reading() as sql:
            row = sql.row(ReplayRow, "replays", **_ANY | {"replay": replay_id, "limit_to": 1})
        return row.replay() if row else unknown(replay_id)

    def find_job(self, job_id: UUID) -> Replay | None:
        """The replay of a load job; None when there is none, or it was deleted."""
        with self._session.reading() as sql:
            row = sql.row(ReplayRow, "replays", **_ANY | {"job": job_id, "limit_to": 1})
        return row.replay() if row else None

    def progress(self, replay_id: str) -> ReplayProgress:
        """Returns the progress of its newest attempt. Raises OperatorError when there is no such replay."""
        with self._session.reading() as sql:
            return sql.row(ReplayProgress, "replay_progress", replay=replay_id) or unknown(replay_id)

    def was_deleted(self, replay_id: str) -> bool:
        """True if there was a replay of this id that was deleted."""
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
        self,
        archive: Archive | None = None,
        *,
        bucket: str | None = None,
        states: Collection[ReplayState] | None = None,
        replay_id: str | None = None,
        job_name: str | None = None,
        limit: int | None = None,
    ) -> tuple[Replay, ...]:
        """Returns the replays of the archive, of archives in the bucket, in one of these states, of this id and of load
        jobs of this name, or all; newest first."""
        with self._session.reading() as sql:
            rows = sql.rows(
                ReplayRow,
                "replays",
                replay=replay_id,
                job=None,
                name=job_name,
                archive=archive and archive.id,
                bucket=bucket,
                states=None if states is None else list(states),
                limit_to=limit,
            )
        return tuple(row.replay() for row in rows)

    @contextmanager
    def lock(self, replay_id: str) -> Generator[ReplayLock]:
        """Lock the replay for this process. The lock has a connection of its own: it ends when the process does, not
        when the catalog loses a connection. Raises Conflict when another process has it."""
        self.get(replay_id)
        with lock_connection(self._session) as connection:
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

    def start_attempt(self, replay_id: str) -> int:
        """The number of the new attempt, from 1. An earlier one that never ended counts as lost. Raises Conflict when
        the replay has succeeded or is paused."""
        with self._session.transaction() as sql:
            row = sql.row(AttemptRow, "lock_replay", replay=replay_id) or unknown(replay_id)
            if row.state == "succeeded":
                raise Conflict(f"Replay {replay_id} has succeeded", "Create a new one to publish again")
            if row.state == "paused":
                # It was paused after this process was started, and before it began.
                raise Conflict(f"Replay {replay_id} is paused", Next.RESUME_REPLAY(replay=replay_id))
            attempt = sql.value(int, "begin_attempt", replay=replay_id)
            sql.run("lose_attempts", replay=replay_id)
            sql.run("add_attempt", replay=replay_id, attempt=attempt, run_id=current_run())
        return attempt

    def archive_id(self, replay_id: str) -> int:
        """Returns the id of the archive with which the replay began. Raises OperatorError when there is no such
        replay."""
        with self._session.reading() as sql:
            return sql.value_or_none(int, "replay_archive", replay=replay_id) or unknown(replay_id)

    def record_progress(self, replay_id: str, attempt: int, published: int, found: int) -> None:
        """Records the numbers of messages that the attempt's tasks have published, and found, in chunks that are not
        done. Nothing is kept of an attempt that a later one has overtaken, nor of one that has ended."""
        with self._session.transaction() as sql:
            sql.run("record_progress", replay=replay_id, attempt=attempt, published=published, found=found)

    def finish(self, replay_id: str, attempt: int, state: ReplayState, error: str | None = None) -> None:
        """End the attempt and the replay, unless a later attempt has begun or the replay has succeeded. Raises
        CatalogError when `state` is succeeded and chunks are left."""
        with self._session.transaction() as sql:
            if not sql.row(AttemptRow, "lock_replay", replay=replay_id):
                unknown(replay_id)
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
