"""Cleaning: what the catalog forgets, or keeps in a smaller form, a time after it was needed last.

Invariant: nothing that is live, may be resumed, or stands for an object in a store is forgotten; sums that people see
stay. Each step is a transaction, and may be repeated: a process that dies leaves the rest to the next call.
"""

from dataclasses import dataclass

from nats3_dagster.catalog.session.pool import Session
from nats3_dagster.catalog.session.statements import Statements
from nats3_dagster.fault_points import fault_point

# Rows that a step looks at: at some 50 microseconds each it holds no lock for long.
AT_ONCE = 5_000
# Replays that are folded by one call, each in a transaction of its own.
REPLAYS_AT_ONCE = 50
# Each forgets rows of one table; those that others refer to come last.
_STEPS = (
    "join_retired",
    "forget_chunks",
    "forget_seals",
    "forget_consumers",
    "forget_problems_of_deleted",
    "forget_removals",
    "forget_captures_of_deleted",
    "forget_export_hours",
    "forget_events",
    "forget_holds",
)

# Those that are functions of the schema.
_FUNCTIONS = frozenset({"join_retired", "forget_events"})


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The work of one call."""

    # Replays that are kept without their chunks and attempts now.
    replays: int
    # Rows that were forgotten, or joined with others.
    rows: int
    # Whether there may be more to do.
    is_full: bool


class Cleaning:
    """Forget what has become old."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def clean(self, keep_s: int, *, limit: int = AT_ONCE) -> Cleaned:
        """Forget what nothing has needed for `keep_s` seconds: `limit` rows of each table at most."""
        with self._session.reading() as sql:
            old = sql.values(str, "old_replays", keep_s=keep_s, limit_to=min(limit, REPLAYS_AT_ONCE))
        rows = [self._fold(replay_id) for replay_id in old]
        is_full = len(old) == min(limit, REPLAYS_AT_ONCE)
        for step in _STEPS:
            with self._session.transaction() as sql:
                count = _run(sql, step, keep_s, limit)
                fault_point(f"clean.{step}")
            rows.append(count)
            is_full = is_full or count >= limit
        return Cleaned(len(old), sum(rows), is_full)

    def _fold(self, replay_id: str) -> int:
        """Keep the replay without its chunks and attempts."""
        with self._session.transaction() as sql:
            if not sql.values(str, "record_whole_hours", replay=replay_id):
                return 0
            sql.run("count_attempts", replay=replay_id)
            rows = sql.run("forget_attempts", replay=replay_id)
            fault_point("clean.fold_replay")
            return rows + sql.run("forget_replay_chunks", replay=replay_id)


def _run(sql: Statements, step: str, keep_s: int, limit: int) -> int:
    if step in _FUNCTIONS:
        return sql.value(int, step, keep_s=keep_s, limit_to=limit)
    return sql.run(step, keep_s=keep_s, limit_to=limit)
