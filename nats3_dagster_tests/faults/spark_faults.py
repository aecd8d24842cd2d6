"""Faults of Spark: its driver, JVM and Python workers killed, its scratch full."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil

from nats3_dagster_tests.faults import jobs, spark_driver
from nats3_dagster_tests.faults.forks import Ended, Job, Request
from nats3_dagster_tests.faults.kill_faults import target_config
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, RUN_S, Trial

_WORKER_STEPS = {"capture": ("before_put", "object_put", "task_returned"), "replay": ("chunk_fetched", "sent")}
_DRIVER_STEPS = {
    "capture": ("planned", "before_commit", "in_commit", "after_commit"),
    "replay": ("attempt_started", "before_record", "after_record"),
}


def start(trial: Trial, what: str, argument: str, *, worker: str = "", driver: str = "", scratch: str = "") -> Job:
    """A capture or a replay on Spark, with a fault of its Python workers or of its driver."""
    works: dict[str, Callable[..., Any]] = {"capture": spark_driver.capture, "replay": spark_driver.replay}
    environment = {**trial.environment, "NATS3_FAULT": driver, spark_driver.WORKER_FAULT: worker}
    request = Request(works[what], (argument,), environment)
    try:
        return Job(trial.servers.spark(scratch), request)
    except (ConnectionError, EOFError):  # killed a moment ago, and not yet seen to have ended
        trial.servers.end_spark()
        return Job(trial.servers.spark(scratch), request)


def on_spark(trial: Trial, play: Callable[[str, str], Ended]) -> None:
    """Break a capture, or a replay; then it is run again, on Spark or without."""
    trial.make_stream(700)
    if trial.random.random() < 0.5:
        trial.note("capture on Spark", play("capture", ARCHIVE))
        if trial.random.random() < 0.5:
            trial.note("capture on Spark again", start(trial, "capture", ARCHIVE).wait(RUN_S))
        trial.finish_capture()
        return
    trial.finish_capture()
    trial.make_target(**target_config(trial))
    replay = trial.begin_replay()
    trial.note("replay on Spark", play("replay", replay))
    trial.finish_replay(replay)


@fault("spark: worker killed", "kill -9 of a Python worker at a step of its task", spark=True, short=True)
def worker_killed(trial: Trial) -> None:
    def play(what: str, argument: str) -> Ended:
        step = trial.random.choice(_WORKER_STEPS[what])
        ended = start(trial, what, argument, worker=f"{what}.{step}:kill").wait(RUN_S)
        trial.expect(not ended.ok, "silent", f"{what} without its worker, killed at {step}, is called a success")
        return ended

    on_spark(trial, play)


@fault("spark: driver killed", "kill -9 of the driver, whose JVM and workers are left alone", spark=True)
def driver_killed(trial: Trial) -> None:
    def play(what: str, argument: str) -> Ended:
        step = trial.random.choice(_DRIVER_STEPS[what])
        return start(trial, what, argument, driver=f"{what}.{step}:kill").wait(RUN_S)

    on_spark(trial, play)


@fault("spark: jvm killed", "kill -9 of the JVM while its workers are in the middle", spark=True)
def jvm_killed(trial: Trial) -> None:
    def play(what: str, argument: str) -> Ended:
        step = trial.random.choice(_WORKER_STEPS[what])
        file = trial.servers.folder / f"held-{trial.seed}"
        job = start(trial, what, argument, worker=f"{what}.{step}:hold={file}")
        until = time.monotonic() + 30
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        for process in psutil.Process(job.pid).children(recursive=True):
            if "java" in process.name():
                process.send_signal(signal.SIGKILL)
        ended = job.wait(RUN_S)
        file.with_name(f"{file.name}.go").touch()
        trial.expect(not ended.ok, "silent", f"{what} without its JVM is called a success")
        return ended

    on_spark(trial, play)
    trial.servers.end_spark()


@fault("spark: scratch full", "the disk of Spark's scratch is full", spark=True)
def scratch_full(trial: Trial) -> None:
    with trial.servers.small_disk("2m") as folder:
        trial.servers.end_spark()
        trial.make_stream(700)
        trial.servers.spark(str(folder))
        with (folder / "full").open("wb") as file:
            try:
                while True:
                    file.write(bytes(1 << 14))
                    file.flush()
                    os.fsync(file.fileno())
            except OSError:
                pass
        trial.end(start(trial, "capture", ARCHIVE, scratch=str(folder)), "capture on Spark")
        trial.servers.end_spark()
    trial.finish(jobs.capture, ARCHIVE)
    trial.judge_archive()
