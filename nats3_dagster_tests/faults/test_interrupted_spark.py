"""Ctrl-C, SIGTERM and kill -9 of a process with a JVM: the JVM is gone, and Java has written nothing."""

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.model import Pace, ReplaySpec
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.runs import archive_events, begin_replay, capture_all, hours_of
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
MESSAGES = 500
MARK = "NATS3_TEST_MARK"
# How long anything may take: many times what it takes alone, because other tests run beside it.
LIMIT_S = 240.0


class Driver:
    """A process with a JVM, and whatever it starts: found by a mark in the environment."""

    def __init__(self, mark: str, *command: str) -> None:
        self._mark = mark
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=os.environ | {MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def children(self) -> list[psutil.Process]:
        """All processes with the mark but the driver's own."""
        return [p for p in marked(self._mark) if p.pid != self.process.pid]

    def wait_alone(self) -> None:
        """Until all that it started has ended."""
        wait_for(lambda: not self.children())

    def end(self, number: int) -> tuple[int, str]:
        """Signal it; its exit status and what it has written on standard error, but the progress of a slow machine."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, re.sub(r"^replay [0-9a-f]{16}: .*\n", "", err, flags=re.MULTILINE)


def marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found


@pytest.fixture
def start() -> Iterator[Callable[..., Driver]]:
    """Starts drivers; what a failed test leaves of them is killed."""
    mark, drivers = secrets.token_hex(8), list[Driver]()

    def begin(*command: str) -> Driver:
        drivers.append(Driver(mark, *command))
        return drivers[-1]

    yield begin
    for process in marked(mark):
        process.kill()
    for driver in drivers:
        # Else the garbage collector warns of it in the middle of a later test.
        with driver.process:
            pass


def wait_for(done: Callable[[], object]) -> None:
    until = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.fixture
def replay(spark: SparkSession, settings: Settings, nats: NatsServer, bucket: str) -> str:
    """The id of a slow replay into stream BACK."""
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.create_stream("BACK", "back.>")
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(MESSAGES)])
        archive_events(settings, bucket)
        capture_all(spark, settings, wire)
    return begin_replay(settings, ReplaySpec("events", "back.all", pace=Pace(rate=20)))


@pytest.fixture
def resume(start: Callable[..., Driver], replay: str) -> Callable[[], Driver]:
    """Starts `nats3 load resume` of the replay."""
    return lambda: start("-m", "nats3_dagster.cli", "load", "resume", replay)


@pytest.mark.timeout(900)
def test_an_interrupt_at_any_moment_of_the_start_leaves_no_java(
    resume: Callable[[], Driver], replay: str, nats: NatsServer
) -> None:
    for number, status, delay_s in [
        (signal.SIGINT, 130, 0.0),
        (signal.SIGTERM, 143, 0.7),
        (signal.SIGINT, 130, 1.5),
        (signal.SIGINT, 130, 2.5),
    ]:
        driver = resume()
        wait_for(driver.children)
        time.sleep(delay_s)  # not for a condition: the moments are arbitrary
        ended, err = driver.end(number)
        assert (ended, err.splitlines()[-1]) == (status, "Interrupted"), (delay_s, err)
        assert set(err.splitlines()[:-2]) <= {"Starting Spark ..."}, (delay_s, err)
        driver.wait_alone()


@pytest.mark.timeout(900)
def test_an_interrupt_while_tasks_run_leaves_no_java(
    resume: Callable[[], Driver], replay: str, nats: NatsServer
) -> None:
    driver = resume()
    with Wire(nats.url) as wire:
        wait_for(lambda: wire.state("BACK")["messages"] > 5)
    ended, err = driver.end(signal.SIGINT)
    lines = ["Starting Spark ...", f"Replay {replay} is not finished. To go on: nats3 load resume {replay}"]
    assert (ended, err.splitlines()) == (130, [*lines, "Interrupted"])
    driver.wait_alone()


@pytest.mark.timeout(900)
def test_a_killed_driver_takes_its_jvm_with_it(resume: Callable[[], Driver], nats: NatsServer) -> None:
    driver = resume()
    wait_for(driver.children)
    status, err = driver.end(signal.SIGKILL)
    # Whether it said so before is a matter of the moment.
    assert (status, {*err.splitlines()} - {"Starting Spark ..."}) == (-signal.SIGKILL, set())
    driver.wait_alone()
    driver = resume()
    with Wire(nats.url) as wire:
        wait_for(lambda: wire.state("BACK")["messages"] > 5)
    # The pipe of standard error is at its end when nobody has it any more.
    assert driver.end(signal.SIGKILL) == (-signal.SIGKILL, "Starting Spark ...\n")
    driver.wait_alone()


@pytest.mark.timeout(900)
def test_the_scripts_end_as_cleanly(start: Callable[..., Driver], replay: str, nats: NatsServer) -> None:
    with Wire(nats.url) as wire:
        hour = hours_of(wire, "EV")[-1]
    for delay_s in (0.0, 1.5):
        driver = start("spark/capture.py", "events", "--hour", hour)
        wait_for(driver.children)
        time.sleep(delay_s)  # as above
        assert driver.end(signal.SIGINT) == (130, "Interrupted\n"), delay_s
        driver.wait_alone()
