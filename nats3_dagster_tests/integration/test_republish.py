"""A replay's task against real targets: what is stored is a beginning of what was sent, in order, whatever refuses it.

Without Spark and the catalog: the archive is one capture into a local folder.
"""

import contextlib
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nats3_dagster import fault_points
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import StreamChanged, TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.task_progress import Counts
from nats3_dagster.replay.job import Share
from nats3_dagster.replay.messages import republish
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster_tests.support.republish import REPLAY, TO_BACK, archived, job_of, numbered, payloads, publish
from nats3_dagster_tests.support.wire import Wire


@contextlib.contextmanager
def neighbour(server: NatsServer, subject: str, pause_s: float = 0.0):
    """Another application that publishes to the subject all the time."""
    stop = threading.Event()

    def flood() -> None:
        frames = b"PUB %b 5\r\nother\r\n" % subject.encode() * (1 if pause_s else 300)
        with Link(server.options) as link:
            while not stop.is_set():
                link.call(send, frames)
                time.sleep(pause_s)

    async def send(client, frames: bytes) -> None:
        client.send(frames)
        await client.flush()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture
def busy(nats_factory, tmp_path: Path) -> NatsServer:
    """A server that drops what it cannot store at once."""
    return nats_factory(config=f'jetstream {{ store_dir: "{tmp_path / "busy"}", max_buffered_msgs: 64 }}')


@pytest.mark.needs_nats("2.11")
@pytest.mark.parametrize("limits", [{}, {"max_msgs_per_subject": 1_000_000}], ids=["keeps", "removes"])
def test_a_stream_that_is_too_busy_loses_nothing_and_keeps_the_order(nats, busy, file_store, limits) -> None:
    chunks = archived(nats, file_store, numbered(12_000), 6000)
    with Wire(busy.url) as wire:
        wire.create_stream("BACK", "back.>", **limits)
        results, failure = publish(job_of(busy, file_store, "BACK"), chunks)
        assert failure is None
        assert sum(r.published + r.found for r in results) == 12_000
        assert payloads(wire) == list(range(12_000))


def test_another_publisher_in_the_target(nats, file_store, monkeypatch) -> None:
    """It breaks the chain, and the replay goes on one message at a time."""
    windows = []

    class Watched(Publisher):
        def __init__(self, *given, inflight_messages, **more) -> None:
            windows.append(inflight_messages)
            super().__init__(*given, inflight_messages=inflight_messages, **more)

    monkeypatch.setattr(republish, "Publisher", Watched)
    chunks = archived(nats, file_store, numbered(3000), 300)
    with Wire(nats.url) as wire, neighbour(nats, "back.other", 0.001):
        wire.create_stream("BACK", "back.>", max_msgs_per_subject=1_000_000)
        results, failure = publish(job_of(nats, file_store, "BACK"), chunks)
        assert failure is None
        assert [r.published + r.found for r in results] == [300] * 10
        # The first attempt is a chain, and the one after it has one message under way.
        assert (windows[0] > 1, windows[1]) == (True, 1)
        assert payloads(wire) == list(range(3000))


def test_a_later_attempt_says_what_it_found_and_what_it_published(nats, file_store) -> None:
    """Whole chunks, a part of one, and none."""
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        job = job_of(nats, file_store, "BACK")
        first, _ = publish(job, chunks[:2])
        assert [(r.selected, r.published, r.found, r.last_seq) for r in first] == [(10, 10, 0, 10), (10, 10, 0, 20)]
        fault_points.arm("replay.sent:raise")
        try:
            with pytest.raises(fault_points.InjectedFault):
                publish(job, chunks[2:3])
        finally:
            fault_points.arm("")
        stored = wire.state("BACK")["messages"]
        assert 20 <= stored <= 30
        results, failure = publish(replace(job, attempt=2), chunks)
        assert failure is None
        assert [(r.published + r.found, r.last_seq) for r in results] == [(10, 10), (10, 20), (10, 30), (10, 40)]
        assert [r.found for r in results[:2]] == [10, 10]
        assert sum(r.found for r in results) >= stored
        assert payloads(wire) == list(range(40))


