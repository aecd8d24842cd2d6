"""`format("jetstream")` in a session of Spark: batches, streaming queries, restarts, and what shows of a login."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import wait_for
from nats3_dagster.pipeline.pyspark_features import READ_LIMITS
from nats3_dagster_tests.support.planting import forms
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
SECRET = "planted-7Zq"
# Of a batch of a query. PySpark without read limits gives each batch all that there is.
LIMIT = {"maxMessagesPerTrigger": "700"} if READ_LIMITS.is_there else {}
# A session that knows nothing of this project, but for where Python finds it.
PLAIN = """
import sys
from pyspark.sql import SparkSession
url, folder = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", f"file://{folder}/events")
    .config("spark.eventLog.compress", "false").getOrCreate()
)
"""
# A query that never ends by itself, and writes each of its batches as soon as it can. Our session starts sooner.
QUERY = f"""
import sys
from nats3_dagster.pipeline.session import start
url, folder = sys.argv[1:]
spark = start()
events = spark.readStream.format("jetstream").options(
    url=url, stream="EV", columns="seq,subject,data", numPartitions="2", **{LIMIT},
).load()
query = events.writeStream.format("parquet").option("path", f"{{folder}}/out").option(
    "checkpointLocation", f"{{folder}}/checkpoint"
).start()
query.awaitTermination()
"""
# From one stream into another one, slowly. It ends when all that is there was copied.
PAIR = f"""
import sys
from nats3_dagster.pipeline.session import start
url, folder = sys.argv[1:]
events = start().readStream.format("jetstream").options(
    url=url, stream="EV", columns="subject,data", numPartitions="2", **{LIMIT},
).load().selectExpr("concat('to.', subject) AS subject", "data")
query = events.writeStream.format("jetstream").options(
    url=url, stream="TO", maxPending="2", checkpointLocation=f"{{folder}}/checkpoint"
).trigger(availableNow=True).start()
query.awaitTermination()
"""
# All that shows something of a read or a write: plans, progress, errors, logs at their loudest. (After
# setLogLevel("INFO") a session that was started at WARN logs no more than before.)
SHOWN = (
    PLAIN
    + f"""
import traceback
from pyspark.sql import functions as F
spark.sparkContext.setLogLevel("DEBUG")
logins = [
    {{"url": url.replace("//", "//planted:{SECRET}@")}}, {{"url": url, "user": "planted", "password": "{SECRET}"}},
]
for n, login in enumerate(logins):
    frame = spark.read.format("jetstream").options(stream="EV", **login).load()
    for mode in ("simple", "extended", "codegen", "cost", "formatted"):
        frame.explain(mode)
    print("count:", frame.count())
    stream = spark.readStream.format("jetstream").options(stream="EV", **login).load()
    stream.explain(True)
    query = (
        stream.writeStream.format("memory").queryName(f"q{{n}}").trigger(availableNow=True)
        .option("checkpointLocation", f"{{folder}}/checkpoint{{n}}").start()
    )
    query.awaitTermination()
    print("progress:", *query.recentProgress, query.lastProgress, query.status)
    query.explain(True)
    rows = frame.selectExpr("concat('to.', subject) AS subject", "data")
    rows.write.format("jetstream").mode("append").options(stream="TO", **login).save()
sink = stream.selectExpr("concat('to.', subject) AS subject", "data").writeStream.format("jetstream").options(
    stream="TO", checkpointLocation=f"{{folder}}/sink", **login
)
query = sink.trigger(availableNow=True).start()
query.awaitTermination()
print("progress:", *query.recentProgress, query.lastProgress, query.status)
query.explain(True)
fails = [
    {{"url": url, "user": "planted", "password": "{SECRET}x"}}, {{"url": f"nats://planted:{SECRET}@127.0.0.1:{SECRET}"}},
    {{"url": url, "user": "planted", "pasword": "{SECRET}"}},
    {{"url": url, "token": "{SECRET}", "startSeq": "{SECRET}"}},
    {{"url": url, "user": "planted", "password": "{SECRET}", "stream": "NONE"}},
]
for options in fails:
    try:
        spark.read.format("jetstream").options(**{{"stream": "EV"}} | options).load().count()
    except Exception:
        print("failed:", traceback.format_exc())
for options in (*fails, {{"url": url, "user": "planted", "password": "{SECRET}", "maxPending": "{SECRET}"}}, logins[1]):
    try:
        frame.select("subject", "data").write.format("jetstream").mode("append").options(
            **{{"stream": "TO"}} | options
        ).save()
    except Exception:
        print("not written:", traceback.format_exc())
