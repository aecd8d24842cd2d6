"""A catalog of years, and what commands, ticks, scrapes and plans cost beside it.

    python -m nats3_dagster_tests.year [--part 10] [--only plan,tick]

`--part 10` fills a tenth of it. Fails if a goal is missed (docs/performance.md).
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from rich.console import Console
from rich.table import Table

from nats3_dagster.objects import create_bucket
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench import servers
from nats3_dagster_tests.bench.servers import Servers
from nats3_dagster_tests.support.wire import Wire
from nats3_dagster_tests.year.account import fill_account
from nats3_dagster_tests.year.fill import Size, create_archives, fill
from nats3_dagster_tests.year.replays import Files, compact_month, fill_month, fill_objects, fill_replay, make_streams
from nats3_dagster_tests.year.rows import ACCOUNT, ATTEMPT, MONTH, MONTH_COMPACTED, ROWS, Row

_SIZES = """
select relname, n_live_tup, pg_total_relation_size(relid) from pg_stat_user_tables
where schemaname = 'nats3' order by 3 desc limit 8"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make year")
    parser.add_argument("--part", type=int, default=1, help="fill this part of it")
    parser.add_argument("--only", default="", help="rows that begin with one of these words")
    arguments = parser.parse_args()
    size, console = Size.part(arguments.part), Console(width=120)
    with servers.running(nats=True) as running:
        assert running.nats
        create_bucket(running.settings.store, servers.BUCKET)
        began = time.monotonic()
        with Workspace(running.settings) as workspace, Wire(running.nats.url) as wire:
            archives = create_archives(workspace, wire, servers.BUCKET, size)
            fill(running.settings.postgres, archives, size, servers.BUCKET)
        console.print(f"Filled in {time.monotonic() - began:.0f} s: {size}")
        _print_sizes(console, running.settings.postgres)
        prepared = _Prepared(running, Files(running.folder / "files"), size)
        words = tuple(arguments.only.split(","))
        table = Table("", "ms", "of processor here", "goal", "peak MB", "goal ")
        missed: list[str] = []
        for name, row in ROWS.items():
            if name.startswith(words):
                prepared.before(name)
                seconds, cpu, peak = _measured(name, prepared.environment(row))
                print(
                    f"{name}: {seconds * 1000:,.0f} ms, {cpu * 1000:,.0f} ms of processor, {peak:,.0f} MB", flush=True
                )
                missed += [name] if _is_missed(row, seconds, peak) else []
                table.add_row(
                    name,
                    f"{seconds * 1000:,.0f}",
                    f"{cpu * 1000:,.0f}",
                    _goal(row.goal_ms),
                    f"{peak:,.0f}",
                    _goal(row.goal_mb),
                )
        console.print(table)
    if missed:
        console.print(f"Missed: {', '.join(missed)}")
    sys.exit(1 if missed else 0)


class _Prepared:
    """Fills what single rows need, before the first of them: the others do without it."""

    def __init__(self, running: Servers, files: Files, size: Size) -> None:
        self._running, self._files, self._size = running, files, size
        self._done = set[str]()

    def before(self, row: str) -> None:
        for beginning, fill_it in {
            ATTEMPT: self._attempt,
            MONTH: self._month,
            MONTH_COMPACTED: self._compaction,
            ACCOUNT: self._account,
        }.items():
            if row.startswith(beginning) and beginning not in self._done:
                began = time.monotonic()
                fill_it()
                self._done.add(beginning)
                print(f"Filled for {beginning} in {time.monotonic() - began:.0f} s", flush=True)

    def environment(self, row: Row) -> dict[str, str]:
        return {**os.environ, "NATS3_STORE_URL": self._files.url} if row.in_folder else {**os.environ}

    @property
    def _url(self) -> str:
        assert self._running.nats
        return self._running.nats.url

    @contextmanager
    def _in_folder(self) -> Iterator[Workspace]:
        if not self._files.bucket(servers.BUCKET).exists():
            self._files.bucket(servers.BUCKET).mkdir(parents=True)
            make_streams(self._url)
        settings = self._running.settings.model_copy(update={"store_url": self._files.url})
        with Workspace(settings) as workspace:
            yield workspace

    def _attempt(self) -> None:
        with self._in_folder() as workspace:
            fill_objects(workspace, self._files, servers.BUCKET)
            fill_replay(workspace)

    def _month(self) -> None:
        with self._in_folder() as workspace:
            fill_month(workspace, servers.BUCKET, self._size.month_hours)

    def _compaction(self) -> None:
        with self._in_folder() as workspace:
            compact_month(workspace)

    def _account(self) -> None:
        with Workspace(self._running.settings) as workspace:
            fill_account(workspace, self._url, servers.BUCKET)


def _measured(name: str, environment: dict[str, str]) -> tuple[float, float, float]:
    command = [sys.executable, "-m", "nats3_dagster_tests.year.one", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment)
    seconds, cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return seconds, cpu, peak


def _is_missed(row: Row, seconds: float, peak: float) -> bool:
    slow = row.goal_ms is not None and seconds * 1000 > row.goal_ms
    return slow or (row.goal_mb is not None and peak > row.goal_mb)


def _goal(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _print_sizes(console: Console, postgres: str) -> None:
    with psycopg.connect(postgres) as connection:
        table = Table("table", "rows", "MB", "bytes a row")
        for name, rows, size in connection.execute(_SIZES).fetchall():
            table.add_row(name, f"{rows:,}", f"{size / 1e6:,.0f}", f"{size / max(rows, 1):,.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
