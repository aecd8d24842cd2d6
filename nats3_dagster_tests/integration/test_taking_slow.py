"""Archives of the mode `consumer`: runs that take longer than ack_wait, by a slow store or a stopped process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.archive.source import durables
from nats3_dagster.errors import Conflict
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.servers.s3_proxy import Handler, S3Proxy
from nats3_dagster_tests.support.taking import QUEUE, content, covered, durable, gaps, left, make, numbers, run
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.s3

COUNT = 2000


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durables whose ack_wait is a second."""
    monkeypatch.setattr(durables, "LEAST_ACK_WAIT_S", 1)


def test_what_a_slow_store_takes_is_not_delivered_again(
    hurried: None, settings: Settings, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(handler: Handler) -> None:
        time.sleep(3)
        # Another client gets none of them meanwhile.
        with Wire(settings.nats.servers[0]) as other:
            others.append(other.try_api("CONSUMER.MSG.NEXT.JOBS.mine", batch=1, no_wait=True))
        handler.reply(*handler.forward())

    others: list[Any] = []

    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    durable(wire, "mine", ack_wait=SECOND_NS)
    wire.publish(numbers(1, COUNT))
    endpoint = os.environ["AWS_ENDPOINT_URL_S3"]
    with S3Proxy(endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        with Workspace(Settings.load()) as workspace:
            archive = make(workspace, bucket, durable="mine")
            proxy.break_at(slow, ("PUT",))
            began = time.monotonic()
            assert run(workspace, archive).messages == COUNT
            assert time.monotonic() - began > 3
            assert ["error" in other for other in others] == [True]
            info = wire.api("CONSUMER.INFO.JOBS.mine")
            assert (info["delivered"]["consumer_seq"], info["num_redelivered"]) == (COUNT, 0)
            assert (left(wire, "mine"), wire.state("JOBS")["messages"]) == ((0, 0), 0)
            assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, COUNT + 1)]


@pytest.mark.parametrize(
    ("step", "lock", "end"),
    [
        ("claimed", "kept", ""),
        ("claimed", "lost", "Conflict: Sequences 1-2000 of archive jobs"),
        ("before the commit", "lost", "Conflict: Sequences 1-2000 of archive jobs"),
        ("after the commit", "lost", ""),
    ],
)
def test_a_run_that_is_stopped_for_longer_than_ack_wait(
    hurried: None,
    step: str,
    lock: str,
    end: str,
    workspace: Workspace,
    wire: Wire,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another run gets its messages when its lock went with a connection, and waits for it otherwise."""
    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    durable(wire, "mine", ack_wait=SECOND_NS)
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, COUNT))
    ended = stopped(step)
    try:
        wire.publish(numbers(COUNT + 1, COUNT + 500))
        if lock == "lost":
            lose_locks(workspace)
            run(workspace, archive)
        else:
            monkeypatch.setattr("nats3_dagster.archive.take.driver.TURN_S", 1.5)
            with pytest.raises(Conflict, match="Another process takes messages for archive jobs"):
                run(workspace, archive)
    finally:
        os.kill(ended.pid, signal.SIGCONT)
        text = ended.communicate(timeout=60)[1].decode()
    assert end in text if end else not text
    run(workspace, archive)
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, COUNT + 501)]
    assert (covered(workspace, archive, COUNT + 500), gaps(workspace, archive)) == (True, [])
    assert (left(wire, "mine"), wire.state("JOBS")["messages"]) == ((0, 0), 0)


def stopped(step: str) -> "subprocess.Popen[bytes]":
    """A run in a process that has stopped itself at the step."""
    command = [sys.executable, "-m", "nats3_dagster_tests.faults.killable_taking", "jobs", step, "stop"]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    return process


def lose_locks(workspace: Workspace) -> None:
    """End the connections that hold the lock of a run, as a failover does."""
    with psycopg.connect(workspace.settings.postgres, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = "
            "(SELECT oid FROM pg_database WHERE datname = current_database())"
        )
