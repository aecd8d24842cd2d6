"""Nothing grows without end in the catalog: a thousand cycles, and what is left of them in each table."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.selected.removed import Removed, removed
from nats3_dagster.catalog import Catalog
from nats3_dagster.model import Archive, ChunkResult, ReplaySpec, Selection
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import chunk, ids, spec, state

CYCLES = 500
KEEP_S = 86_400
# A row for each replay: its id must not be used again, and Dagster shows the hours that it published.
_STAY = {"replay"}
_REPLAYS = """
insert into nats3.replay (id, archive_id, spec, state, chunks, chunks_done, attempt, started_at, finished_at)
select lpad(to_hex(c.id), 16, '0'), c.archive_id, %(spec)s::jsonb, 'succeeded', 1, 1, 2, now(), now()
from nats3.chunk c where c.deleted_at is null"""
_REPLAY_CHUNKS = """
insert into nats3.replay_chunk (replay_id, chunk_id, position, planned, selected, published, state)
select lpad(to_hex(id), 16, '0'), id, 1, messages, messages, messages, 'done'
from nats3.chunk where deleted_at is null"""
_ATTEMPTS = """
insert into nats3.replay_attempt (replay_id, attempt, state, finished_at)
select lpad(to_hex(id), 16, '0'), n, case n when 1 then 'failed' else 'succeeded' end, now()
from nats3.chunk cross join generate_series(1, 2) n where deleted_at is null"""
_REMOVALS = """
insert into nats3.removal (bucket, key, removed_at)
select bucket, key, clock_timestamp() from nats3.chunk where deleted_at is not null
on conflict do nothing"""
# Two days pass.
_AGE = """
update nats3.chunk set deleted_at = deleted_at - interval '2 days', committed_at = committed_at - interval '2 days';
update nats3.replay set finished_at = finished_at - interval '2 days', created_at = created_at - interval '2 days';
update nats3.removal set removed_at = removed_at - interval '2 days';
update nats3.event set happened_at = happened_at - interval '2 days';
update nats3.gap set recorded_at = recorded_at - interval '2 days', newest_at = newest_at - interval '2 days'"""


@pytest.fixture
def logs(workspace: Workspace) -> Archive:
    return workspace.catalog.archives.create(spec(), state(last=10**6))


@pytest.fixture
def sql(postgres_url: str, logs: Archive) -> "Iterator[psycopg.Connection[Any]]":
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        yield connection


def cycles(catalog: Catalog, sql: "psycopg.Connection[Any]", logs: Archive, first: int) -> None:
    """CYCLES chunks that are captured, published, retired after it, and gone from the store; two days later."""
    chunks = [chunk(first + n, first + n) for n in range(CYCLES)]
    catalog.chunks.commit(logs, chunks)
    sql.execute(_REPLAYS, {"spec": '{"archive": "logs", "delete_chunks": true}'})
    sql.execute(_REPLAY_CHUNKS)
    sql.execute(_ATTEMPTS)
    catalog.chunks.retire(logs, [one.id for one in catalog.chunks.select(logs)], replay_id="f" * 16)
    sql.execute(_REMOVALS)
    sql.execute("set session_replication_role = replica")
    sql.execute(_AGE)
    sql.execute("set session_replication_role = origin")


def rows(sql: "psycopg.Connection[Any]") -> dict[str, int]:
    tables = sql.execute("select tablename from pg_tables where schemaname = 'nats3'").fetchall()
    counts = {name: sql.execute(f"select count(*) from nats3.{name}".encode()).fetchone() for (name,) in tables}
    return {name: found[0] for name, found in counts.items() if found}


def clean(catalog: Catalog) -> int:
    done = 0
    while (cleaned := catalog.cleaning.clean(KEEP_S, limit=200)).is_full:
        done += cleaned.rows
    return done + cleaned.rows


def test_a_thousand_cycles_leave_no_more_rows_than_one(workspace: Workspace, logs: Archive, sql: Any) -> None:
    catalog = workspace.catalog
    cycles(catalog, sql, logs, 1)
    before = removed(workspace, logs, Selection())
    attempts = {c.label: c.value for c in catalog.measures.replays() if c.what == "attempts"}
    assert (before, attempts) == (
        (Removed("logs", "retired", "f" * 16, CYCLES, True),),
        {"failed": CYCLES, "succeeded": CYCLES},
    )
    assert clean(catalog) > 3 * CYCLES
    once = rows(sql)
    cycles(catalog, sql, logs, CYCLES + 1)
    grown = rows(sql)
    assert grown["chunk"] - once["chunk"] == grown["replay_chunk"] == CYCLES
    clean(catalog)
    left = rows(sql)
    assert {name for name in left if left[name] > once[name]} <= _STAY, (once, left)
    assert (left["chunk"], left["gap"], left["replay_chunk"], left["replay_attempt"], left["removal"]) == (
        0,
        1,
        0,
        0,
        0,
    )
    # What people see is as it was.
    assert removed(workspace, logs, Selection()) == (Removed("logs", "retired", "f" * 16, 2 * CYCLES, True),)
    attempts = {c.label: c.value for c in catalog.measures.replays() if c.what == "attempts"}
    assert attempts == {"failed": 2 * CYCLES, "succeeded": 2 * CYCLES}
    assert clean(catalog) == 0


def test_what_may_be_needed_stays(workspace: Workspace, logs: Archive, sql: Any) -> None:
    """A replay that may be resumed, with its retired chunk; a chunk whose object is in the store; a hole that a capture
    has to fill, by the hour of its former chunk; what is younger; and the hours that a replay published whole."""
    catalog = workspace.catalog
    metas = [chunk(n, n + 9) for n in (1, 11, 21, 31)]
    catalog.chunks.commit(logs, metas)
    resumed, stored, hole, young = (one.id for one in catalog.chunks.select(logs))
    failed, done = "1" * 16, "2" * 16
    for replay_id, one in ((failed, resumed), (done, young)):
        catalog.replays.begin(replay_id, logs, ReplaySpec("logs"), (), ids([catalog.chunks.get(one)]))
        attempt = catalog.replays.start_attempt(replay_id)
        if replay_id == done:
            catalog.replay_chunks.record(replay_id, attempt, [ChunkResult(one, 10, 10, 0, 0)])
        catalog.replays.finish(replay_id, attempt, "succeeded" if replay_id == done else "failed")
    catalog.chunks.retire(logs, [resumed, stored])
    catalog.chunks.retire(logs, [hole], recapture=True)
    sql.execute(_REMOVALS)
    sql.execute("set session_replication_role = replica")
    sql.execute(_AGE)
    sql.execute("set session_replication_role = origin")
    catalog.chunks.retire(logs, [young])
    sql.execute(_REMOVALS)
    sql.execute("delete from nats3.removal where key = %s", [metas[1].key])
    whole = catalog.replay_chunks.whole_hours([done, failed])
    clean(catalog)
    kept = {id for (id,) in sql.execute("select id from nats3.chunk").fetchall()}
    assert kept == {resumed, stored, hole, young}
    assert [row[0] for row in sql.execute("select replay_id from nats3.replay_chunk").fetchall()] == [failed]
    assert catalog.replay_chunks.whole_hours([done, failed]) == whole
    assert catalog.replays.get(failed).chunks == 1
