"""Faults: Iceberg tables of archives, whose syncs race, die, and meet what others did."""

import time

import psycopg
from psycopg import sql

from nats3_dagster_tests.faults import judge_tables, table_jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

STEPS = ("table.loaded", "table.planned", "table.begun", "table.in_commit", "table.committed")
# An error of a sync that leaves what another program did.
REFUSED = "Another program changed the table"
# A capture that commits, and whose table is not synced.
UNSYNCED = "table.loaded:raise"


def make_table(trial: Trial) -> None:
    """An archive with some chunks, and its table."""
    trial.make_stream(trial.random.randrange(150, 500))
    trial.capture()
    add_table(trial)


def add_table(trial: Trial) -> None:
    """A table of the archive, in an Iceberg catalog that is another database."""
    trial.lake = trial._stack.enter_context(trial.servers.database())
    server = trial.servers.postgres
    uri = server.url(trial.lake).replace("postgresql://", "postgresql+psycopg://")
    trial.environment |= {"PYICEBERG_CATALOG__LAKE__TYPE": "sql", "PYICEBERG_CATALOG__LAKE__URI": uri}
    trial.must(table_jobs.create_table, ARCHIVE)


def grow(trial: Trial, *, synced: bool = False) -> None:
    """More chunks, which the table does not have yet unless `synced`."""
    trial.publish(trial.random.randrange(30, 300))
    ended = trial.capture("" if synced else UNSYNCED)
    assert ended.ok, ended


def judge(trial: Trial) -> None:
    """After a sync that succeeded."""
    with trial.servers.admin(database=trial.lake) as lake, trial.servers.admin(database=trial.database) as catalog:
        table = judge_tables.read_table(lake, table_jobs.LAKE, table_jobs.TABLE)
        root = f"file://{trial._folder / BUCKET}"
        trial.blame(judge_tables.judge_table(judge_tables.listed(table), judge_tables.live(catalog, ARCHIVE), root))
        trial.blame(judge_tables.judge_guard(table))
    for bucket, key in trial.live_objects():
        trial.expect(trial.exists(bucket, key), "lost", f"the object of a live chunk is gone: {key}")
    behind, changed, error = trial.must(table_jobs.list_table, ARCHIVE)
    trial.expect(not (behind or changed or error), "unclear", f"the list of a table that is right: {changed} {error}")


def finish(trial: Trial, *, full: bool = False) -> None:
    if trial.finish(table_jobs.sync_table, ARCHIVE, full):
        judge(trial)


@fault("two table syncs", "two or three syncs of a table at once, each held somewhere", store="file")
def two_syncs(trial: Trial) -> None:
    make_table(trial)
    grow(trial)
    trial.must(table_jobs.retire_chunks, ARCHIVE, [trial.random.randrange(100)])
    faults = [
        f"{trial.random.choice(STEPS)}:sleep={trial.random.random():.2f}" for _ in range(trial.random.randrange(2, 4))
    ]
    started = [trial.start(table_jobs.sync_table, ARCHIVE, fault=point) for point in faults]
    ended = [trial.end(job, "one of several syncs") for job in started]
    trial.expect(all(one.ok for one in ended), "unclear", "a sync that lost a race did not read again")
    judge(trial)
    finish(trial)


@fault("table sync killed", "kill -9 of a sync at any of its steps, once or twice", store="file")
def sync_killed(trial: Trial) -> None:
    make_table(trial)
    for _ in range(trial.random.randrange(1, 3)):
        grow(trial)
        if trial.random.random() < 0.5:
            trial.must(table_jobs.retire_chunks, ARCHIVE, [trial.random.randrange(100) for _ in range(2)])
        full, step = trial.random.random() < 0.3, trial.random.choice(STEPS)
        trial.run(table_jobs.sync_table, ARCHIVE, full, fault=f"{step}:kill")
    finish(trial)


