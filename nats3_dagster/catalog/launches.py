"""Launches: which run or process may begin a replay. The newest one, and none after a pause."""

from nats3_dagster.catalog.pool import Session
from nats3_dagster.catalog.replays import Replays
from nats3_dagster.errors import Conflict
from nats3_dagster.model import Replay
from nats3_dagster.steps import Next


class Launches:
    """Claim, check and revoke."""

    def __init__(self, session: Session, replays: Replays) -> None:
        self._session, self._replays = session, replays

    def claim(self, known: Replay) -> int:
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

    def check(self, replay_id: str, launch: int) -> None:
        """Raises Conflict when a newer one was started, or the replay was paused since."""
        if self._replays.get(replay_id).launch != launch:
            raise Conflict(
                f"Replay {replay_id} was started again, or paused, before this run of it began",
                Next.GET_REPLAY(replay=replay_id),
            )

    def fail(self, replay_id: str, launch: int, error: str) -> None:
        """The replay has failed before an attempt began, unless one did or a newer run was started."""
        with self._session.transaction() as sql:
            sql.run("fail_launch", replay=replay_id, launch=launch, error=error)

    def revoke(self, replay_id: str) -> None:
        """What was started and has not begun may not begin any more."""
        with self._session.transaction() as sql:
            sql.run("revoke_launch", replay=replay_id)
