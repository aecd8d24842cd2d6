"""The examples of docs/spark.md, docs/spark-archive.md and docs/spark-write.md, run as they stand there.

What they ask of a page: a session is `spark`, NATS is at nats://127.0.0.1:4222, and what they write lies in /data.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import parse_time
from nats3_dagster.pipeline.pyspark_features import READ_LIMITS
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def session(spark_with_settings: SparkSession) -> SparkSession:
    """A session whose planners and tasks have the test's settings."""
    return spark_with_settings


def examples(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def run(block: str, settings: Settings, folder: Path, **names: Any) -> dict[str, Any]:
    """What a block leaves behind."""
    here = block.replace("nats://127.0.0.1:4222", str(settings.nats_url)).replace('"/data/', f'"{folder}/')
    exec(here, names)
    return names


def test_the_examples_of_reading_and_streaming(
    session: SparkSession, settings: Settings, wire: Wire, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.create_stream("EV", "ev.>")
    subjects = ("ev.orders.rome.1", "ev.returns.7", "ev.returns.7.late")
    wire.publish([(subjects[n % 3], b"", b"%d" % n) for n in range(9)])
    registering, reading, streaming = examples("spark.md")
    run(registering, settings, tmp_path, spark=session)
    read = run(reading, settings, tmp_path, spark=session)
    assert sorted(row.subject for row in read["events"].collect()) == [subjects[0]] * 3 + [subjects[1]] * 3
    assert re.search(r"\|\s*ev\.returns\.7\|\s*3\|", capsys.readouterr().out)
    if not READ_LIMITS.is_there:  # as the page says
        streaming = re.sub(r"\n *\.option\(\"maxMessagesPerTrigger.*", "", streaming)
    query = run(streaming, settings, tmp_path, spark=session)["query"]
    query.awaitTermination()
    assert session.read.parquet(str(tmp_path / "ev")).count() == 9
    assert (tmp_path / "ev-checkpoint" / "commits" / "0").exists()


@pytest.mark.needs_nats("2.15")
def test_the_example_of_an_archive(
    session: SparkSession,
    settings: Settings,
    wire: Wire,
    workspace: Workspace,
    bucket: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (reading,) = examples("spark-archive.md")
    start, end = (parse_time(re.findall(rf'"{name}", "(.*?)"', reading)[0]) for name in ("from", "to"))
    subjects = ("orders.rome.created", "orders.rome.paid")
    restore_stream(
        settings.nats,
        "ORDERS",
        ["orders.>"],
        [
            Past(n + 1, time, subjects[n % 2], b"", b"%d" % n)
            for n, time in enumerate((start, start + 1, end - 3, end - 2, end - 1))
        ],
    )
    archived(workspace, wire, "ORDERS", bucket, "orders")
    registering, *_ = examples("spark.md")
    run(registering, settings, tmp_path, spark=session)
    events = run(reading, settings, tmp_path, spark=session)["events"]
    assert [(row.seq, bytes(row.data)) for row in events.collect()] == [(1, b"0"), (3, b"2"), (5, b"4")]
    assert re.search(r"\|\s*orders\.rome\.created\|\s*3\|", capsys.readouterr().out)


def test_the_examples_of_writing(session: SparkSession, settings: Settings, wire: Wire, tmp_path: Path) -> None:
    wire.create_stream("ORDERS", "orders.>")
    registering, *_ = examples("spark.md")
    run(registering, settings, tmp_path, spark=session)
    writing, streaming = examples("spark-write.md")
    orders = session.sql("SELECT * FROM VALUES ('rome', 'a-1', 8.5D), ('bari', 'a-2', 9D) AS t(store, order_id, price)")
    for _ in range(2):  # the ids are the orders'
        run(writing, settings, tmp_path, spark=session, orders=orders)
        stored = sorted((m.subject, json.loads(m.data)) for m in wire.messages("ORDERS"))
        assert stored == [
            ("orders.bari", {"store": "bari", "order_id": "a-2", "price": 9.0}),
            ("orders.rome", {"store": "rome", "order_id": "a-1", "price": 8.5}),
        ]
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "1.txt").write_text("late\n")
    texts = session.readStream.schema("value string").text(str(lines))
    rows = texts.selectExpr("'orders.x' AS subject", "value AS data")
    query = run(streaming, settings, tmp_path, spark=session, rows=rows)["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert [m.data for m in wire.messages("ORDERS")][2:] == [b"late"]
