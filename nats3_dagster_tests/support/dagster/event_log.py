"""How much Dagster keeps of a run in its database."""

from dataclasses import dataclass
from typing import LiteralString

import psycopg


@dataclass(frozen=True, slots=True)
class Kept:
    """The rows of one run."""

    # Events by their type: their number and bytes. Without lines of loggers.
    events: dict[str, tuple[int, int]]
    # Bytes in asset_event_tags, run_tags and runs.
    asset_tags: int
    run_tags: int
    run: int

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.events.values()) + self.asset_tags + self.run_tags + self.run

    @property
    def count(self) -> int:
        return sum(number for number, _ in self.events.values())


def kept_of_run(postgres: str, run_id: str) -> Kept:
    """Bytes are those of the rows as Postgres stores them, without indexes."""
    with psycopg.connect(postgres, options="-csearch_path=public") as connection:

        def size(table: LiteralString, where: LiteralString) -> int:
            query = f"select coalesce(sum(pg_column_size(t.*)), 0)::bigint from {table} t where {where}"
            (found,) = connection.execute(query, {"run": run_id}).fetchone() or (0,)
            return found

        rows = connection.execute(
            "select dagster_event_type, count(*), sum(pg_column_size(t.*))::bigint from event_logs t "
            "where run_id = %s and dagster_event_type is not null group by 1 order by 3 desc",
            [run_id],
        ).fetchall()
        own = "event_id in (select id from event_logs where run_id = %(run)s)"
        return Kept(
            {kind: (number, taken) for kind, number, taken in rows},
            size("asset_event_tags", own),
            size("run_tags", "run_id = %(run)s"),
            size("runs", "run_id = %(run)s"),
        )
