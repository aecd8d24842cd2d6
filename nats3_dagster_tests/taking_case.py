"""What tests of archives of the mode `consumer` begin with: a stream, its durable, an archive, runs without Spark."""

import time
from collections.abc import Iterator
from typing import Any

from nats3_dagster.archive.captures.capture import CaptureResult
from nats3_dagster.archive.create import create
from nats3_dagster.archive.read.fetch import fetch_each
from nats3_dagster.archive.take.take_capture import TakeCapture
from nats3_dagster.archive.take.taking import take
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import SECOND_NS, hour_of
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.wire import Wire

# A durable of the user that an archive can use.
USERS = {"ack_policy": "explicit", "ack_wait": 5 * SECOND_NS, "max_ack_pending": 20_000}
QUEUE, INTEREST = {"retention": "workqueue"}, {"retention": "interest"}


def durable(wire: Wire, name: str, stream: str = "JOBS", **config: Any) -> None:
    """Make a durable of the user, or change it."""
    wire.api(
        f"CONSUMER.CREATE.{stream}.{name}", stream_name=stream, config={"durable_name": name, **USERS, **config}
    )  # fmt: skip


def make(workspace: Workspace, bucket: str, name: str = "jobs", stream: str = "JOBS", **fields: Any) -> Archive:
    return create(workspace, ArchiveSpec(name, stream, bucket, **{"mode": "consumer", **fields}))


def perform(job: Any) -> tuple[list[Any], Nats3Error | None]:
    """The worker's side of a round, in this process."""
    outcomes: list[Any] = []
    try:
        for outcome in TakeCapture(job).outcomes():
            outcomes.append(outcome)
    except Nats3Error as error:
        return outcomes, error
    return outcomes, None


def run(workspace: Workspace, archive: Archive, **more: Any) -> CaptureResult:
    """A run in this process."""
    return take(workspace, archive, hour_of(time.time_ns()), perform, **more)


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
