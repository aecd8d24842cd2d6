"""Leases of tasks that write: second tries of a task, a stage, a batch or a write, on a real server without a JVM."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import OperatorError, TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.write_records import ensure_records, records_stream
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.pipeline.sources.sink_task import SinkPlan, Written, write_rows
from nats3_dagster.pipeline.sources.write_lease import record_write
from nats3_dagster.pipeline.sources.write_part import WritePart
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

WINDOW_S = 2.0
# Writes 3000 rows, one message under way at a time.
SLOW = """
import sys
import pyarrow as pa
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.pipeline.sources.sink_task import SinkPlan, write_rows
from nats3_dagster.pipeline.sources.write_part import WritePart
plan = SinkPlan(NatsOptions((sys.argv[1],)), "EV", True, 500, 1.0, 10.0, False)
rows = [pa.record_batch([pa.array(["ev.a"] * 1024), pa.array([f"{at}-{n}" for n in range(1024)])],
                        names=["subject", "data"]) for at in range(300)]
print(write_rows(plan, WritePart("q", 0, 0, "run"), iter(rows)).messages)
"""


@pytest.fixture
def ev(wire: Wire, nats: NatsServer) -> Wire:
    wire.create_stream("EV", "ev.>", duplicate_window=int(WINDOW_S * 1e9))
    with Link(NatsOptions((nats.url,))) as link:
        ensure_records(link, stream_state(link, "EV"))
    return wire


def rows(first: int, last: int) -> pa.RecordBatch:
    numbers = range(first, last + 1)
    columns = [pa.array(["ev.a"] * len(numbers)), pa.array(map(str, numbers)), pa.array([f"id{n}" for n in numbers])]
    return pa.record_batch(columns, names=["subject", "data", "msg_id"])


def write(
    nats: NatsServer, part: WritePart, *batches: pa.RecordBatch, doubles: bool = False, more: Any = None
) -> Written:
    """Write batches; `more`: those that follow."""
    plan = SinkPlan(NatsOptions((nats.url,)), "EV", True, 1000, 1.0, 1.0, doubles)

    def every() -> Iterator[pa.RecordBatch]:
        yield from batches
        yield from more or ()

    return write_rows(plan, part, every())


def window_over(since: float) -> None:
    eventually(lambda: time.monotonic() > since + WINDOW_S + 0.2, "the window to pass")


def count(ev: Wire) -> int:
    return ev.state("EV")["messages"]


def test_a_task_that_begins_again_within_the_window_stores_each_row_once(ev: Wire, nats: NatsServer) -> None:
    part = WritePart("q", 0, 3, "run")
    assert write(nats, part, rows(1, 500)).duplicates == 0
    assert write(nats, part, rows(1, 900)).duplicates == 500
    assert count(ev) == 900


def test_a_task_that_begins_again_after_the_window_fails_and_writes_nothing(ev: Wire, nats: NatsServer) -> None:
    part, other = WritePart("q", 0, 3, "run"), WritePart("q", 0, 4, "run")
    began = time.monotonic()
    write(nats, part, rows(1, 500))
    window_over(began)
    with pytest.raises(TargetError, match=r"Spark writes partition 3 of batch 0 again \d s after .* 2 s"):
        write(nats, part, rows(1, 500))
    assert count(ev) == 500
    # A task that begins for the first time is not late, and the next batch is another one.
    write(nats, other, rows(501, 600))
    write(nats, WritePart("q", 1, 3, "run"), rows(601, 700))
    assert count(ev) == 700
    write(nats, WritePart("q", 1, 4, "run"), rows(701, 710), doubles=True)
    window_over(time.monotonic())
    assert write(nats, WritePart("q", 1, 4, "run"), rows(701, 710), doubles=True).duplicates == 0


def test_a_second_try_that_takes_longer_than_the_window_fails(ev: Wire, nats: NatsServer) -> None:
    part = WritePart("q", 0, 0, "run")
    began = time.monotonic()
    write(nats, part, rows(1, 1024), rows(1025, 2048))

    def slow() -> Iterator[pa.RecordBatch]:
        window_over(began)
        yield rows(1025, 2048)

    with pytest.raises(TargetError, match="are sent by a second try"):
        write(nats, part, rows(1, 1024), more=slow())
    assert count(ev) == 2048


def test_of_two_tries_at_once_the_late_one_fails(ev: Wire, nats: NatsServer) -> None:
    part = WritePart("q", 0, 0, "run")
    began = time.monotonic()

    def meanwhile() -> Iterator[pa.RecordBatch]:
        assert write(nats, part, rows(1, 1024), rows(1025, 2048)).duplicates == 1024
        window_over(began)
        yield rows(1025, 2048)

    eager = meanwhile()

    def first() -> Iterator[pa.RecordBatch]:
        eventually(lambda: count(ev) == 1024, "the first rows")
        yield from eager

    with pytest.raises(TargetError, match="are sent by a second try"):
        write(nats, part, rows(1, 1024), more=first())
    assert count(ev) == 2048


def test_a_long_write_that_is_alone_goes_on(ev: Wire, nats: NatsServer) -> None:
    began = time.monotonic()

    def later() -> Iterator[pa.RecordBatch]:
        window_over(began)
        yield rows(1025, 2048)
        window_over(time.monotonic())
        yield rows(2049, 3072)

    assert write(nats, WritePart("q", 0, 0, "run"), rows(1, 1024), more=later()).messages == 3072
    assert count(ev) == 3072


def test_a_batch_of_a_restarted_query_is_known_whatever_its_partitions(ev: Wire, nats: NatsServer) -> None:
    began = time.monotonic()
    write(nats, WritePart("q", 0, 0, "run"), rows(1, 500))
    assert write(nats, WritePart("q", 0, 1, "again"), rows(1, 500)).duplicates == 500
    window_over(began)
    with pytest.raises(TargetError, match=r"Spark writes batch 0 again .* Its rows are after sequence 0 there"):
        write(nats, WritePart("q", 0, 2, "again"), rows(1, 500))
    # A task of the former run that is still alive, with rows that are now another partition's.
    with pytest.raises(TargetError, match=r"Spark writes batch 0 again"):
        write(nats, WritePart("q", 0, 7, "run"), rows(1, 500))
    assert count(ev) == 500


def test_an_older_checkpoint_and_missing_records_are_errors(ev: Wire, nats: NatsServer) -> None:
    write(nats, WritePart("q", 0, 0, "run"), rows(1, 10))
    write(nats, WritePart("q", 1, 0, "run"))  # without rows
    write(nats, WritePart("q", 2, 0, "run"), rows(11, 20))
    with pytest.raises(TargetError, match="Batch 1 of the query is to be written, and batch 2 was begun before"):
        write(nats, WritePart("q", 1, 0, "again"), rows(1, 10))
    ev.api(f"STREAM.PURGE.{records_stream('EV')}")
    with pytest.raises(TargetError, match="Batch 3 of the query has no record of the batches before it"):
        write(nats, WritePart("q", 3, 0, "again"), rows(21, 30))
    assert write(nats, WritePart("q", 3, 0, "again"), rows(21, 30), doubles=True).messages == 10
    assert write(nats, WritePart("q", 4, 0, "again"), rows(31, 40)).messages == 10
    ev.api(f"STREAM.DELETE.{records_stream('EV')}")
    with pytest.raises(Exception, match=f"{records_stream('EV')}|stream not found"):
        write(nats, WritePart("q", 5, 0, "again"), rows(41, 50))
    assert count(ev) == 40


def test_a_task_of_a_write_that_has_ended_writes_nothing(ev: Wire, nats: NatsServer) -> None:
    with Link(NatsOptions((nats.url,))) as link:
        record_write(link, stream_state(link, "EV"), "w")
    part = WritePart("w", None, 0, "w")
    write(nats, part, rows(1, 10))

    def end() -> Iterator[pa.RecordBatch]:
        ev.api(f"STREAM.PURGE.{records_stream('EV')}", filter="_NATS3.writes.EV.w.>")
        window_over(time.monotonic())
        yield rows(1025, 2048)

    with pytest.raises(TargetError, match="The records of this write to stream EV are gone: it has ended"):
        write(nats, WritePart("w", None, 1, "w"), rows(1, 1024), more=end())
    with pytest.raises(TargetError, match="it has ended"):
        write(nats, part, rows(1, 10))
    assert count(ev) == 1024


def test_a_window_that_was_shortened_meanwhile_counts(ev: Wire, nats: NatsServer) -> None:
    config = ev.api("STREAM.INFO.EV")["config"]
    ev.api("STREAM.UPDATE.EV", **{**config, "duplicate_window": 60_000_000_000})
    part = WritePart("q", 0, 0, "run")
    began = time.monotonic()
    write(nats, part, rows(1, 100))
    ev.api("STREAM.UPDATE.EV", **config)
    window_over(began)
    with pytest.raises(TargetError, match="for 2 s"):
        write(nats, part, rows(1, 100))


def test_records_of_a_stream_that_was_there_before_do_not_count(ev: Wire, nats: NatsServer) -> None:
    write(nats, WritePart("q", 3, 0, "run"), rows(1, 100), doubles=True)
    ev.api("STREAM.DELETE.EV")
    ev.create_stream("EV", "ev.>", duplicate_window=int(WINDOW_S * 1e9))
    assert write(nats, WritePart("q", 2, 0, "again"), rows(1, 100)).messages == 100


def test_records_that_a_stream_would_forget_are_refused(ev: Wire, nats: NatsServer) -> None:
    config = ev.api(f"STREAM.INFO.{records_stream('EV')}")["config"]
    ev.api(f"STREAM.UPDATE.{records_stream('EV')}", **{**config, "max_age": 3_600_000_000_000})
    with (
        Link(NatsOptions((nats.url,))) as link,
        pytest.raises(OperatorError, match="would forget when writes to EV began"),
    ):
        ensure_records(link, stream_state(link, "EV"))


def test_a_worker_that_stood_still_longer_than_the_window_doubles_nothing(ev: Wire, nats: NatsServer) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", SLOW, nats.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: count(ev) > 2000, "the first rows", every_s=0.001)
    os.kill(worker.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    eventually(lambda: time.monotonic() > stopped + 3 * WINDOW_S, "the window to pass")
    os.kill(worker.pid, signal.SIGCONT)
    _, errors = worker.communicate(timeout=60)
    texts = [message.data for message in ev.messages("EV")]
    assert len(texts) == len(set(texts))
    if worker.returncode:
        assert "rows could be stored twice" in errors
    else:
        assert len(texts) == 300 * 1024
