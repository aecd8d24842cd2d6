"""Archives of the mode `consumer`, on real servers and without Spark: what a run takes, and what it leaves."""

import time
from collections.abc import Iterator

from nats3_dagster.archive.create import create
from nats3_dagster.archive.take_capture import TakeCapture
from nats3_dagster.archive.taking import take
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import hour_of
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.wire import Wire

OWN = {"ack_policy": "explicit", "ack_wait": 5 * 10**9, "max_ack_pending": 20_000}


def make(workspace: Workspace, bucket: str, name: str = "jobs", **fields) -> Archive:
    return create(workspace, ArchiveSpec(name, "JOBS", bucket, **{"mode": "consumer", **fields}))


def queue(wire: Wire, **config) -> None:
    wire.create_stream("JOBS", "jobs.>", **{"retention": "workqueue", **config})


def durable(wire: Wire, name: str, **config) -> None:
    config = {"durable_name": name, **OWN, **config}
    wire.api(f"CONSUMER.CREATE.JOBS.{name}", stream_name="JOBS", config=config)


def run(workspace: Workspace, archive: Archive, **more):
    """A run in this process."""

    def perform(job):
        outcomes, error = [], None
        try:
            for outcome in TakeCapture(job).outcomes():
                outcomes.append(outcome)
        except Nats3Error as failure:
            error = failure
        return outcomes, error

    return take(workspace, archive, hour_of(time.time_ns()), perform, **more)


def content(workspace: Workspace, archive: Archive) -> Iterator[tuple[int, str, bytes | None, bytes]]:
    """All messages of the archive, in the order of its chunks."""
    from nats3_dagster.archive.fetch import fetch_each

    for _, reader in fetch_each(workspace.bucket, workspace.catalog.chunks.select(archive), 1):
        for batch in reader.result().batches(["seq", "subject", "headers", "data"]):
            yield from zip(*(batch.column(n).to_pylist() for n in ("seq", "subject", "headers", "data")), strict=True)


def missing(workspace: Workspace, archive: Archive, last: int) -> tuple[SeqRange, ...]:
    (coverage,) = workspace.catalog.coverage.all(archive)
    return workspace.catalog.coverage.missing(archive, coverage.incarnation, SeqRange(coverage.start, last))


def info(wire: Wire, name: str = "nats3-jobs"):
    answer = wire.api(f"CONSUMER.INFO.JOBS.{name}")
    return answer["num_pending"], answer["num_ack_pending"]


def test_a_work_queue_is_taken_and_then_empty(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    archive = make(workspace, bucket)
    sent = [(f"jobs.{n % 3}", b"NATS/1.0\r\nN: %d\r\n\r\n" % n if n % 2 else b"", b"%d" % n) for n in range(5000)]
    wire.publish(sent)
    assert info(wire) == (5000, 0)
    result = run(workspace, archive)
    assert result.messages == 5000
    assert [(s, h or b"", d) for _, s, h, d in content(workspace, archive)] == sent
    assert missing(workspace, archive, 5000) == ()
    assert info(wire) == (0, 0)
    assert wire.state("JOBS")["messages"] == 0
    assert run(workspace, archive).messages == 0
