"""Writing to a stream in real sessions: batches and streams, tasks that are killed, and queries that are restarted."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.pipeline.sources import register
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

# A session that starts a task again. Every partition's first try kills its worker when some of its rows are stored.
KILLED = """
import os, sys, time
from pyspark import TaskContext
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.streams import subject_counts
from nats3_dagster.pipeline import session
from nats3_dagster.pipeline.sources import register
url, marks = sys.argv[1:]

def rows(batches):
    import pyarrow as pa
    import pyarrow.compute as pc
    context = TaskContext.get()
    subject = f"ev.{context.partitionId()}"
    for seen, batch in enumerate(batches):
        ids = batch.column("id").cast(pa.string())
        # Large enough that Spark hands them on.
        yield pa.record_batch(
            [pa.array([subject] * len(ids)), pc.utf8_lpad(ids, 4000, "0")], names=["subject", "data"]
        )
        if seen == 12 and context.attemptNumber() == 0:
            until = time.monotonic() + 20
            with Link(NatsOptions((url,))) as link:
                while not subject_counts(link, "EV", subject) and time.monotonic() < until:
                    time.sleep(0.05)
                open(f"{marks}/{subject}-{len(subject_counts(link, 'EV', subject))}", "x").close()
            os.kill(os.getpid(), 9)

with session.session("local[2,3]") as spark:
    register(spark)
    frame = spark.range(0, 2000, 1, 2).mapInArrow(rows, "subject string, data string")
    frame.write.format("jetstream").mode("append").options(url=url, stream="EV").save()
"""

# A streaming query whose first try kills its worker when some of its rows are older than the stream's window.
STREAMED = """
import os, sys, time
from pyspark import TaskContext
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.streams import subject_counts
from nats3_dagster.pipeline import session
from nats3_dagster.pipeline.sources import register
url, folder = sys.argv[1:]

def rows(batches):
    import pyarrow as pa
    for seen, batch in enumerate(batches):
        values = batch.column("value").cast(pa.string())
        yield pa.record_batch([pa.array(["ev.a"] * len(values)), values, values], names=["subject", "data", "msg_id"])
        if seen == 12 and TaskContext.get().attemptNumber() == 0:
            with Link(NatsOptions((url,))) as link:
                while not subject_counts(link, "EV"):
                    time.sleep(0.05)
            time.sleep(2.5)
            os.kill(os.getpid(), 9)

with session.session("local[2,3]") as spark:
    register(spark)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
    lines = spark.readStream.schema("value string").text(f"{folder}/in").coalesce(1)
    lines.mapInArrow(rows, "subject string, data string, msg_id string").writeStream.format("jetstream").options(
        url=url, stream="EV", ackTimeout="1s", retryTimeout="1s", checkpointLocation=f"{folder}/checkpoint"
    ).trigger(availableNow=True).start().awaitTermination()
"""


@pytest.fixture
def session(spark: SparkSession, wire: Wire) -> SparkSession:
    register(spark)
    wire.create_stream("EV", "ev.>")
    return spark


def numbers(wire: Wire) -> list[int]:
    return [int(message.data) for message in wire.messages("EV")]


def frame(session: SparkSession, start: int, end: int, subject: str = "ev.a") -> DataFrame:
    return session.range(start, end, 1, 2).selectExpr(f"'{subject}' as subject", "cast(id as string) as data")


def test_a_batch_is_written_or_an_error_says_why_not(session: SparkSession, wire: Wire, nats: NatsServer) -> None:
    options = {"url": nats.url, "stream": "EV"}

    def write(rows: DataFrame, mode: str = "append", **more: str) -> None:
        rows.write.format("jetstream").mode(mode).options(**options | more).save()

    write(frame(session, 0, 500))
    assert sorted(numbers(wire)) == list(range(500))
    headers = session.range(1).selectExpr(
        "'ev.h' as subject", "cast('1' as binary) as data", "map('A', '1') as headers", "'mine' as msg_id"
    )
    write(headers)
    (last,) = [m for m in wire.messages("EV") if m.subject == "ev.h"]
    assert last.headers == b"NATS/1.0\r\nNats-Expected-Stream: EV\r\nNats-Msg-Id: mine\r\nA: 1\r\n\r\n"
    write(headers)  # its id is known
    assert wire.state("EV")["messages"] == 501

    with pytest.raises(PySparkException, match=r"has 0 of the rows, and 2 were refused: 'ev.\*': a subject with"):
        write(frame(session, 0, 2, "ev.*"))
    write(frame(session, 0, 2, "ev.*"), rejects="report")
    with pytest.raises(PySparkException, match="Select one as data"):
        write(session.range(2).selectExpr("'ev.a' as subject"))
    with pytest.raises(PySparkException, match="Write with mode"):
        write(frame(session, 0, 2), mode="overwrite")
    assert wire.state("EV")["messages"] == 501


def test_a_streaming_query_that_writes_a_batch_again_stores_it_once(
    session: SparkSession, wire: Wire, nats: NatsServer, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()

    def run() -> None:
        lines = session.readStream.schema("value string").text(str(folder))
        rows = lines.selectExpr("'ev.a' as subject", "value as data")
        query = (
            rows.writeStream.format("jetstream")
            .options(url=nats.url, stream="EV")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    (folder / "1.txt").write_text("".join(f"{n}\n" for n in range(100)))
    run()
    assert numbers(wire) == list(range(100))
    (folder / "2.txt").write_text("".join(f"{n}\n" for n in range(100, 200)))
    run()
    assert numbers(wire) == list(range(200))
    # As after a crash between the last acknowledgement and Spark's record of the batch.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    run()
    assert numbers(wire) == list(range(200))
    (folder / "3.txt").write_text("200\n")
    run()
    assert numbers(wire) == list(range(201))


@pytest.mark.needs_spark("4.3")
def test_a_checkpoint_with_a_part_of_its_first_offsets_is_refused_before_anything_is_written(
    session: SparkSession, wire: Wire, nats: NatsServer, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("1\n")
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").mkdir(parents=True)
    # As after a crash of the driver while it wrote them.
    (checkpoint / "offsets" / ".0.part.tmp").touch()
    rows = session.readStream.schema("value string").text(str(tmp_path / "in"))
    writer = rows.selectExpr("'ev.a' as subject", "value as data").writeStream.format("jetstream")
    writer = writer.options(url=nats.url, stream="EV", checkpointLocation=str(checkpoint)).trigger(availableNow=True)
    with pytest.raises(PySparkException, match="STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"):
        writer.start().awaitTermination()
    assert wire.state("EV")["messages"] == 0
    shutil.rmtree(checkpoint)
    writer.start().awaitTermination()
    assert numbers(wire) == [1]


@pytest.mark.timeout(300)
def test_tasks_that_are_killed_are_started_again_and_store_each_row_once(
    wire: Wire, nats: NatsServer, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>")
    ran: Any = subprocess.run(
        [sys.executable, "-c", KILLED, nats.url, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert sorted(numbers(wire)) == list(range(2000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ev.0-1", "ev.1-1"]


@pytest.mark.timeout(300)
def test_a_task_of_a_streaming_batch_that_begins_again_too_late_fails_the_query(
    wire: Wire, nats: NatsServer, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>", duplicate_window=2_000_000_000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_text("".join(f"{n:04000}\n" for n in range(2000)))
    ran: Any = subprocess.run(
        [sys.executable, "-c", STREAMED, nats.url, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    stored = numbers(wire)
    assert stored
    assert len(stored) == len(set(stored))
    assert ran.returncode != 0
    assert "rows could be stored twice" in ran.stderr, ran.stderr[-3000:]
