"""The memory of Spark's Python workers, as the kernel counts it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.pipeline.tasks import run_tasks
from nats3_dagster.settings import Settings
from nats3_dagster_tests.bench import rows
from nats3_dagster_tests.support.runs import archive_events
from nats3_dagster_tests.support.worker_processes import peak_mb, resident_mb, worker_peaks_mb

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux shows the peak of a process")
# Two tasks with more than a chunk of 64 MiB each, so that one is uploaded while the next one grows.
MESSAGES, SIZE = 160_000, 1024
# Seen were 250 to 275. A worker that keeps what an earlier task held, or holds a chunk more, has 400 and more.
MOST_MB = 350
_kept: list[bytes] = []


def test_workers_of_a_capture_and_of_a_replay_stay_within_their_memory(settings: Settings, bucket: str) -> None:
    rows.fill(settings, MESSAGES, SIZE)
    archive_events(settings, bucket, stream="BENCH")
    assert 0 < max(peaks("store", "run", "events")) <= MOST_MB
    back = ("--read-subject", "bench.in.>", "--write-subject", "back.>", "--create-stream", "BACK")
    assert 0 < max(peaks("load", "create", "--archive", "events", *back)) <= MOST_MB


def peaks(*words: str) -> list[float]:
    """The peaks of the workers of a command, in MB."""
    with subprocess.Popen([sys.executable, "-m", "nats3_dagster.cli", *words], stdout=subprocess.DEVNULL) as command:
        found = worker_peaks_mb(command, 240)
    assert command.returncode == 0
    return list(found.values())


def fragment(size_mb: int) -> Iterator[int]:
    """Fills the heap, and frees all of it but its last piece: the C library keeps what lies below that. Yields the
    worker's process."""
    pieces = [bytes(100_000) for _ in range(size_mb * 10)]
    _kept.append(pieces[-1])
    yield os.getpid()


def test_a_worker_gives_back_what_its_task_has_freed(spark: Any) -> None:
    """Workers stay, in a Spark Connect server for weeks."""
    (pid,) = run_tasks(spark, "before", fragment, [1]).results
    before = resident_mb(pid)
    (same,) = run_tasks(spark, "fragment", fragment, [200]).results
    assert peak_mb(same) > before + 100
    assert resident_mb(same) < before + 50
