"""Archives of the mode `consumer`, on real servers and without Spark: what a run takes, and what it leaves."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nats3_dagster.archive.captures.due import due, select_hours
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.seal import seal_asked
from nats3_dagster.archive.proof.verify import find_holes
from nats3_dagster.archive.source import durables
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.archive.source.loss import time_to_loss
from nats3_dagster.archive.take import commit as committing
from nats3_dagster.archive.take import plan as planning
from nats3_dagster.archive.take.open import open_with_durable
from nats3_dagster.archive.take.pulled import Receipt, assigned_hours
from nats3_dagster.errors import Conflict, OperatorError, SourceError, UnknownConsumer
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.take import pull
from nats3_dagster.model import ReplaySpec, Selection, SeqRange
from nats3_dagster.replay.planning.plan import plan
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.faults.killable_taking import STEPS
from nats3_dagster_tests.support.taking import (
    INTEREST,
    content,
    covered,
    durable,
    gaps,
    left,
    make,
    numbers,
    perform,
    queue,
    run,
)
from nats3_dagster_tests.support.wire import Wire


def test_a_work_queue_is_taken_and_then_empty(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 5000))
    while left(wire) != (5000, 0):  # the server counts a moment later
        pass
    assert run(workspace, archive).messages == 5000
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 5001)]
    assert (left(wire), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert covered(workspace, archive, 5000)
    assert run(workspace, archive).messages == 0
    assert gaps(workspace, archive) == []
    assert not find_holes(workspace, archive).ranges


@pytest.mark.parametrize("subjects", [(), ("jobs.1",)], ids=["all", "some"])
def test_hours_of_a_work_queue_are_replayed(
    workspace: Workspace, wire: Wire, bucket: str, subjects: tuple[str, ...]
) -> None:
    """A selection by hours asks where they end, by no consumer: a work queue refuses a second one."""
    queue(wire)
    archive = make(workspace, bucket, subjects=subjects)
    wire.create_stream("BACK", "back.>")
    wire.publish([(f"jobs.{n % 2}", b"", b"%d" % n) for n in range(100)])
    durable(wire, "worker", filter_subject="jobs.0") if subjects else None
    run(workspace, archive)
    hours = tuple(hour.hour for hour in workspace.catalog.hours.select(archive))
    planned = plan(workspace, ReplaySpec(archive.name, "back.>", Selection(hours=hours)))
    assert planned.extent.messages == (50 if subjects else 100)


def test_a_run_takes_what_there_was_while_producers_publish(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    archive = make(workspace, bucket)
    stop = threading.Event()

    def produce() -> int:
        count = 0
        with Wire(workspace.settings.nats.servers[0]) as own:
            while not stop.is_set():
                own.publish(numbers(count + 1, count + 500))
                count += 500
        return count

    with ThreadPoolExecutor() as pool:
        producing = pool.submit(produce)
        while wire.state("JOBS")["last_seq"] < 1000:
            pass
        assert run(workspace, archive).messages >= 1000
        run(workspace, archive)
        stop.set()
        count = producing.result()
    run(workspace, archive)
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, count + 1)]
    assert gaps(workspace, archive) == []
    assert wire.state("JOBS")["messages"] == 0


@pytest.mark.parametrize(("lost", "end"), [(2, ""), (3, "The consumer mine does not answer")])
def test_a_pull_request_without_an_answer_is_made_again(
    lost: int, end: str, workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nats-server 2.9.10 forgets one now and then. Here they never reach the server."""
    monkeypatch.setattr(pull, "SILENCE_S", 0.2)
    monkeypatch.setattr(pull, "EXPIRES_S", 0.1)
    post, requests = Connection.post, iter(range(lost))

    def forgetful(self: Connection, subject: str, reply: str, payload: bytes) -> None:
        if ".CONSUMER.MSG.NEXT." not in subject or next(requests, None) is None:
            post(self, subject, reply, payload)

    monkeypatch.setattr(Connection, "post", forgetful)
    queue(wire)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, 3000))
    if end:
        with pytest.raises(SourceError, match=end):
            run(workspace, archive)
    assert run(workspace, archive).messages == 3000
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 3001)]
    assert (left(wire, "mine"), wire.state("JOBS")["messages"]) == ((0, 0), 0)