@fault("table changed", "another program deletes, appends, overwrites, rolls back, unguards", store="file", short=True)
def changed(trial: Trial) -> None:
    make_table(trial)
    grow(trial, synced=True)
    kind = trial.random.choice(("delete", "append", "overwrite", "rollback", "guard"))
    trial.must(table_jobs.change_table, kind, trial.random.randrange(10_000))
    trial.log.append(f"another program: {kind}")
    if kind != "guard":
        _expect_said(trial)
    if trial.random.random() < 0.6:
        trial.publish(50)
        trial.capture()
    ended = trial.run(table_jobs.sync_table, ARCHIVE)
    if kind == "guard":
        trial.expect(ended.ok, "unclear", f"a sync of a table without its guard: {ended}")
        judge(trial)
        return
    trial.expect(REFUSED in ended.text, "silent", f"a sync undid what another program did: {ended}")
    _expect_said(trial)
    differences = trial.must(table_jobs.verify_table, ARCHIVE)
    trial.expect(differences > 0, "silent", "verify of a changed table has no difference")
    finish(trial, full=True)


def _expect_said(trial: Trial) -> None:
    behind, what, _ = trial.must(table_jobs.list_table, ARCHIVE)
    trial.expect(behind and bool(what), "silent", "the list does not say what another program did")


@fault("table changed in a sync", "another program commits while a sync is held", store="file")
def changed_meanwhile(trial: Trial) -> None:
    make_table(trial)
    grow(trial)
    point, full = trial.random.choice(STEPS), trial.random.random() < 0.3
    with trial.held(point, table_jobs.sync_table, ARCHIVE, full) as job:
        kind = trial.random.choice(("delete", "append", "guard"))
        trial.must(table_jobs.change_table, kind, trial.random.randrange(10_000))
    ended = trial.end(job, f"sync held at {point}, full {full}, meanwhile {kind}")
    if ended.ok:
        # It may have ended before the other program's commit: then the list says what that one did.
        behind, what, _ = trial.must(table_jobs.list_table, ARCHIVE)
        if not behind:
            judge(trial)
            return
        trial.expect(bool(what), "silent", "the list does not say what another program did")
    else:
        trial.expect(REFUSED in ended.text or "Conflict" in ended.error, "unclear", f"the sync ended by {ended}")
    finish(trial, full=True)


@fault("chunks retired in a sync", "chunks are retired and captured while a sync is held", store="file")
def retired_meanwhile(trial: Trial) -> None:
    make_table(trial)
    grow(trial)
    with trial.held(trial.random.choice(STEPS), table_jobs.sync_table, ARCHIVE, trial.random.random() < 0.5) as job:
        for _ in range(trial.random.randrange(1, 3)):
            trial.must(table_jobs.retire_chunks, ARCHIVE, [trial.random.randrange(100) for _ in range(3)])
            if trial.random.random() < 0.5:
                grow(trial, synced=trial.random.random() < 0.5)
    trial.end(job, "sync during which chunks were retired")
    finish(trial)


@fault("table newer than catalog", "the catalog is put back; the table has newer snapshots", store="file")
def catalog_put_back(trial: Trial) -> None:
    make_table(trial)
    copy = f"{trial.database}_copy"
    with trial.servers.admin() as connection:
        _copy(connection, trial.database, copy)
    for _ in range(trial.random.randrange(1, 3)):
        grow(trial, synced=True)
    if trial.random.random() < 0.3:
        trial.must(table_jobs.retire_chunks, ARCHIVE, [trial.random.randrange(100)])
        trial.must(table_jobs.sync_table, ARCHIVE)
    with trial.servers.admin() as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(trial.database)))
        connection.execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(copy), sql.Identifier(trial.database))
        )
    for _ in range(trial.random.randrange(1, 3)):
        trial.publish(trial.random.randrange(30, 200))
        trial.capture()
    behind, _, error = trial.must(table_jobs.list_table, ARCHIVE)
    if not behind:
        judge(trial)
    else:
        trial.log.append(f"behind, said: {error}")
    finish(trial)


def _copy(connection: psycopg.Connection[object], database: str, copy: str) -> None:
    """A copy of the database, once no process is connected any more."""
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
    until = time.monotonic() + 10
    while True:
        try:
            connection.execute(statement.format(sql.Identifier(copy), sql.Identifier(database)))
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
