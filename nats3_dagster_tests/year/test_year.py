"""A small part of a year: triggers keep the sums by which it is filled, and no call reads more than it answers.

The measure is the rows that Postgres reads, as in integration/test_catalog_size.py: seconds differ between machines.
"""

import gc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.proof.seal import newest_closed
from nats3_dagster.archive.proof.verify import find_holes, sample_chunks
from nats3_dagster.catalog import Catalog
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, Chunk, ChunkResult, Gap, Seal
from nats3_dagster.replay import pages
from nats3_dagster.replay.drive import drive
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import HOUR_NS as FIRST_NS
from nats3_dagster_tests.support.catalog import LOGS, chunk, ranges, spec, state
from nats3_dagster_tests.support.wire import Wire
from nats3_dagster_tests.year.fill import Run, Size, create_archives, fill, last_hour
from nats3_dagster_tests.year.replays import REPLAY, Files, fill_objects, fill_replay, make_streams

PENDING = Size(chunks=2000, busy_chunks=60, empty_captures=120, archives=2, hours=10)
SIZE = Size(chunks=6000, busy_chunks=60, empty_captures=6000, archives=3, hours=3000)
_ROWS_READ = """
select (select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_user_tables where schemaname = 'nats3')
     + (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = 'nats3')"""


def hour(number: int) -> str:
    return hour_of(FIRST_NS + number * HOUR_NS)


def seal(catalog: Catalog, logs: Archive, number: int) -> None:
    """Seal the hour as it is now, without a manifest."""
    row, _ = catalog.seals.next(logs, hour(number))
    key = f"manifest-{number}-{row.number}"
    made = Seal(
        hour=hour(number),
        number=row.number,
        revision=row.revision,
        chunks=row.chunks,
        losses=row.losses,
        messages=1,
        gaps=0,
        content="0" * 16,
        bucket="archive",
        key=key,
        sha256="0" * 64,
        stored_bytes=1,
    )
    catalog.seals.add(logs, made, begun=catalog.now())


def of_hour(number: int, first: int, last: int) -> Any:
    begins = FIRST_NS + number * HOUR_NS
    return chunk(first, last, hour=hour(number), first_ns=begins + first, last_ns=begins + last)


def sealed(catalog: Catalog, logs: Archive) -> list[str]:
    """The hours that are known to be as they were sealed, once it is shown that they are."""
    with catalog.session.reading() as sql:
        kept = sql.connection.execute(
            "select nats3.hour_at(h) from nats3.archive_hours, unnest(sealed) r, "
            "generate_series(lower(r), upper(r) - 1) h where archive_id = %s order by 1",
            [logs.id],
        ).fetchall()
    hours = [one for (one,) in kept]
    valid = [one for one in catalog.seals.select(logs) if one.valid]
    assert hours == [one.hour for one in valid]
    counts = catalog.hours.counts(logs)
    assert (counts.sealed, counts.empty) == (len(valid), sum(not one.chunks for one in valid))
    assert counts.hours == len(catalog.hours.select(logs))
    return hours


def test_triggers_keep_the_sums(postgres_url: str) -> None:
    """What changes, and what is sealed, in all ways that there are; then the sums once more, from the rows alone."""
    with Catalog.connect(postgres_url) as catalog:
        logs = catalog.archives.create(spec(), state(last=900))
        catalog.chunks.commit(logs, [of_hour(0, 1, 10), of_hour(0, 11, 20), of_hour(1, 21, 30)])
        for number in (0, 1):
            seal(catalog, logs, number)
        assert sealed(catalog, logs) == [hour(0), hour(1)]
        # An hour that has nothing, one whose chunk comes later, and one that loses messages.
        seal(catalog, logs, 2)
        seal(catalog, logs, 3)
        assert sealed(catalog, logs) == [hour(n) for n in range(4)]
        catalog.chunks.commit(logs, [of_hour(3, 41, 50)])
        assert sealed(catalog, logs) == [hour(n) for n in range(3)]
        # The stream was last seen in the first hour: the loss counts in the hour of the chunk before it.
        catalog.chunks.commit(logs, [], [Gap(LOGS, ranges((31, 40)), "expired")])
        assert sealed(catalog, logs) == [hour(0), hour(2)]
        # Empty captures, one after the other, are one gap; another reason is another.
        for first in range(51, 81, 10):
            catalog.chunks.commit(logs, [], [Gap(LOGS, ranges((first, first + 9)), "unselected")])
        catalog.chunks.commit(logs, [], [Gap(LOGS, ranges((91, 95)), "unselected")])
        catalog.chunks.commit(
            logs, [], [Gap(LOGS, ranges((81, 90)), "unselected"), Gap(LOGS, ranges((96, 99)), "deleted")]
        )
        assert [(g.reason, g.ranges) for g in catalog.gaps.select(logs)] == [
            ("expired", ranges((31, 40))),
            ("unselected", ranges((51, 95))),
            ("deleted", ranges((96, 99))),
        ]
        # A real message is worth more, in the middle of what was joined.
        catalog.chunks.commit(logs, [of_hour(4, 61, 65)])
        assert catalog.gaps.sums(logs) == {"expired": 10, "unselected": 40, "deleted": 4}
        for number in (1, 2, 3, 4):
            seal(catalog, logs, number)
        assert sealed(catalog, logs) == [hour(n) for n in range(5)]
        first, second = catalog.chunks.of_hour(logs, hour(0))
        catalog.chunks.retire(logs, [first.id])
        assert sealed(catalog, logs) == [hour(n) for n in range(1, 5)]
        seal(catalog, logs, 0)
        # Of an hour that has no chunk any more.
        catalog.chunks.retire(logs, [second.id], recapture=True)
        assert sealed(catalog, logs) == [hour(n) for n in range(1, 5)]
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            run = Run(connection)
            kept = run("kept_sums").fetchone()
            connection.execute("set session_replication_role = replica")
            connection.execute("truncate nats3.hour, nats3.archive_hours, nats3.gap_sum")
            connection.execute("update nats3.coverage set covered = '{}', chunks = 0, messages = 0, absent = 0")
            connection.execute("delete from nats3.seal where superseded_at is not null or hour = %s", [hour(0)])
            run("sum_hours", archives=[logs.id])
            run("sum_coverage")
            run("sum_archive_hours")
            run("sum_gaps")
            assert run("kept_sums").fetchone() == kept


