"""The process that Spark forks its Python workers from on this machine."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.pipeline.tasks import run_tasks

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="Linux shows the threads of a process")


def parent(_: int) -> Iterator[tuple[str, int, set[str]]]:
    """The command line of a worker's parent, its threads, and what the worker got from it."""
    above = Path(f"/proc/{os.getppid()}")
    yield (above / "cmdline").read_text(), len(list((above / "task").iterdir())), {*sys.modules}


def test_workers_are_forked_with_their_imports_done_by_a_process_of_one_thread(spark: Any) -> None:
    """A lock that another thread of the parent held when it forked would stay held in the worker for ever."""
    done = run_tasks(spark, "parents", parent, (1,))
    assert done.error is None
    ((command, threads, modules),) = done.results
    assert "nats3_dagster.pipeline.worker_daemon" in command
    assert threads == 1
    assert {
        "pyspark.worker",
        "nats.aio.client",
        "obstore.store",
        "pyarrow",
        "nats3_dagster.archive.captures.read",
    } <= modules
