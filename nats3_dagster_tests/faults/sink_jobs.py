"""What the driver of the sink's faults does: frames and streaming queries that are written to a stream."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource

# Bytes of a row: so much that Spark does not hand on all rows at once.
ROW = 4000


def write(spark: Any, options: dict[str, str], rows: int, ids: bool, breaks: dict[str, Any]) -> int:
    """Write numbers, one partition of two after the other; `breaks`: what a task does after some of its rows, once."""
    spark.dataSource.register(JetStreamDataSource)
    if "shuffle" in breaks:
        breaks = {**breaks, "shuffle": os.environ["SPARK_LOCAL_DIRS"]}
        frame = spark.range(0, rows, 1, 40).selectExpr("id", f"lpad(cast(id as string), {ROW}, '0') as data")
        # Not sorted: a sort would read all of the shuffle's files before the first row is written.
        frame = frame.repartition(1)
    else:
        frame = spark.range(0, rows, 1, 2).selectExpr("id", f"lpad(cast(id as string), {ROW}, '0') as data")
    columns = "subject string, data string" + (", msg_id string" if ids else "")

    def messages(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in batches:
            numbers = batch.column("id").cast(pa.string())
            arrays = [pa.array([breaks["subject"]] * len(batch)), batch.column("data").cast(pa.string())]
            if ids:
                arrays.append(pc.binary_join_element_wise(breaks["subject"], numbers, "."))
            yield pa.record_batch(arrays, names=["subject", "data", "msg_id"][: len(arrays)])
            seen += len(batch)
            if seen >= breaks["after"]:
                _break(breaks)

    frame.mapInArrow(messages, columns).write.format("jetstream").mode("append").options(**options).save()
    return rows


def _break(breaks: dict[str, Any]) -> None:
    """Break this task, or its stage: the first that gets here does so."""
    context = TaskContext.get()
    assert context
    mark = Path(f"{breaks['mark']}-{context.partitionId() if breaks.get('each') else 0}")
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return
    time.sleep(breaks.get("wait", 0))
    if "shuffle" in breaks:
        for file in Path(breaks["shuffle"]).rglob("shuffle_*"):
            file.unlink(missing_ok=True)
    elif breaks.get("kill"):
        os.kill(os.getpid(), 9)
    elif breaks.get("raise"):
        raise RuntimeError("The task is broken by its test")


def stream(spark: Any, source: dict[str, str], target: dict[str, str], prefix: str, checkpoint: str) -> int:
    """Copy what the source has to the target, each message with its sequence as the data."""
    spark.dataSource.register(JetStreamDataSource)
    events = spark.readStream.format("jetstream").options(columns="seq,data", **source).load()
    rows = events.selectExpr(f"'{prefix}' as subject", "concat(seq, ' ', cast(data as string)) as data")
    query = (
        rows.writeStream.format("jetstream")
        .options(checkpointLocation=checkpoint, **target)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return len(query.recentProgress)