@pytest.mark.parametrize("step", STEPS)
def test_a_run_killed_at(
    step: str, workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durables, "LEAST_ACK_WAIT_S", 1)
    queue(wire)
    durable(wire, "mine", ack_wait=SECOND_NS)
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, 3000))
    command = [sys.executable, "-m", "nats3_dagster_tests.faults.killable_taking", "jobs", step]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], env=os.environ, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    wire.publish(numbers(3001, 4000))
    run(workspace, archive)
    # Each once, whatever came again.
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 4001)]
    assert (left(wire, "mine"), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert (covered(workspace, archive, 4000), gaps(workspace, archive)) == (True, [])


def test_two_runs_at_once_take_turns(settings: Settings, workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 4000))

    def one(_: int) -> int:
        with Workspace(settings) as own:
            return run(own, archive).messages

    with ThreadPoolExecutor() as pool:
        assert sorted(pool.map(one, range(2))) == [0, 4000]
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 4001)]


def test_what_somebody_else_holds_comes_later(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the lock was lost with its connection, and another run has a message in between."""
    monkeypatch.setattr(planning, "REDELIVERY_S", -4)  # give up after 1 s
    queue(wire)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    wire.publish(numbers(1, 10))
    replies = [wire.next("JOBS", "mine") for _ in range(4)]
    for reply in (replies[0], replies[2]):
        wire.send(reply, b"-NAK")
    alive = threading.Event()

    def hold() -> None:
        with Wire(workspace.settings.nats.servers[0]) as own:
            while not alive.wait(1):
                for reply in (replies[1], replies[3]):
                    own.send(reply, b"+WPI")

    with ThreadPoolExecutor() as pool:
        holding = pool.submit(hold)
        with pytest.raises(SourceError, match="has delivered 2 messages to another client"):
            run(workspace, archive)
        assert [n for n, _ in content(workspace, archive)] == [1, 3, 5, 6, 7, 8, 9, 10]
        assert gaps(workspace, archive) == []
        alive.set()
        holding.result()
    for reply in (replies[1], replies[3]):
        wire.send(reply, b"-NAK")
    run(workspace, archive)
    assert [n for n, _ in content(workspace, archive)] == list(range(1, 11))
    assert (gaps(workspace, archive), left(wire, "mine")) == ([], (0, 0))


def test_archives_and_workers_of_an_interest_stream_each_get_every_message(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    queue(wire, **INTEREST)
    durable(wire, "worker")
    wire.publish(numbers(1, 10))  # nobody archives yet: kept for the worker
    one, other = make(workspace, bucket, "one"), make(workspace, bucket, "other", subjects=("jobs.1",))
    wire.publish(numbers(11, 1000))
    run(workspace, one)
    run(workspace, other)
    assert [int(d) for _, d in content(workspace, one)] == list(range(1, 1001))
    assert [int(d) for _, d in content(workspace, other)] == list(range(1, 1001, 2))
    # The worker has not worked, so the stream keeps all for it.
    assert (left(wire, "worker"), wire.state("JOBS")["messages"]) == ((1000, 0), 1000)
    assert covered(workspace, one, 1000)
    assert covered(workspace, other, 1000)
    assert (gaps(workspace, one), {reason for reason, _ in gaps(workspace, other)}) == ([], {"unselected"})
    assert len(workspace.catalog.chunks.select(other)) == 1


def test_an_archive_of_some_subjects_of_a_work_queue(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    durable(wire, "worker", filter_subject="jobs.0")
    archive = make(workspace, bucket, subjects=("jobs.1",))
    wire.publish(numbers(1, 500))
    run(workspace, archive)
    assert [int(d) for _, d in content(workspace, archive)] == list(range(1, 501, 2))
    assert covered(workspace, archive, 500)
    assert left(wire, "worker") == (250, 0)
    assert len(workspace.catalog.chunks.select(archive)) == 1
    state = open_source(workspace, archive).state
    assert backlog(workspace, archive, state, time.time_ns()).is_empty
    assert condition(workspace, archive).source == "ok"


REFUSED = {
    "another consumer takes all": (
        {},
        {"filter_subject": ""},
        {},
        "Consumer worker takes all subjects of work queue JOBS, and a",
    ),
    "another one takes some": (
        {},
        {"filter_subject": "jobs.1"},
        {"subjects": ("jobs.*",)},
        "Consumer worker takes jobs.1 of work queue",
    ),
    "no explicit acks": (INTEREST, {"ack_policy": "all"}, {"durable": "worker"}, "has the ack policy all"),
    "push": (INTEREST, {"deliver_subject": "x"}, {"durable": "worker"}, "is a push consumer"),
    "few outstanding": ({}, {"max_ack_pending": 100}, {"durable": "worker"}, "allows 100 unacknowledged messages"),
    "ack_wait": ({}, {"ack_wait": SECOND_NS}, {"durable": "worker"}, "has an ack_wait of 1 s"),
    "max_deliver": ({}, {"max_deliver": 5}, {"durable": "worker"}, "gives up a message after 5 deliveries"),
    "headers": (INTEREST, {"headers_only": True}, {"durable": "worker"}, "delivers headers only"),
    "other subjects": (
        {},
        {"filter_subject": "jobs.1"},
        {"durable": "worker", "subjects": ("jobs.0",)},
        "delivers jobs.1, not jobs",
    ),
    "unknown": (
        {},
        {"filter_subject": "jobs.1"},
        {"durable": "other", "subjects": ("jobs.0",)},
        "has no consumer other",
    ),
    "only reading": ({}, {}, {"mode": "stream"}, "has workqueue retention: its consumers decide how long"),
}


@pytest.mark.parametrize(("stream", "consumer", "fields", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_taken_is_refused(
    workspace: Workspace, wire: Wire, bucket: str, stream: Any, consumer: Any, fields: Any, reason: str
) -> None:
    queue(wire, **stream)
    durable(wire, "worker", **consumer)
    with pytest.raises(OperatorError, match=reason):
        make(workspace, bucket, **fields)
    assert wire.state("JOBS")["consumer_count"] == 1
    assert workspace.catalog.archives.find("jobs") is None


def test_a_name_that_another_archive_may_have_is_refused(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire, **INTEREST)
    durable(wire, "nats3-jobs")
    with pytest.raises(Conflict, match="has a consumer nats3-jobs already"):
        make(workspace, bucket)
    assert wire.state("JOBS")["consumer_count"] == 1


def test_a_durable_of_a_limits_stream_begins_where_it_stands(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("JOBS", "jobs.>")
    wire.publish(numbers(1, 100))
    durable(wire, "mine", deliver_policy="new")
    wire.publish(numbers(101, 200))
    archive = make(workspace, bucket, durable="mine", subjects=())
    wire.api("STREAM.MSG.DELETE.JOBS", seq=150)
    run(workspace, archive)
    assert [n for n, _ in content(workspace, archive)] == [n for n in range(101, 201) if n != 150]
    assert covered(workspace, archive, 200)
    (chunk,) = workspace.catalog.chunks.select(archive, with_deleted=True)
    assert (chunk.meta.covers, chunk.meta.deleted) == (SeqRange(101, 200), (SeqRange(150, 150),))
    assert wire.state("JOBS")["messages"] == 199


def test_what_a_work_queue_removed_before_it_was_taken_is_lost(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire, max_msgs=50)
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 100))
    state = open_source(workspace, archive).state
    assert time_to_loss(backlog(workspace, archive, state, time.time_ns())).gone == 50
    assert run(workspace, archive).lost == 50
    assert gaps(workspace, archive) == [("expired", [(1, 50)])]
    assert covered(workspace, archive, 100)


def test_a_message_that_another_client_acknowledged_is_no_silent_loss(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """Of a work queue it is gone, which is recorded as a loss; of a stream that keeps it the run fails."""
    for retention, keeps in (("workqueue", False), ("limits", True)):
        queue(wire, retention=retention)
        durable(wire, "mine")
        archive = make(workspace, bucket, retention, durable="mine")
        wire.publish(numbers(1, 10))
        stolen = wire.next("JOBS", "mine")
        wire.acknowledge(stolen)
        if keeps:
            with pytest.raises(SourceError, match="has message 1, and consumer mine will not deliver it again"):
                run(workspace, archive)
        else:
            assert run(workspace, archive).lost == 1
            delete(workspace, retention)
        wire.api("STREAM.DELETE.JOBS")


def test_a_consumer_that_was_deleted_is_an_error_with_a_way_out(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire, **INTEREST)
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 10))
    run(workspace, archive)
    wire.api("CONSUMER.DELETE.JOBS.nats3-jobs")
    wire.publish(numbers(11, 20))  # nobody is interested
    state = open_source(workspace, archive).state
    with pytest.raises(UnknownConsumer, match="nats3-jobs of stream JOBS was deleted") as raised:
        run(workspace, archive)
    assert "make the consumer again" in str(raised.value)
    with pytest.raises(UnknownConsumer):
        backlog(workspace, archive, state, time.time_ns())
    assert condition(workspace, archive).source == "consumer_missing"
    assert run(workspace, archive, adopt=True).lost == 10
    wire.publish(numbers(21, 30))
    run(workspace, archive)
    assert [n for n, _ in content(workspace, archive)] == [*range(1, 11), *range(21, 31)]
    assert gaps(workspace, archive) == [("undelivered", [(11, 20)])]


def test_its_backlog_is_what_the_durable_has(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    archive = make(workspace, bucket, max_messages=50)
    assert select_hours(workspace, "jobs") == []
    wire.publish(numbers(1, 60))
    while left(wire) != (60, 0):  # the server counts a moment later
        pass
    now = time.time_ns()
    state = open_source(workspace, archive).state
    waiting = backlog(workspace, archive, state, now)
    assert (waiting.messages, waiting.behind, waiting.open, waiting.ended) == (60, 60, hour_of(now), ())
    assert due(archive.spec, waiting, 24).hours == (hour_of(now),)
    assert select_hours(workspace, "jobs") == [hour_of(now)]
    # In the next hour it is due for being old, whatever the thresholds.
    late = backlog(workspace, archive, state, now + HOUR_NS)
    assert (late.ended, late.open) == ((hour_of(now),), None)
    with pytest.raises(OperatorError, match="not a certain hour"):
        select_hours(workspace, "jobs", [hour_of(now)])
    found = condition(workspace, archive)
    assert (found.source, found.waiting and found.waiting.behind) == ("ok", 60)
    run(workspace, archive)
    assert backlog(workspace, archive, open_source(workspace, archive).state, now).is_empty
    found = condition(workspace, archive)
    assert (found.source, found.waiting and found.waiting.behind) == ("ok", 0)


def test_deleting_the_archive_deletes_its_own_consumer_only(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire, **INTEREST)
    durable(wire, "mine")
    make(workspace, bucket, "own")
    make(workspace, bucket, "kept")
    make(workspace, bucket, "users", durable="mine")
    assert delete(workspace, "own").consumer == "nats3-own"
    assert delete(workspace, "kept", keep_consumer=True).consumer is None
    assert delete(workspace, "users").consumer is None
    assert sorted(wire.api("CONSUMER.NAMES.JOBS")["consumers"]) == ["mine", "nats3-kept"]


def test_hours_tile_the_sequences_whatever_clocks_did() -> None:
    base = hour_start("2026-11-21-07:00") // HOUR_NS
    times = np.array([0, 1, 0, 2, 1], np.int64) + base
    seqs = np.array([1, 2, 3, 10, 12], np.int64)
    assert (assigned_hours(seqs, times * HOUR_NS, ()) - base).tolist() == [0, 1, 1, 2, 2]
    # What comes late lies between what is archived before it and behind it.
    spans = (("2026-11-21-08:00", SeqRange(4, 6)), ("2026-11-21-08:00", SeqRange(9, 11)))
    assert (assigned_hours(seqs, times * HOUR_NS, spans) - base).tolist() == [0, 1, 1, 1, 2]


def test_where_hours_end_is_asked_without_a_consumer(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A work queue refuses the consumer that a stream with limits retention is asked by."""
    queue(wire)
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 10))
    run(workspace, archive)
    with pytest.raises(OperatorError, match="has not ended"):
        list(seal_asked(workspace, "jobs", [hour_of(time.time_ns())]))


