"""Fills a catalog as years of captures would: by SQL, without triggers, with the sums that triggers keep.

`test_year.py` proves at a small size that captures leave the same rows and sums.
"""

import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.catalog.session.statements import parse
from nats3_dagster.chunks.bloom import bloom_of, hashes_of
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ArchiveSpec
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire

# Messages of a chunk.
SEQS = 1000
# Chunks of an hour: one a minute.
EACH_HOUR = 60
_TABLES = ("chunk", "chunk_subject", "gap", "seal")


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is."""

    # Chunks of the archive `long`.
    chunks: int = 1_000_000
    # Chunks of the archive `busy`, and the subjects of each.
    busy_chunks: int = 3_000
    busy_subjects: int = 10_000
    # Empty captures of the archive `quiet`, one a minute.
    empty_captures: int = 500_000
    # Archives of the stream MANY, and the hours of each.
    archives: int = 500
    hours: int = 10_000
    # Hours of the archive `month`, whose small chunks have objects with messages.
    month_hours: int = 720

    @classmethod
    def part(cls, divisor: int) -> "Size":
        """The size divided by a number; the subjects of a chunk stay, and the hours of an archive do."""
        whole = cls()
        return cls(
            max(whole.chunks // divisor, 120),
            max(whole.busy_chunks // divisor, 60),
            whole.busy_subjects,
            max(whole.empty_captures // divisor, 120),
            max(whole.archives // divisor, 2),
            whole.hours,
            max(whole.month_hours // divisor, 2),
        )


def last_hour() -> str:
    """The newest hour that is full: the one before the last that has ended by every clock."""
    return hour_of(hour_start(hour_of(time.time_ns())) - 2 * HOUR_NS)


def create_archives(workspace: Workspace, wire: Wire, bucket: str, size: Size) -> dict[str, Archive]:
    """The archives `long`, `busy`, `quiet` and `many`, and the streams: each begins after what is to be archived."""
    ends = {
        "long": size.chunks * SEQS,
        "busy": size.busy_chunks * SEQS,
        "quiet": size.empty_captures * SEQS,
        "many": size.hours * SEQS,
    }
    made: dict[str, Archive] = {}
    for name, end in ends.items():
        wire.create_stream(name.upper(), f"{name}.>", first_seq=end + 1)
        subjects = ("quiet.wanted",) if name == "quiet" else ()
        made[name] = create(workspace, ArchiveSpec(name, name.upper(), bucket, subjects=subjects))
    with workspace.catalog.session.reading() as sql:
        sql.connection.execute("update nats3.coverage set start_seq = 1")
    return made


def fill(postgres: str, archives: dict[str, Archive], size: Size, bucket: str) -> None:
    """Fills the archives of `create_archives` up to `last_hour`, every hour of them sealed."""
    last = last_hour()
    with psycopg.connect(postgres, autocommit=True) as connection:
        run = Run(connection)
        incarnations: dict[int, int] = dict(
            connection.execute("select archive_id, incarnation_id from nats3.coverage").fetchall()
        )
        indexes = run("indexes").fetchall()
        for table in _TABLES:
            connection.execute(f"alter table nats3.{table} disable trigger user".encode())
        connection.execute("alter table nats3.chunk drop constraint chunk_no_overlap")
        for name, _ in indexes:
            connection.execute(f"drop index if exists nats3.{name}".encode())
        for name, chunks, subjects in (("long", size.chunks, 1), ("busy", size.busy_chunks, None)):
            of = archives[name].id
            run(
                "fill_chunks",
                archive=of,
                incarnation=incarnations[of],
                last_hour=last,
                chunks=chunks,
                each_hour=EACH_HOUR,
                seqs=SEQS,
                subjects=subjects,
                bucket=bucket,
            )
        run("fill_subjects", archive=archives["long"].id)
        run("fill_blooms", archive=archives["busy"].id, blocks=busy_bloom(size.busy_subjects))
        quiet = archives["quiet"].id
        end = size.empty_captures * SEQS
        run("fill_gap", archive=quiet, incarnation=incarnations[quiet], first_seq=1, last_seq=end)
        run("fill_archives", archives=size.archives, archive=archives["many"].id)
        run("sum_hours", archives=[archives["long"].id, archives["busy"].id])
        run("fill_hours", stream="MANY", last_hour=last, hours=size.hours, seqs=SEQS)
        for _, definition in indexes:
            # That of the constraint as a plain one: as a constraint it would be asked for each chunk.
            connection.execute(definition.encode())
        # A connection looks for the constraint by its name.
        connection.execute("alter table nats3.chunk add constraint chunk_no_overlap check (true) not valid")
        before = hour_of(hour_start(last) - (size.empty_captures // EACH_HOUR - 1) * HOUR_NS)
        run("seal_hours", last_hour=last, before=before)
        run("sum_coverage")
        run("sum_archive_hours")
        run("sum_gaps")
        run("count_changes")
        for table in _TABLES:
            connection.execute(f"alter table nats3.{table} enable trigger user".encode())
        connection.execute("vacuum analyze")


@cache
def busy_bloom(subjects: int) -> bytes:
    """The filter of a chunk of `busy`."""
    import numpy as np

    return bloom_of(np.concatenate([hashes_of(f"busy.{n}".encode() for n in range(subjects))]))


class Run:
    """The statements of fill.sql, by name."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection
        # A percent sign is one of psycopg's.
        self._texts = parse((Path(__file__).parent / "fill.sql").read_text().replace("%", "%%"))

    def __call__(self, statement: str, **values: object) -> "psycopg.Cursor[Any]":
        return self._connection.execute(self._texts[statement].encode(), values or None)