frame = spark.read.format("jetstream").options(stream="EV", **logins[1]).load()
try:
    frame.select(F.udf(lambda n: 1 // 0)("seq")).collect()
except Exception:
    print("failed:", traceback.format_exc())
"""
)


@pytest.fixture
def pushing(spark: SparkSession) -> SparkSession:
    """The session, which hands filters to every source that takes them."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return spark


@pytest.fixture
def load(pushing: SparkSession, nats: NatsServer) -> Callable[..., DataFrame]:
    def make(**options: str) -> DataFrame:
        reader = pushing.read.format("jetstream").options(**{"url": nats.url, "stream": "EV"} | options)
        return reader.load()

    return make


@pytest.fixture
def events(wire: Wire) -> Wire:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 3}", b"NATS/1.0\r\nA: %d\r\n\r\n" % n, b"%d" % n) for n in range(1, 101)])
    return wire


def seqs(frame: DataFrame) -> list[int]:
    return [row["seq"] for row in frame.select("seq").collect()]


def test_a_frame_has_every_message_in_as_many_partitions_as_asked(load: Any, events: Wire) -> None:
    frame = load(numPartitions="3")
    assert frame.rdd.getNumPartitions() == 3
    rows = frame.collect()
    stored = list(events.messages("EV"))
    assert [(r.seq, r.subject, bytes(r.data), r.headers) for r in rows] == [
        (m.seq, m.subject, m.data, {"A": [str(m.seq)]}) for m in stored
    ]
    assert [r.n for r in frame.selectExpr("unix_micros(time) * 1000 + time_ns % 1000 = time_ns AS n").collect()] == (
        [True] * 100
    )


def test_uses_of_a_frame_do_not_get_the_filters_of_each_other(load: Any, events: Wire) -> None:
    frame = load()
    low, high = frame.where("seq <= 20"), frame.where("seq > 90")
    assert (low.count(), frame.count(), low.union(high).count(), frame.count()) == (20, 100, 30, 100)
    assert (low.union(frame).count(), low.join(frame, "seq").count(), frame.union(frame).count()) == (120, 20, 200)
    events.publish([("ev.later", b"", b"x")])
    assert (frame.count(), low.count(), load().count()) == (100, 20, 101)


def test_a_schema_of_the_user_chooses_columns(spark: SparkSession, nats: NatsServer, events: Wire) -> None:
    reader = spark.read.format("jetstream").options(url=nats.url, stream="EV")
    assert reader.schema("subject string, seq long").load().first() == ("ev.1", 1)
    with pytest.raises(AnalysisException, match="column seq of jetstream is bigint, and the schema says string"):
        reader.schema("seq string").load().count()


def test_bad_input_fails_before_a_task_starts(load: Any, events: Wire, spark: SparkSession) -> None:
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("bad", "bad input")
    for options, what in (
        ({"startSeqq": "1"}, "Did you mean startSeq"),
        ({"subjects": "ev..a"}, "token 2 is empty"),
        ({"stream": "EVE"}, "There is no stream EVE"),
        ({"startSeq": "101"}, "ends at sequence 100"),
    ):
        with pytest.raises(AnalysisException, match=what):
            load(**options).count()
    assert list(tracker.getJobIdsForGroup("bad")) == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # pyright: ignore[reportArgumentType]


def test_a_query_reads_what_is_available_and_goes_on_from_its_checkpoint(
    spark: SparkSession, nats: NatsServer, events: Wire, tmp_path: Path
) -> None:
    limit = {"maxMessagesPerTrigger": "40"} if READ_LIMITS.is_there else {}

    def run() -> list[int]:
        events_now = spark.readStream.format("jetstream").options(url=nats.url, stream="EV", columns="seq", **limit)
        writer = events_now.load().writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        return [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]

    assert run() == ([40, 40, 20] if limit else [100])
    events.publish([("ev.later", b"", b"x")] * 3)
    assert run() == [3]
    assert sorted(seqs(spark.read.parquet(str(tmp_path / "out")))) == list(range(1, 104))


def test_a_query_whose_messages_were_purged_meanwhile_stops_or_goes_on_as_it_was_told(
    spark: SparkSession, nats: NatsServer, events: Wire, tmp_path: Path
) -> None:
    limit = {"maxMessagesPerTrigger": "40"} if READ_LIMITS.is_there else {}

    def run(**options: str) -> list[int]:
        stream = spark.readStream.format("jetstream").options(
            url=nats.url, stream="EV", columns="seq", **limit, **options
        )
        writer = stream.load().writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
        query.awaitTermination(60)
        return sorted(seqs(spark.read.parquet(str(tmp_path / "out"))))

    assert run() == list(range(1, 101))
    events.publish([("ev.later", b"", b"x")] * 100)
    events.api("STREAM.PURGE.EV", seq=151)
    with pytest.raises(StreamingQueryException, match="Stream EV no longer has sequences 101-150. Set failOnDataLoss"):
        run()
    assert run(failOnDataLoss="false") == [*range(1, 101), *range(151, 201)]
    # The loss is behind it.
    events.publish([("ev.later", b"", b"x")])
    assert run() == [*range(1, 101), *range(151, 202)]


def started(script: str, url: str, folder: Path) -> subprocess.Popen[str]:
    (folder / "events").mkdir(exist_ok=True)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    # Each query asks a dozen Python processes for its source and its sink: they have their imports done.
    environment["SPARK_SUBMIT_OPTS"] += " -Dspark.python.daemon.module=nats3_dagster.pipeline.worker_daemon"
    return subprocess.Popen(
        [sys.executable, "-c", script, url, str(folder)],
        env=environment | {"PYTHONPATH": str(ROOT)},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def output_of(process: subprocess.Popen[str], seconds: float) -> str:
    """What it prints to its end. One that takes longer is killed."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_query_that_is_killed_and_restarted_reads_each_message_once(
    spark: SparkSession, nats: NatsServer, wire: Wire, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>")
    count = 0

    def publish(messages: int) -> None:
        nonlocal count
        wire.publish([(f"ev.{n % 7}", b"", b"%d" % n) for n in range(count + 1, count + messages + 1)])
        count += messages

    def commits() -> int:
        return len([path for path in tmp_path.glob("checkpoint/commits/*") if path.name.isdecimal()])

    def in_the_middle() -> bool:
        if not LIMIT and commits():
            publish(500)
        return query.poll() is not None or commits() >= 2

    publish(5000)
    query = started(QUERY, nats.url, tmp_path)
    try:
        # In the middle of its batches, and while more is published.
        assert wait_for(in_the_middle, 120)
        assert query.poll() is None
        publish(3000)
    finally:
        os.killpg(query.pid, signal.SIGKILL)
        output, _ = query.communicate()
    assert commits() < 12, output[-3000:]
    # Without read limits a query of what is available ends with the batch that was under way, if there was one.
    for _ in range(1 if LIMIT else 2):
        query = started(QUERY.replace(".start()", ".trigger(availableNow=True).start()"), nats.url, tmp_path)
        output = output_of(query, 120)
        assert query.returncode == 0, output[-3000:]
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((r.seq, r.subject, bytes(r.data)) for r in rows) == [
        (n, f"ev.{n % 7}", b"%d" % n) for n in range(1, count + 1)
    ]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_query_between_streams_that_is_killed_again_and_again_writes_each_message_once_and_in_order(
    nats: NatsServer, wire: Wire, tmp_path: Path
) -> None:
    count = 9000
    batch = 700 if LIMIT else count
    wire.create_stream("EV", "ev.>")
    wire.create_stream("TO", "to.>", duplicate_window=20 * 60 * 1_000_000_000)
    wire.publish([(f"ev.{n % 7}", b"", b"%d" % n) for n in range(count)])

    def uncommitted() -> int:
        """Messages of the batch that is being written."""
        commits = [path for path in tmp_path.glob("checkpoint/commits/*") if path.name.isdecimal()]
        return wire.state("TO")["messages"] - batch * len(commits)

    left, output = [], ""
    for _ in range(2):
        query = started(PAIR, nats.url, tmp_path)
        try:
            before = wire.state("TO")["messages"]
            assert wait_for(
                lambda p=query, n=before: (
                    p.poll() is not None or (wire.state("TO")["messages"] > n + 700 and 0 < uncommitted() < batch)
                ),
                180,
                0.005,
            )
            assert query.poll() is None
        finally:
            os.killpg(query.pid, signal.SIGKILL)
            output, _ = query.communicate()
        left.append(uncommitted())
    # Otherwise no batch was written again.
    assert any(0 < messages < batch for messages in left), (left, output[-3000:])
    assert wire.state("TO")["messages"] < count
    query = started(PAIR, nats.url, tmp_path)
    output = output_of(query, 300)
    assert query.returncode == 0, output[-3000:]
    copies = list(wire.messages("TO"))
    assert sorted((int(m.data), m.subject) for m in copies) == [(n, f"to.ev.{n % 7}") for n in range(count)]
    partitions: dict[bytes, list[int]] = {}
    for copy in copies:  # the id is <query>:<batch>:<partition>:<row>:<digest>
        id_ = copy.headers.partition(b"Nats-Msg-Id: ")[2].partition(b"\r\n")[0]
        partitions.setdefault(id_.rsplit(b":", 2)[0], []).append(int(copy.data))
    assert len(partitions) == 2 * -(-count // batch)
    for numbers in partitions.values():
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_login_shows(nats_factory: Callable[..., NatsServer], tmp_path: Path) -> None:
    users = f"{{user: planted, password: {SECRET}}}, {{user: wire, password: wire}}"
    server = nats_factory(f"authorization {{users: [{users}]}}\nno_auth_user: wire")
    folder = tmp_path / "work"
    folder.mkdir()
    with Wire(server.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.create_stream("TO", "to.>")
        wire.publish([("ev.a", b"", b"x")] * 50)
    output = output_of(started(SHOWN, server.url, folder), 540)
    # What is looked for was there to be seen.
    assert output.count("count: 50") == 2, output[-3000:]
    assert output.count("\nfailed:") == 6, output[-3000:]
    assert output.count("\nnot written:") == 7
    assert " DEBUG " in output
    assert output.count("numInputRows") >= 2, output[-3000:]
    assert "created_ns" in output
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"SparkListenerSQLExecutionStart" in written
    assert b"created_ns" in written
    for form in forms(SECRET):
        assert form not in output
        assert form.encode() not in written
