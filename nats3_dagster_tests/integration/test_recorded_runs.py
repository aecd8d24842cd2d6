"""Which run of Dagster did it: every row that names one has the run that committed it, and none where a person did."""

from collections import Counter
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from nats3_dagster.actor import in_run
from nats3_dagster.archive.captures.capture_log import record_outcomes
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.stored import folder
from nats3_dagster.errors import OperatorError, SourceError
from nats3_dagster.exports import declare
from nats3_dagster.exports.hours import attempt
from nats3_dagster.hours import hour_start
from nats3_dagster.model import Archive, ChunkResult, ExportResult, ExportSpec, Gap, ReplaySpec
from nats3_dagster.model.export import Export
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import LOGS, chunk, ids, ranges, spec, state
from nats3_dagster_tests.support.stored import hour_key

# The tables that name a run.
_TABLES = """
    select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'dagster_run_id'
    where c.relnamespace = 'nats3'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1"""
Rows = dict[str, Counter[str | None]]


def rows(workspace: Workspace) -> Rows:
    """The number of rows of each table, by their run."""
    with psycopg.connect(workspace.settings.postgres) as connection:
        query = sql.SQL("select dagster_run_id from nats3.{}")
        return {
            table: Counter(run for (run,) in connection.execute(query.format(sql.Identifier(table))))
            for (table,) in connection.execute(_TABLES).fetchall()
        }


def work(workspace: Workspace, archive: Archive, exports: tuple[Export, Export], hour: int) -> None:
    """Captures an hour of the archive, seals, exports and replays it, and takes it out of the archive."""
    catalog, key, first = workspace.catalog, hour_key(hour), hour * 100
    began, start = catalog.now(), hour_start(key)
    metas = [chunk(n, n + 9, hour=key, first_ns=start + n, last_ns=start + n + 9) for n in (first, first + 10)]
    catalog.chunks.commit(archive, metas, [Gap(LOGS, ranges((first + 20, first + 99)), "expired")])
    record_outcomes(workspace, archive, began, errors={key: SourceError("NATS is gone", "")})
    assert len(list(seal_hours(workspace, archive, [key]))) == 1

    def fail() -> ExportResult:
        raise OperatorError("3 messages do not decode")

    exported = ExportResult("logs", "files", key, 1, 20, 0, 0, 9, "0" * 16, 1, 0)
    attempt(workspace, archive, exports[0], key, lambda: exported)
    with pytest.raises(OperatorError, match="do not decode"):
        attempt(workspace, archive, exports[1], key, fail)

    chunks, replay_id = catalog.chunks.of_hour(archive, key), f"{hour:016x}"
    catalog.replays.begin(replay_id, archive, ReplaySpec("logs"), (), ids(chunks))
    number = catalog.replays.start_attempt(replay_id)
    catalog.replay_chunks.record(replay_id, number, [ChunkResult(c.id, 10, 10, 0, 0) for c in chunks])
    catalog.replays.finish(replay_id, number, "succeeded")
    assert catalog.chunks.retire(archive, ids(chunks[:1]), replay_id=replay_id) == 1
    assert len(list(seal_hours(workspace, archive, [key]))) == 1
    assert len(catalog.expiry.expire(archive, hour_key(hour + 1), None, 9)) == 1


def test_what_a_run_commits_names_it_and_what_is_done_by_hand_names_none(
    workspace: Workspace, bucket: str, tmp_path: Path
) -> None:
    archive = workspace.catalog.archives.create(spec(bucket=bucket), state(first=700, last=700))
    folder.claim(workspace, archive)
    places = [ExportSpec(name, f"file://{tmp_path}/{name}") for name in ("files", "broken")]
    one, other = (declare.create(workspace, "logs", place).export for place in places)
    before = rows(workspace)
    with in_run("run"):
        work(workspace, archive, (one, other), 7)
    by_run = rows(workspace)
    assert {table: runs[None] for table, runs in by_run.items()} == {
        table: runs[None] for table, runs in before.items()
    }
    assert [table for table, runs in by_run.items() if not runs["run"]] == []
    work(workspace, archive, (one, other), 8)
    assert {table: runs - by_run[table] for table, runs in rows(workspace).items()} == {
        table: Counter({None: runs["run"]}) for table, runs in by_run.items()
    }
