"""A driver on a standalone cluster that uses every Spark source and sink, and writes down all that Spark shows of them.

    python cluster_driver.py MASTER URL FOLDER

Its session knows nothing of this project. The settings in its environment say where NATS is for the reads; the writes
get URL and login as options.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from nats3_dagster.pipeline.pyspark_features import READ_LIMITS

# Pages of Spark's UI, and of its REST API.
PAGES = ("/SQL/", "/StreamingQuery/", "/environment/", "/jobs/", "/stages/", "/executors/")
ASKED = ("environment", "sql?details=true&planDescription=true&length=1000", "jobs", "stages", "allexecutors")


def main(master: str, url: str, folder: Path) -> None:
    (folder / "events").mkdir()
    spark = (
        SparkSession.builder.master(master)
        .config("spark.cores.max", "2")
        .config("spark.executor.memory", "512m")
        # Executors that live for seconds: what the second compiler makes of their code they never use.
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.port", "0")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", f"file://{folder}/events")
        .config("spark.eventLog.compress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("DEBUG")  # INFO has no effect in a session that was started at WARN
    login = {"url": url, "user": os.environ["NATS3_NATS_USER"], "password": os.environ["NATS3_NATS_PASSWORD"]}

    rows = spark.read.format("jetstream").options(stream="EV", numPartitions="4", headers="binary").load()
    say("read", [rows.count(), rows.rdd.getNumPartitions()])
    archived = spark.read.format("nats3").options(archive="events", headers="binary", partitionBytes="1").load()
    say("archive", [archived.count(), archived.rdd.getNumPartitions()])

    copied = archived.selectExpr(
        "concat('copy.', substring(subject, 4)) AS subject", "data", "headers", "concat('copy-', seq) AS msg_id"
    )
    explain(copied)
    # Few at a time, so that it takes as long as it takes to kill an executor.
    slow = {"maxPending": "2", **login}
    copied.write.format("jetstream").mode("append").options(stream="COPY", **slow).save()

    limit = {"maxMessagesPerTrigger": "1500"} if READ_LIMITS.is_there else {}
    streamed = (
        spark.readStream.format("jetstream")
        .options(stream="EV", columns="subject,data", numPartitions="2", **limit, **login)
        .load()
    )
    streamed = streamed.selectExpr("concat('again.', substring(subject, 4)) AS subject", "data")
    streamed.explain(True)
    query = (
        streamed.writeStream.format("jetstream")
        .options(stream="AGAIN", **slow)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    query.explain(True)
    say("streamed", [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]])
    (folder / "progress.json").write_text(str(query.recentProgress))

    page = str(spark.sparkContext.uiWebUrl)
    asked = [f"/api/v1/applications/{spark.sparkContext.applicationId}/{each}" for each in ASKED]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for number, path in enumerate((*PAGES, *asked)):
        with opener.open(page + path, timeout=30) as answer:
            (folder / f"page-{number}").write_bytes(answer.read())
    spark.stop()


def explain(frame: DataFrame) -> None:
    for mode in ("extended", "cost", "formatted"):
        frame.explain(mode)


def say(name: str, value: object) -> None:
    """A line for the test, among what Spark prints."""
    print("said:" + json.dumps({name: value}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
