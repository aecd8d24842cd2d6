"""Archives whose own durable acknowledges by flow control (ADR-60): what each message's end is, on real servers."""

import json
import pickle
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nats3_dagster import fault_points
from nats3_dagster.archive.source.durables import durable_of
from nats3_dagster.archive.take import flow_capture
from nats3_dagster.archive.take.driver import run_rounds
from nats3_dagster.archive.take.flow_capture import Handed
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import Nats3Error, SourceError
from nats3_dagster.fault_points import InjectedFault
from nats3_dagster.hours import HOUR_NS, MINUTE_NS, hour_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.take import flow, flow_session, handover
from nats3_dagster.jetstream.take.flow import Delivered
from nats3_dagster.jetstream.take.flow_session import begin_session
from nats3_dagster.jetstream.take.handover import Channel, Handover, Handovers
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.taking import (
    INTEREST,
    QUEUE,
    content,
    covered,
    gaps,
    left,
    make,
    numbers,
    reasons,
    run,
)
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.nats, pytest.mark.needs_nats("2.14")]
RETENTIONS = [pytest.param(QUEUE, id="queue"), pytest.param(INTEREST, id="interest")]
OWN = "nats3-jobs"


@pytest.fixture(params=RETENTIONS)
def archive(request: pytest.FixtureRequest, workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream whose messages are gone once they are acknowledged."""
    wire.create_stream("JOBS", "jobs.>", **request.param)
    return make(workspace, bucket)


@contextmanager
def broken(step: str) -> Iterator[None]:
    fault_points.arm(f"{step}:raise")
    try:
        yield
    finally:
        fault_points.arm("")


def check_all(workspace: Workspace, wire: Wire, archive: Archive, last: int) -> None:
    """Each message is in the archive once, and the stream has none of them."""
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, last + 1)]
    assert (left(wire), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert covered(workspace, archive, last)
    assert gaps(workspace, archive) == []


def deliver_subject(wire: Wire) -> str:
    return wire.api(f"CONSUMER.INFO.JOBS.{OWN}")["config"]["deliver_subject"]


def test_what_a_dead_client_had_received_comes_again(workspace: Workspace, wire: Wire, archive: Archive) -> None:
    """The server delivers it to no other client by itself, and the next acknowledgement would remove it."""
    wire.publish(numbers(1, 500))
    begun = begin_session(workspace.link, durable_of(workspace, archive))
    with Wire(workspace.settings.nats.servers[0]) as client:
        client.listen(begun.session)
        assert len(client.heard(500)) == 500
    wire.publish(numbers(501, 600))
    assert run(workspace, archive).messages == 600
    check_all(workspace, wire, archive, 600)


def test_a_client_that_still_listens_is_found_before_anything_is_acknowledged(
    workspace: Workspace, wire: Wire, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_session, "TAKEOVER_S", 0.3)
    wire.publish(numbers(1, 200))
    before = deliver_subject(wire)
    with Wire(workspace.settings.nats.servers[0]) as frozen:
        frozen.listen(before)
        with pytest.raises(SourceError, match=f"Another client receives the messages of consumer {OWN}.*{before}"):
            run(workspace, archive)
        assert (deliver_subject(wire), wire.state("JOBS")["messages"]) == (before, 200)
        assert list(content(workspace, archive)) == []
    assert run(workspace, archive).messages == 200
    check_all(workspace, wire, archive, 200)


@pytest.mark.parametrize("step", ["take.claimed", "take.object_put", "take.before_commit", "capture.in_commit"])
def test_what_is_not_committed_is_not_acknowledged(
    workspace: Workspace, wire: Wire, archive: Archive, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(flow, "BATCH_MESSAGES", 50)
    monkeypatch.setattr(flow_capture, "CHUNK_MESSAGES", 100)
    wire.publish(numbers(1, 1000))
    with broken(f"{step}"), pytest.raises((InjectedFault, Nats3Error)):
        run(workspace, archive)
    archived = len(list(content(workspace, archive)))
    assert wire.state("JOBS")["messages"] >= 1000 - archived
    wire.publish(numbers(1001, 1100))
    run(workspace, archive)
    check_all(workspace, wire, archive, 1100)


def test_a_commit_that_fails_late_has_acknowledged_nothing(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The durable asks for acknowledgements every few megabytes, also while the catalog is at work."""
    monkeypatch.setattr(flow_capture, "CHUNK_MESSAGES", 500)
    monkeypatch.setattr(flow_capture, "WAITING", 100)
    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    archive = make(workspace, bucket)
    sent = [(n, b"%d" % n + b" " * 2000) for n in range(1, 25_001)]
    wire.publish([("jobs.1", b"", data) for _, data in sent])
    with broken("take.before_commit:sleep=2,capture.in_commit"), pytest.raises((InjectedFault, Nats3Error)):
        run(workspace, archive)
    assert (list(content(workspace, archive)), wire.state("JOBS")["messages"]) == ([], len(sent))
    run(workspace, archive)
    assert list(content(workspace, archive)) == sent
    assert wire.state("JOBS")["messages"] == 0


def test_what_is_committed_is_acknowledged_while_more_comes(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A durable that may have few messages outstanding delivers all of them in one session."""
    monkeypatch.setattr(flow_capture, "CHUNK_MESSAGES", 3000)
    wire.create_stream("JOBS", "jobs.>", **QUEUE, consumer_limits={"max_ack_pending": 10_000})
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 45_000))
    session = deliver_subject(wire)
    begun = time.monotonic()
    assert run(workspace, archive).messages == 45_000
    assert time.monotonic() - begun < 40
    assert deliver_subject(wire) != session
    check_all(workspace, wire, archive, 45_000)


def test_what_the_catalog_has_is_only_acknowledged(workspace: Workspace, wire: Wire, archive: Archive) -> None:
    """The process died between the commit and the acknowledgement; before and after lies what it had not seen."""
    wire.publish(numbers(1, 100))
    run(workspace, archive)
    wire.publish(numbers(101, 300))
    with broken("take.committed"), pytest.raises((InjectedFault, Nats3Error)):
        run(workspace, archive)
    assert (len(list(content(workspace, archive))), wire.state("JOBS")["messages"]) == (300, 200)
    wire.publish(numbers(301, 400))
    again = run(workspace, archive)
    assert (again.messages, again.found) == (100, 200)
    check_all(workspace, wire, archive, 400)


@pytest.mark.needs_nats("2.15")
@pytest.mark.parametrize("filtered", [False, True])
def test_hours_tile_the_sequences(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch, filtered: bool
) -> None:
    """Batches and chunks end where they like, a clock steps back, and sequences are absent."""
    monkeypatch.setattr(flow, "BATCH_MESSAGES", 30)
    monkeypatch.setattr(flow_capture, "CHUNK_MESSAGES", 70)
    minutes = [*range(100), *range(30, 130), *range(100, 300)]
    start = (time.time_ns() // HOUR_NS - 48) * HOUR_NS
    messages = [
        Past(n, start + at * MINUTE_NS, f"jobs.{n % 2}", b"", b"%d" % n)
        for n, at in enumerate(minutes, 1)
        if n % 7 and not 150 < n < 160
    ]
    restore_stream(workspace.settings.nats, "JOBS", ["jobs.>"], messages, retention="workqueue")
    archive = make(workspace, bucket, subjects=("jobs.1",) if filtered else ())
    wanted = [m for m in messages if not filtered or m.subject == "jobs.1"]
    while left(wire)[0] < len(wanted):
        pass
    assert run(workspace, archive).messages == len(wanted)
    assert list(content(workspace, archive)) == [(m.seq, m.data) for m in wanted]
    latest, expected = start, dict[int, str]()
    for message in wanted:
        latest = max(latest, message.time_ns)
        expected[message.seq] = hour_of(latest)
    for chunk in workspace.catalog.chunks.select(archive):
        assert {expected[m.seq] for m in wanted if chunk.meta.covers.first <= m.seq <= chunk.meta.covers.last} == {
            chunk.meta.hour
        }
    last = messages[-1].seq
    assert covered(workspace, archive, last)
    assert set(reasons(workspace, archive)) == set(range(1, last + 1)) - {m.seq for m in wanted}


def test_a_message_that_the_durable_passes_over_is_not_acknowledged(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """A person sets the durable forward: the stream keeps what it passed over, and the run says so."""
    wire.create_stream("JOBS", "jobs.>", **QUEUE)
    archive = make(workspace, bucket)
    wire.publish(numbers(1, 100))
    wire.api(f"CONSUMER.RESET.JOBS.{OWN}", seq=51)
    with pytest.raises(SourceError, match="has message 1, and consumer nats3-jobs will not deliver it again"):
        run(workspace, archive)
    assert wire.state("JOBS")["messages"] == 50
    assert [seq for seq, _ in content(workspace, archive)] == list(range(51, 101))
    wire.api(f"CONSUMER.RESET.JOBS.{OWN}", seq=1)
    assert run(workspace, archive).messages == 50
    check_all(workspace, wire, archive, 100)


def test_what_the_stream_holds_and_no_chunk_has_is_not_acknowledged(
    workspace: Workspace, wire: Wire, archive: Archive
) -> None:
    """A task hands over that all is done, and nothing is: the driver asks the stream's leader."""
    wire.publish(numbers(1, 100))

    def perform(job: TakeJob) -> tuple[list[object], Nats3Error | None]:
        assert job.channel
        with Link(job.nats) as link:
            try:
                Handover(link, job.channel).give(Handed((), Delivered(100, 100)))
            except Nats3Error as error:
                return [], error
        return [], None

    with pytest.raises(SourceError, match="left out message 1 of JOBS"):
        run_rounds(workspace, archive, hour_of(time.time_ns()), perform)
    assert run(workspace, archive).messages == 100
    check_all(workspace, wire, archive, 100)


def test_a_handover_is_taken_once_and_of_its_own_task_alone(workspace: Workspace, wire: Wire) -> None:
    channel, taken = Channel(), list[Any]()
    settings = workspace.settings.nats
    with Handovers(workspace.link, channel, taken.append) as handovers, Link(settings) as link:
        task = Handover(link, channel)
        # Before the task's own first one: what comes first says which attempt counts.
        stranger = pickle.dumps(("stranger", 1, "of a stranger"))
        sealed, foreign = (c.sealed(b"request", stranger) for c in (channel, Channel(channel.subject)))
        altered = sealed[:-1] + bytes([sealed[-1] ^ 1])
        for forged in (b"", b"x", foreign, bytes(32) + stranger, altered, channel.sealed(b"reply", stranger)):
            wire.send(f"{channel.subject} {channel.subject}.answers", forged)  # with a subject for the answer
        wire.api("STREAM.NAMES")  # the server has read them
        task.give("first")
        second = Handover(link, channel)
        with pytest.raises(SourceError, match="did not take"):
            second.give("of another attempt")
        task.give("second")
        task._number += 1  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(SourceError, match="did not take"):
            task.give("after one that did not come")
        handovers.check()
    assert taken == ["first", "second"]


def test_an_error_of_the_driver_ends_the_task(workspace: Workspace) -> None:
    def refuse(handed: object) -> None:
        raise SourceError("The catalog is away")

    channel = Channel()
    with Handovers(workspace.link, channel, refuse) as handovers, Link(workspace.settings.nats) as link:
        task = Handover(link, channel)
        for _ in range(2):
            with pytest.raises(SourceError, match="did not take"):
                task.give("it")
        with pytest.raises(SourceError, match="The catalog is away"):
            handovers.check()


def test_a_task_whose_driver_is_gone_ends(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "GONE_S", 0.3)
    with Link(workspace.settings.nats) as link, pytest.raises(SourceError, match="does not take"):
        Handover(link, Channel()).give("it")


def test_a_slow_driver_is_waited_for(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it is at work, so that its silence alone is an end."""
    monkeypatch.setattr(handover, "ANSWER_S", 0.2)
    monkeypatch.setattr(handover, "SILENCE_S", 1.0)
    channel, go, taken = Channel(), threading.Event(), list[Any]()

    def take(handed: object) -> None:
        go.wait(10)
        taken.append(handed)

    with Handovers(workspace.link, channel, take), Link(workspace.settings.nats) as link:
        threading.Timer(2.5, go.set).start()
        Handover(link, channel).give("it")
    assert taken == ["it"]


def test_the_last_acknowledgement_is_confirmed(workspace: Workspace, wire: Wire, archive: Archive) -> None:
    """A run that succeeded leaves nothing to acknowledge, and no client."""
    wire.publish(numbers(1, 10))
    run(workspace, archive)
    info = wire.api(f"CONSUMER.INFO.JOBS.{OWN}")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"], info.get("push_bound", False)) == (10, 0, False)
    assert json.dumps(info["config"]["ack_policy"]) == '"flow_control"'
    assert Delivered(1, 5) < Delivered(2, 4)
