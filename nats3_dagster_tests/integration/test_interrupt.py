"""A driver that is interrupted, by whatever, stops its Spark tasks and hears of its own interrupt."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nats3_dagster.pipeline.tasks import run_tasks


class Stopped(BaseException):
    """As Dagster's interrupt: no KeyboardInterrupt, so that PySpark's own handler has no part in it."""


def slow(file: str) -> Iterator[int]:
    """Writes ten bytes a second, for a minute."""
    for _ in range(600):
        with Path(file).open("a") as out:
            out.write(".")
        time.sleep(0.1)
    yield 1


def stops_growing(file: Path) -> bool:
    """Within 15 s: Spark kills a worker 2 s after it asked it to end."""
    sizes = [-1]
    while len(sizes) < 15 and sizes[-1] != file.stat().st_size:
        sizes.append(file.stat().st_size)
        time.sleep(1)
    return sizes[-1] == file.stat().st_size


def test_an_interrupt_comes_out_and_the_task_ends(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "at-work"

    def stop(number: int, frame: object) -> None:
        raise Stopped

    def interrupt() -> None:
        while not file.exists():
            time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(Stopped):
            run_tasks(spark, "slow", slow, [str(file)])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert stops_growing(file)
    assert run_tasks(spark, "next", lambda task: iter([task]), [7]).results == (7,)