def test_messages_of_the_chunk_under_way_are_counted(nats, file_store) -> None:
    chunks = archived(nats, file_store, numbered(30), 10)
    with Wire(nats.url) as wire, Link(nats.options) as link:
        wire.create_stream("BACK", "back.>")
        job = job_of(nats, file_store, "BACK")
        assert publish(job, chunks[:1])[1] is None
        task = Republisher(Share(replace(job, attempt=2), chunks, 0, 1), link)
        assert task.counts() == Counts()
        fault_points.arm("replay.acknowledged:raise:3")
        counts = []
        try:
            with pytest.raises(fault_points.InjectedFault):
                for _ in task.results():
                    counts.append(task.counts())
        finally:
            fault_points.arm("")
        assert counts == [Counts(0, 10), Counts(10, 10)]
        # All messages of the third chunk were acknowledged, and no result says so yet.
        assert task.counts() == Counts(20, 10)


def test_a_stream_that_is_made_again_in_the_middle(nats, file_store, monkeypatch) -> None:
    """Also where it goes on acknowledging: with a window of one nothing breaks."""
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        job = job_of(nats, file_store, "BACK")
        done = 0
        with Link(nats.options) as link, pytest.raises(StreamChanged, match="made again"):
            for _ in Republisher(Share(job, chunks, 0, 1), link).results():
                done += 1
                if done == 2:
                    wire.api("STREAM.DELETE.BACK")
                    wire.create_stream("BACK", "back.>")
        assert done == 2


def test_a_stream_that_forgot_what_it_acknowledged(nats, own_nats, file_store, tmp_path) -> None:
    """As after a power cut: the store folder of an earlier time."""
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(own_nats.url) as wire:
        wire.create_stream("BACK", "back.>")
    job = replace(job_of(own_nats, file_store, "BACK"), nats=own_nats.options)
    results = []
    with Link(own_nats.options) as link, pytest.raises(TargetError, match="sequences 11-20 and holds 0: it lost"):
        for result in Republisher(Share(job, chunks, 0, 1), link).results():
            results.append(result)
            if len(results) > 2:
                continue
            own_nats.stop()
            if len(results) == 1:
                shutil.copytree(own_nats.folder / "data", tmp_path / "earlier")
            else:
                shutil.rmtree(own_nats.folder / "data")
                shutil.copytree(tmp_path / "earlier", own_nats.folder / "data")
            own_nats.start()
    assert len(results) == 2


def test_subjects_that_another_stream_takes_now(nats, file_store) -> None:
    chunks = archived(nats, file_store, numbered(20), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        job = job_of(nats, file_store, "BACK")
        wire.api("STREAM.UPDATE.BACK", name="BACK", subjects=["elsewhere"], storage="file")
        wire.create_stream("OTHER", "back.>")
        results, failure = publish(job, chunks)
        assert results == []
        assert "Stream OTHER took a message, and the replay publishes into BACK" in str(failure)


def test_a_message_that_the_target_knows_and_does_not_hold(nats, file_store) -> None:
    """It was purged within the duplicate window: it counts as published nowhere."""
    chunks = archived(nats, file_store, numbered(20), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        job = job_of(nats, file_store, "BACK")
        assert publish(job, chunks[:1])[1] is None
        wire.api("STREAM.PURGE.BACK")
        results, failure = publish(job, chunks)
        assert results == []
        assert "cannot be known" in str(failure)
        assert wire.state("BACK")["messages"] == 0


def test_a_hole_in_what_several_publishers_left(nats, file_store) -> None:
    """Their windows are no chains: a stream may have refused a message and taken later ones of its subject."""
    chunks = archived(nats, file_store, [("ev.a", b"", b"%d" % n) for n in range(20)])
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        spec = replace(TO_BACK, order="subject")
        job = job_of(nats, file_store, "BACK", spec=spec)
        life = chunks[0].meta.incarnation.token
        mark = f"NATS/1.0\r\nNats3-Replay: {REPLAY}\r\nNats3-Stream: EV\r\nNats3-Incarnation: {life}\r\n"
        wire.publish([("back.a", f"{mark}Nats3-Sequence: {n}\r\n\r\n".encode(), b"") for n in (1, 2, 4)])
        publishers = [publish(replace(job, attempt=2), chunks, index, 2) for index in (0, 1)]
        failures = [failure for _, failure in publishers if failure]
        assert len(failures) == 1
        assert "holds a message on back.a and not one that comes before it" in str(failures[0])
        # The order none is free to fill the hole.
        job = replace(job, attempt=2, spec=replace(spec, order="none"))
        assert [r.published for r in publish(job, chunks, 0, 2)[0]] == [17]
