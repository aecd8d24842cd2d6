"""What tests of archives of the mode `consumer` begin with: a stream, its durable, an archive, runs without Spark."""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import sql

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.stored.fetch import fetch_each
from nats3_dagster.archive.take.driver import run_rounds
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import SECOND_NS, hour_of
from nats3_dagster.jetstream.take import durable as durables
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange
from nats3_dagster.pipeline.worker import take_task
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire

# What follows `ev.`: not UTF-8, looks like the text of one that is not, wildcards, and white space of Unicode alone.
STRANGE = [
    b"\xff",
    b"%FF",
    b"\xc3\xa9.\xff\xfe",
    b"\xed\xa0\x80",
    b"a\0b",
    b"*",
    b">",
    b"\x0b",
    b"\x0c",
    b"\x1f",
    b"\x85",
    "\u00a0".encode(),
    "\u3000".encode(),
    "\u2028".encode(),
    b"x*y",
    b"plain",
    b"\xff",
]

# A durable of the user that an archive can use.
USERS = {"ack_policy": "explicit", "ack_wait": 5 * SECOND_NS, "max_ack_pending": 20_000}
QUEUE, INTEREST = {"retention": "workqueue"}, {"retention": "interest"}


def acknowledged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on an archive makes its durable as on a server that does not acknowledge by flow control."""
    monkeypatch.setattr(durables, "FLOW_ACKS", (99, 0))


def durable(wire: Wire, name: str, stream: str = "JOBS", **config: Any) -> None:
    """Make a durable of the user, or change it."""
    wire.api(f"CONSUMER.CREATE.{stream}.{name}", stream_name=stream, config={"durable_name": name, **USERS, **config})


def make(workspace: Workspace, bucket: str, name: str = "jobs", stream: str = "JOBS", **fields: Any) -> Archive:
    return create(workspace, ArchiveSpec(name, stream, bucket, **{"mode": "consumer", **fields}))


def perform(job: Any) -> tuple[list[Any], Nats3Error | None]:
    """The worker's side of a round, in this process."""
    outcomes: list[Any] = []
    try:
        for outcome in take_task((job, 0)):
            outcomes.append(outcome)
    except Nats3Error as error:
        return outcomes, error
    return outcomes, None


def run(workspace: Workspace, archive: Archive, **more: Any) -> CaptureResult:
    """A run in this process."""
    return run_rounds(workspace, archive, hour_of(time.time_ns()), perform, **more)


def content(workspace: Workspace, archive: Archive) -> Iterator[tuple[int, bytes]]:
    """Sequence and payload of all messages of the archive, in the order of its chunks."""
    for _, reader in fetch_each(workspace.bucket, workspace.catalog.chunks.select(archive), 1):
        for batch in reader.result().batches(["seq", "data"]):
            yield from zip(*(batch.column(name).to_pylist() for name in ("seq", "data")), strict=True)


def covered(workspace: Workspace, archive: Archive, last: int) -> bool:
    """Whether the archive accounts for everything up to `last`."""
    (coverage,) = workspace.catalog.coverage.all(archive)
    seqs = SeqRange(coverage.start, last)
    return workspace.catalog.coverage.missing(archive, coverage.incarnation, seqs) == ()


def gaps(workspace: Workspace, archive: Archive) -> list[tuple[str, list[tuple[int, int]]]]:
    return sorted((g.reason, [(r.first, r.last) for r in g.ranges]) for g in workspace.catalog.gaps.select(archive))


def left(wire: Wire, name: str = "nats3-jobs", stream: str = "JOBS") -> tuple[int, int]:
    """What the durable has still to deliver, and what is not acknowledged."""
    info = wire.api(f"CONSUMER.INFO.{stream}.{name}")
    return info["num_pending"], info["num_ack_pending"]


def numbers(first: int, last: int, prefix: str = "jobs") -> list[tuple[str, bytes, bytes]]:
    return [(f"{prefix}.{n % 2}", b"", b"%d" % n) for n in range(first, last + 1)]


def acknowledge(wire: Wire, count: int, name: str = "nats3-jobs", stream: str = "JOBS") -> None:
    """Another client takes this many messages of the durable, and acknowledges them."""
    for _ in range(count):
        wire.acknowledge(wire.next(stream, name))


def reasons(workspace: Workspace, archive: Archive) -> dict[int, str]:
    """The reason of each sequence that has no message, in gaps and in chunks. Fails for one that counts twice."""
    held = {n for n, _ in content(workspace, archive)}
    gap_rows = workspace.catalog.gaps.select(archive)
    absent = [(n, str(g.reason)) for g in gap_rows for r in g.ranges for n in range(*bounds(r))]
    absent += [
        (n, str(c.meta.absent_reason))
        for c in workspace.catalog.chunks.select(archive)
        for n in range(*bounds(c.meta.covers))
        if n not in held
    ]
    assert max(Counter([*held, *(n for n, _ in absent)]).values(), default=1) == 1
    return dict(absent)


def bounds(seqs: SeqRange) -> tuple[int, int]:
    return seqs.first, seqs.last + 1


@contextmanager
def put_back(workspace: Workspace) -> Iterator[Callable[[], None]]:
    """The catalog is copied now; what is given puts it back to this state."""
    url = workspace.settings.postgres_url
    assert url
    server, _, name = url.get_secret_value().rpartition("/")
    copy = f"copy_{uuid.uuid4().hex[:12]}"

    def execute(statement: str, *names: str) -> None:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))  # type: ignore[arg-type]

    def restore() -> None:
        workspace.catalog.rest()
        execute("DROP DATABASE {} WITH (FORCE)", name)
        execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", name, copy)

    workspace.catalog.rest()
    execute("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY", copy, name)
    try:
        yield restore
    finally:
        execute("DROP DATABASE {} WITH (FORCE)", copy)


def queue(wire: Wire, **config: Any) -> None:
    wire.create_stream("JOBS", "jobs.>", **{"retention": "workqueue", **config})
