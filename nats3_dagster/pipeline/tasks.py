"""Tasks: run one function over a list of plans in Spark's Python workers and bring its results back.

Invariant: a failure that we foresee comes back as a row, so that the driver raises the error of the task and keeps what
the other tasks achieved; anything else fails the Spark job, as a defect should.
"""

import logging
import pickle
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Thread
from typing import Any, Generic, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nats3_dagster.errors import EngineError, Nats3Error, from_json
from nats3_dagster.pipeline.connect import is_connect
from nats3_dagster.pipeline.worker_memory import release_memory
from nats3_dagster.redaction import redact_error, redacted

Task = TypeVar("Task")
Result = TypeVar("Result")
log = logging.getLogger(__name__)
_warned = False
# Spark kills a worker 2 s after it asked it to end (spark.python.task.killTimeout).
STOP_S = 5.0
_SCHEMA = "task int, error string, result binary"


@dataclass(frozen=True, slots=True)
class Finished(Generic[Result]):
    """All that came back."""

    # In the order of the tasks.
    results: tuple[Result, ...]
    # Of the first task that ended in one.
    error: Nats3Error | None


def run_tasks(
    session: SparkSession, name: str, work: Callable[[Task], Iterator[Result]], tasks: Sequence[Task]
) -> Finished[Result]:
    """`work(task)` for each task, each in a Spark partition of its own. Tasks and results must pickle.

    Raises EngineError when Spark loses a worker for good; an interrupt cancels the Spark job before it goes on."""
    if not tasks:
        return Finished((), None)

    _warn_of_plain_files(session)

    def in_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column("id").to_pylist():
                try:
                    for result in work(tasks[at]):
                        yield _row(at, None, pickle.dumps(result))
                except Nats3Error as error:
                    yield _row(at, error.to_json(), None)
                except Exception as error:
                    redact_error(error)  # Spark writes its text into the logs of executors
                    raise
        release_memory()

    try:
        # range() and not createDataFrame(): it promises one id a partition, in classic Spark and in Connect.
        table = _collect(session, name, session.range(0, len(tasks), 1, len(tasks)).mapInArrow(in_worker, _SCHEMA))
    except (PySparkException, Py4JError) as error:
        raise EngineError(
            f"Spark lost a task of {name}: {_reason(error)}", "See Spark's log; run it again: it is safe"
        ) from error
    except OSError as error:
        raise _gone(error) from error
    rows = sorted(table.to_pylist(), key=lambda row: row["task"])
    errors = [from_json(row["error"]) for row in rows if row["error"] is not None]
    # Written by our own workers a moment ago, over Spark's authenticated channel.
    results = tuple(pickle.loads(row["result"]) for row in rows if row["error"] is None)  # noqa: S301
    return Finished(results, errors[0] if errors else None)


def parallelism(spark: SparkSession, setting: str = "") -> int:
    """Tasks that the session can run at a time, or the value of this Spark setting if it has one. Raises EngineError.

    Spark Connect has no SparkContext to ask; but the plan of a range says into how many parts it is cut, and runs
    nothing."""
    try:
        asked = int(spark.conf.get(setting, "0") or 0) if setting else 0
        return asked or _parallelism(spark)
    except (Py4JError, OSError) as error:
        raise _gone(error) from error


def _warn_of_plain_files(session: SparkSession) -> None:
    """Warns that Spark, if others configured it, may write the logins that tasks carry into files as they are."""
    global _warned
    if not _warned and session.conf.get("spark.io.encryption.enabled", "false") != "true":
        _warned = True
        log.warning("Spark may write the logins of NATS and the store to disk: set spark.io.encryption.enabled")


def _parallelism(spark: SparkSession) -> int:
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    explained: Any = spark.range(1 << 20)
    splits = re.search(r"splits=(?:Some\()?(\d+)", explained._explain_string())
    return int(splits[1]) if splits else 2


def _collect(session: SparkSession, name: str, frame: DataFrame) -> pa.Table:
    """The rows of the frame. Spark is asked in a thread of its own: an interrupt of the thread that asks would wait
    inside PySpark until the job has ended, or be hidden by the error of a job that was canceled."""
    outcome: Future[pa.Table] = Future()
    # In Connect other processes work in the same session, and a tag marks the jobs of this one.
    tag = f"nats3-{secrets.token_hex(8)}" if is_connect(session) else None

    def run() -> None:
        try:
            if tag:
                session.addTag(tag)
            outcome.set_result(frame.toArrow())
        except BaseException as error:
            outcome.set_exception(error)

    thread = Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        return outcome.result()
    except BaseException:
        until = time.monotonic() + STOP_S
        # Asked again, for Spark knows nothing yet of a job that is just being submitted.
        while not outcome.done() and time.monotonic() < until:
            if tag:
                session.interruptTag(tag)
            else:
                # By a tag classic Spark 4.3 finds nothing of another thread's. A process drives one capture or replay
                # at a time.
                session.interruptAll()
            thread.join(0.5)
        raise


def _gone(error: Exception) -> EngineError:
    """Returns the error for a JVM of Spark that does not answer: py4j lets the socket's own errors through."""
    return EngineError(
        f"Spark's JVM does not answer: {error}", "It was killed, or ran out of memory. Run it again: it is safe"
    )


def _row(task: int, error: str | None, result: bytes | None) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array([task], pa.int32()), pa.array([error], pa.string()), pa.array([result], pa.binary())],
        names=["task", "error", "result"],
    )


def _reason(error: Exception) -> str:
    """The last line of the Python worker's traceback, or the first of Spark's own message."""
    # Redacted before it is cut: half a secret is not known.
    lines = [line.strip() for line in redacted(str(error)).splitlines() if line.strip()]
    python = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (python or lines or [type(error).__name__])[-1 if python else 0][:300]