@pytest.mark.needs_nats("2.10")
def test_a_stream_that_begins_to_remove_what_was_acknowledged_is_not_read_on(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("JOBS", "jobs.>")
    archive = make(workspace, bucket, mode="stream")
    config = wire.api("STREAM.INFO.JOBS")["config"]
    wire.api("STREAM.UPDATE.JOBS", **{**config, "retention": "interest"})
    with pytest.raises(OperatorError, match="has interest retention: its consumers decide how long"):
        open_source(workspace, archive)


@pytest.mark.parametrize(("step", "raised"), [("take.before_commit", KeyError), ("take.acknowledged", None)])
def test_messages_that_cannot_be_given_back_hide_no_error_and_fail_no_round(
    settings: Settings,
    nats_factory: NatsFactory,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: str,
    raised: type[Exception] | None,
) -> None:
    """The server is away when they are given back: they come again in any case."""
    server = nats_factory()
    monkeypatch.setenv("NATS3_NATS_URL", server.url)

    def reached(name: str) -> None:
        if name == step:
            server.kill()
            if raised:
                raise raised(step)

    with Workspace(Settings.load()) as work:
        with Wire(server.url) as wire:
            queue(wire)
            durable(wire, "d")
            archive = make(work, bucket, durable="d")
            wire.publish(numbers(1, 50))
        planned = planning.plan(work, open_with_durable(work, archive))
        outcomes, _ = perform(planned.job)
        parts = [
            replace(part, replies=part.replies[1:], late=part.replies[:1]) if isinstance(part, Receipt) else part
            for part in outcomes
        ]
        with monkeypatch.context() as patched:
            patched.setattr(committing, "fault_point", reached)
            with pytest.raises(raised) if raised else nullcontext():
                committing.commit(work, planned, parts)
        assert "come again after the consumer's ack_wait" in caplog.text
        server.start()
        run(work, archive)
        assert [n for n, _ in content(work, archive)] == list(range(1, 51))
        with Wire(server.url) as wire:
            assert wire.state("JOBS")["messages"] == 0
