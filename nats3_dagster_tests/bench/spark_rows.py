"""The rows that go through Spark, end to end: `capture` from socket to committed chunks, `replay` back.

Invariant: the session is started and its workers have run once before the clock starts. All the rest counts, planning
and commits included.
"""

import time
from itertools import count

from pyspark.sql import SparkSession

from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.source.durables import durable_of
from nats3_dagster.hours import hour_of
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, ReplaySpec, Selection
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.pipeline.replay_run import run_replay
from nats3_dagster.pipeline.tasks import run_tasks
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.bench.memory import report_own_peak
from nats3_dagster_tests.bench.rows import Case
from nats3_dagster_tests.bench.servers import BUCKET
from nats3_dagster_tests.support.runs import begin_replay

_names = count()


def capture(spark: SparkSession, case: Case) -> float:
    """A new archive each time, so that nothing is captured yet."""
    spec = ArchiveSpec(name=f"bench{next(_names)}", stream="BENCH", bucket=BUCKET)
    with Workspace(case.settings) as workspace:
        create(workspace, spec)
        state = stream_state(workspace.link, "BENCH")
    hours = sorted({hour_of(state.first_ns), hour_of(state.last_ns)})
    began = time.perf_counter()
    messages = sum(run_capture(spark, case.settings, spec.name, hour).messages for hour in hours)
    elapsed_s = time.perf_counter() - began
    assert messages == case.messages, messages
    return elapsed_s


def take(spark: SparkSession, case: Case) -> float:
    """The same messages through a durable of the archive's own, by as many tasks as the session can run."""
    spec = ArchiveSpec(name=f"bench{next(_names)}", stream="BENCH", bucket=BUCKET, mode="consumer")
    with Workspace(case.settings) as workspace:
        archive = create(workspace, spec)
        # The server counts what waits a moment later.
        while durable_of(workspace, archive).pending < case.messages:
            time.sleep(0.01)
    began = time.perf_counter()
    messages = run_capture(spark, case.settings, spec.name, hour_of(time.time_ns())).messages
    elapsed_s = time.perf_counter() - began
    assert messages == case.messages, messages
    with Workspace(case.settings) as workspace:
        delete(workspace, spec.name)
    return elapsed_s


def take_alone(spark: SparkSession, case: Case) -> float:
    """The same by one task."""
    spark.conf.set("spark.nats3.capture.tasks", "1")
    try:
        return take(spark, case)
    finally:
        spark.conf.unset("spark.nats3.capture.tasks")


def replay(spark: SparkSession, case: Case) -> float:
    """The archive that was captured last, into the empty stream SINK."""
    with Workspace(case.settings) as workspace:
        if not workspace.catalog.archives.all():
            capture(spark, case)  # the row `capture` was not asked for
        newest = max(workspace.catalog.archives.all(), key=lambda archive: archive.id)
    spec = ReplaySpec(newest.name, "bench.sink.>", Selection(subjects=("bench.in.>",)))
    began = time.perf_counter()
    result = run_replay(spark, case.settings, begin_replay(case.settings, spec))
    elapsed_s = time.perf_counter() - began
    assert result.published == case.messages, result
    return elapsed_s


def peak_mb(spark: SparkSession) -> float:
    """The peak memory of the largest of the reused Python workers since the last call, in MB."""
    return max(run_tasks(spark, "peak", report_own_peak, list(range(8))).results)