def test_no_call_reads_more_as_an_archive_grows(workspace: Workspace, wire: Wire, bucket: str) -> None:
    archives = create_archives(workspace, wire, bucket, SIZE)
    fill(workspace.settings.postgres, archives, SIZE, bucket)
    catalog = workspace.catalog
    long, busy, quiet, many = (archives[name] for name in ("long", "busy", "quiet", "many"))
    closed = newest_closed(hour_start(last_hour()) + 2 * HOUR_NS)
    an_hour, first_hour = [last_hour()], hour_of(hour_start(last_hour()) - (SIZE.hours - 1) * HOUR_NS)
    middle = hour_start(last_hour()) - SIZE.chunks // 120 * HOUR_NS
    a_while_ago = (middle, middle + HOUR_NS)
    assert len(catalog.chunks.select(long, time_range=a_while_ago, limit=100)) == 60
    calls: dict[str, tuple[Callable[[], object], int]] = {
        # name: (call, rows that it may read). A row found through an index counts twice.
        "five chunks to verify": (lambda: sample_chunks(workspace, long, 5), 200),
        "holes and losses": (lambda: find_holes(workspace, quiet), 30),
        "hours of a scrape": (lambda: catalog.measures.current(closed), 100),
        "counts of hours": (lambda: catalog.hours.counts(many), 10),
        "hours to seal": (lambda: catalog.seals.unsealed(many, first_hour, closed), 40),
        "totals of an archive": (lambda: catalog.archives.totals_of(many), 20),
        "what is to be swept": (lambda: catalog.removals.sweepable(0), 20),
        "cleaning": (lambda: catalog.cleaning.clean(86_400), 40),
        "a page of the times of an hour": (lambda: catalog.chunks.select(long, time_range=a_while_ago, limit=1), 900),
        "chunks of an hour of 10,000 subjects": (
            lambda: catalog.chunks.select(busy, hours=an_hour, with_subjects=True),
            1000,
        ),
    }
    assert len(catalog.chunks.select(busy, hours=an_hour)) == 60
    read: dict[str, int] = {}
    with psycopg.connect(workspace.settings.postgres, autocommit=True) as watcher:
        before = _rows_read(catalog, watcher)
        for name, (call, _) in calls.items():
            call()
            after = _rows_read(catalog, watcher)
            read[name], before = after - before, after
    too_many = {name: read[name] for name, (_, bound) in calls.items() if read[name] > bound}
    assert not too_many, f"rows read: {too_many}; all: {read}"


def test_an_attempt_holds_a_page_of_what_is_pending(
    workspace: Workspace, wire: Wire, nats: NatsServer, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the chunks that it holds nor the rows that it reads for a page grow with what is pending."""
    monkeypatch.setattr(pages, "PAGE", 200)
    archives = create_archives(workspace, wire, bucket, PENDING)
    fill(workspace.settings.postgres, archives, PENDING, bucket)
    files = Files(tmp_path)
    files.bucket(bucket).mkdir(parents=True)
    held: list[int] = []
    read: list[int] = []
    with (
        Workspace(workspace.settings.model_copy(update={"store_url": files.url})) as in_folder,
        psycopg.connect(workspace.settings.postgres, autocommit=True) as watcher,
    ):
        fill_objects(in_folder, files, bucket)
        make_streams(nats.url)
        fill_replay(in_folder)

        def publish(job: ReplayJob, chunks: tuple[Chunk, ...]) -> tuple[list[ChunkResult], None]:
            held.append(_chunks_held() - before)
            read.append(_rows_read(in_folder.catalog, watcher))
            assert len(job.done) == min(len(held) - 1, 1)
            return [ChunkResult(c.id, c.meta.messages, c.meta.messages, 0, 0) for c in chunks], None

        before = _chunks_held()  # of tests before this one
        done = drive(in_folder, REPLAY, publish)
    assert (done.chunks, len(held), max(held)) == (PENDING.chunks, 10, 200)
    for_a_page = [later - earlier for earlier, later in pairwise(read)]
    assert max(for_a_page) <= 6000, for_a_page


def test_a_sample_has_its_number_of_chunks(postgres_url: str, workspace: Workspace) -> None:
    """Also where one chunk has nearly all sequences."""
    logs = workspace.catalog.archives.create(spec(), state(last=10**9))
    big = chunk(1, 10**8)
    workspace.catalog.chunks.commit(logs, [big, *(chunk(10**8 + n, 10**8 + n) for n in range(1, 9))])
    chunks, total = sample_chunks(workspace, logs, 5)
    ids = {one.id for one in chunks}
    assert (len(ids), total) == (5, 9)


def _chunks_held() -> int:
    gc.collect()
    return sum(isinstance(one, Chunk) for one in gc.get_objects())


def _rows_read(catalog: Catalog, watcher: "psycopg.Connection[Any]") -> int:
    with catalog.session.reading() as sql:
        sql.connection.execute("select pg_stat_force_next_flush()")
    found = watcher.execute(_ROWS_READ).fetchone()
    assert found
    return int(found[0])
