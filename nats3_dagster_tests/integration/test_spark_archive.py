"""`spark.read.format("nats3")` in a real session."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit

from nats3_dagster.pipeline.sources import register
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

PUSH = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def session(spark_with_settings: SparkSession, wire: Wire, workspace: Workspace, bucket: str) -> Iterator[SparkSession]:
    """A session whose planners have the test's settings, and an archive of 20 messages in two chunks."""
    spark = spark_with_settings
    register(spark)
    wire.create_stream("EV", "ev.>")
    for chunk in range(2):
        wire.publish((f"ev.{chunk}", b"NATS/1.0\r\nA: 1\r\n\r\n", b"%d" % n) for n in range(10))
        archived(workspace, wire, "EV", bucket, "events")
    yield spark
    spark.conf.unset(PUSH)


def load(session: SparkSession, **options: str) -> DataFrame:
    return session.read.format("nats3").options(archive="events", **options).load()


def test_uses_of_one_frame_get_the_whole_selection(session: SparkSession, s3_client: Any, bucket: str) -> None:
    events = load(session, partitionBytes="1")
    assert events.rdd.getNumPartitions() == 2
    rows = events.orderBy("seq").collect()
    assert [(row.seq, row.subject, bytes(row.data)) for row in rows] == [
        (1 + 10 * chunk + n, f"ev.{chunk}", b"%d" % n) for chunk in range(2) for n in range(10)
    ]
    assert rows[0].headers == {"A": ["1"]}
    counted = events.groupBy("subject").count().orderBy("subject").collect()
    assert [(row.subject, row["count"]) for row in counted] == [("ev.0", 10), ("ev.1", 10)]

    # One frame, several filters: PySpark plans it once, so none of them may narrow it.
    session.conf.set(PUSH, "true")
    events = load(session)
    assert events.where("seq > 15").count() == 5
    assert events.where(col("time") > lit("2100-01-01").cast("timestamp")).count() == 0
    assert events.where("seq = 3").union(events.where("seq = 13")).count() == 2
    assert events.where("seq = 3").union(events).count() == 21
    assert events.where("seq > 15").join(events, "seq").count() == 5
    assert (events.count(), events.union(events).count()) == (20, 40)

    # What options do not select is not fetched.
    last = max(o["Key"] for o in s3_client.list_objects_v2(Bucket=bucket)["Contents"])
    s3_client.delete_object(Bucket=bucket, Key=last)
    assert load(session, subjects="ev.0").count() == 10
    with pytest.raises(PySparkException, match="load the archive again"):
        load(session).where("subject = 'ev.0'").count()


def test_an_archive_is_a_view_of_sql(session: SparkSession) -> None:
    """And no table: Spark would read it without its options."""
    assert session.read.format("nats3").load("events").count() == 20
    options = "USING nats3 OPTIONS (archive 'events', sequences '1-5')"
    session.sql(f"CREATE TEMPORARY VIEW five {options}")
    try:
        assert session.sql("SELECT count(*), max(seq) FROM five").collect()[0][:] == (5, 5)
    finally:
        session.catalog.dropTempView("five")
    for make in (
        lambda: session.sql(f"CREATE TABLE five {options}"),
        lambda: session.catalog.createTable("five", source="nats3", archive="events"),
    ):
        with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW name USING nats3 OPTIONS"):
            make()


def test_an_archive_is_no_streaming_source(session: SparkSession, tmp_path: Path) -> None:
    frame = session.readStream.format("nats3").load("events")
    with pytest.raises(PySparkException, match="An archive is read as a batch, and not as a stream"):
        query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
        query.awaitTermination(60)


def test_what_is_wrong_is_an_error_of_the_plan_and_no_secret_shows(session: SparkSession, settings: Settings) -> None:
    with pytest.raises(PySparkException, match="There is no archive event. Did you mean events"):
        session.read.format("nats3").option("archive", "event").load()
    events = load(session)
    shown = "".join(
        events._jdf.queryExecution().explainString(  # type: ignore[operator]
            session._jvm.org.apache.spark.sql.execution.ExplainMode.fromString(mode)  # type: ignore[union-attr]
        )
        for mode in ("extended", "formatted", "cost")
    )
    assert "nats3" in shown
    assert settings.s3_secret_access_key
    for secret in (settings.s3_secret_access_key.get_secret_value(), settings.postgres):
        assert secret not in shown
