"""Launches: which run or process may begin a replay. The newest one, and none after a pause."""

from collections.abc import Generator
from contextlib import contextmanager

import psycopg

from nats3_dagster.catalog.replays.replays import Replays
from nats3_dagster.catalog.session.locks import lock_connection
from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.refusals import failed
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Replay
from nats3_dagster.steps import Next


class Launches:
    """Reserve, begin and revoke."""

    def __init__(self, session: Session, replays: Replays) -> None:
        self._session, self._replays = session, replays

    def reserve(self, replay: Replay, *, queued: bool = False) -> int:
        """The number of the run or process that the caller is about to start: what was started before it may not begin
        any more. The replay is planned from now on. `replay`: what the caller knows of it. `queued`: it may be long
        before it begins. Raises Conflict when another run was started since, or an attempt has begun."""
        with self._session.transaction() as sql:
            number = sql.value_or_none(
                int, "reserve_launch", replay=replay.id, launch=replay.launch, attempt=replay.attempt, queued=queued
            )
        if number is None:
            raise Conflict(
                f"Replay {replay.id} was just started, paused or deleted by another process",
                Next.GET_REPLAY(replay=replay.id),
            )
        return number

    @contextmanager
    def begun(self, replay_id: str, launch: int) -> Generator[None]:
        """Marks that the process started under this number has begun, and shows by a lock that it lives. The lock has a
        connection of its own, and ends with the process. Raises Conflict when a newer one was started, or the replay
        was paused since."""
        with lock_connection(self._session) as connection:
            try:
                Statements(connection).run("lock_launch", replay=replay_id, launch=str(launch))
            except psycopg.Error as error:
                raise failed(error, self._session.where) from error
            with self._session.transaction() as sql:
                number = sql.value_or_none(int, "begin_launch", replay=replay_id, launch=launch)
            if number is None:
                self._replays.get(replay_id)
                raise Conflict(
                    f"Replay {replay_id} was started again, or paused, before this run of it began",
                    Next.GET_REPLAY(replay=replay_id),
                )
            yield

    def fail(self, replay_id: str, launch: int, error: str) -> None:
        """The replay has failed before an attempt began, unless one did or a newer run was started."""
        with self._session.transaction() as sql:
            sql.run("fail_launch", replay=replay_id, launch=launch, error=error)

    def revoke(self, replay_id: str) -> None:
        """Keeps a process that was started and has not begun from beginning."""
        with self._session.transaction() as sql:
            sql.run("revoke_launch", replay=replay_id)
