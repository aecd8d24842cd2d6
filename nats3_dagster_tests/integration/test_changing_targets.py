"""Targets that change in the middle of a replay: it goes on, or ends with what changed; it is never a false success."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Pace, ReplayTarget
from nats3_dagster.replay.job import ReplayJob, Share
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster_tests.support.republish import REPLAY, TO_BACK, archived, job_of, numbered, payloads, publish
from nats3_dagster_tests.support.servers.nats_proxy import Frame, NatsProxy
from nats3_dagster_tests.support.wire import Wire

MODES = [False, pytest.param(True, marks=pytest.mark.needs_nats("2.14"))]


def changed(job, chunks, change: Callable[[], object], after: int = 2):
    """The results of a task and what it failed of, where the target changes once so many chunks are done."""
    results, failure = [], None
    with Link(job.nats) as link:
        try:
            for result in Republisher(Share(job, chunks, 0, 1), link).results():
                results.append(result)
                if len(results) == after:
                    change()
        except TargetError as error:
            failure = error
    return results, failure


def batches(wanted: bool) -> dict[str, bool]:
    return {"allow_batched": True} if wanted else {}


@pytest.mark.parametrize("batched", MODES)
def test_a_stream_that_is_sealed(nats, file_store, batched) -> None:
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", **batches(batched))
        config = wire.api("STREAM.INFO.BACK")["config"]
        job = replace(job_of(nats, file_store, "BACK"), batched=batched)
        results, failure = changed(
            job, chunks, lambda: wire.api("STREAM.UPDATE.BACK", **config | {"sealed": True, "allow_rollup_hdrs": False})
        )
        assert [r.last_seq for r in results] == [10, 20]
        assert "sealed" in str(failure)
        assert payloads(wire) == list(range(20))


@pytest.mark.parametrize("batched", MODES)
def test_an_interest_stream_that_loses_its_consumer(nats, file_store, batched) -> None:
    """It then acknowledges messages and stores none."""
    chunks = archived(nats, file_store, numbered(40), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", retention="interest", **batches(batched))
        config = {"durable_name": "app", "ack_policy": "explicit"}
        wire.api("CONSUMER.DURABLE.CREATE.BACK.app", stream_name="BACK", config=config)
        job = replace(job_of(nats, file_store, "BACK"), batched=batched)
        results, failure = changed(job, chunks, lambda: wire.api("CONSUMER.DELETE.BACK.app"))
        assert len(results) == 2
        assert "lost its last consumer" in str(failure)


def test_a_duplicate_window_shorter_than_the_pace(nats, file_store) -> None:
    chunks = archived(nats, file_store, numbered(8), 4)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", duplicate_window=100_000_000)
        spec = replace(TO_BACK, pace=Pace(5.0))
        results, failure = publish(job_of(nats, file_store, "BACK", spec=spec), chunks)
        assert failure is None
        assert [r.published for r in results] == [4, 4]
        assert payloads(wire) == list(range(8))
        assert len([m for m in wire.messages("BACK") if b"Nats-Expected-Last-Msg-Id" in m.headers]) == 7


@pytest.mark.parametrize("batched", MODES)
def test_a_balancer_that_hangs_up_and_delivers_later(nats, file_store, batched) -> None:
    """As one that is restarted: for a while nobody can connect, and what it had taken still goes to the server."""
    chunks = archived(nats, file_store, numbered(3000))
    held, deliver = threading.Event(), threading.Event()
    inbox = b""

    def hold(frame: Frame) -> Frame:
        nonlocal inbox
        words = frame[0].split()
        if words[0] == b"HPUB" and words[1].startswith(b"back."):
            reply = words[2].split(b".")[1]
            if not inbox and frame[1].endswith(b"\r\n\r\n1000\r\n"):
                inbox = reply
                held.set()
            if reply == inbox:
                deliver.wait(20)
        return frame

    def restart() -> None:
        held.wait(20)
        proxy.hang_up()
        time.sleep(1)
        proxy.come_back()
        time.sleep(2)
        deliver.set()

    with Wire(nats.url) as wire, NatsProxy(nats.port) as proxy:
        # Its messages are known by their ids for a tenth of a second only.
        wire.create_stream("BACK", "back.>", duplicate_window=100_000_000, **batches(batched))
        proxy.from_client = hold
        restarting = threading.Thread(target=restart)
        restarting.start()
        job = job_of(nats, file_store, "BACK")
        job = replace(job, batched=batched, nats=replace(nats.options, servers=(proxy.url,)))
        _, failure = publish(job, chunks)
        restarting.join()
        assert failure is None
        assert wire.quiet("BACK", 1) == 3000
        assert payloads(wire) == list(range(3000))


@pytest.mark.parametrize("batched", MODES)
@pytest.mark.parametrize(
    ("limits", "more"),
    [
        ({"discard": "new", "max_msgs": 25}, {"max_msgs": 100}),
        (
            {"discard": "new", "discard_new_per_subject": True, "max_msgs_per_subject": 2, "max_msgs": 100},
            {"max_msgs_per_subject": 10},
        ),
    ],
    ids=["stream", "subject"],
)
def test_a_full_stream_that_gets_room(nats, file_store, batched, limits, more) -> None:
    chunks = archived(nats, file_store, numbered(40, subjects=10), 10)
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>", **limits, **batches(batched))
        config = wire.api("STREAM.INFO.BACK")["config"]
        job = replace(job_of(nats, file_store, "BACK"), batched=batched)
        results, failure = publish(job, chunks)
        assert len(results) == 2
        assert "maximum messages" in str(failure)
        # Resumed while it is still full, and once it has room.
        rest, job = chunks[2:], replace(job, attempt=2)
        _, failure = publish(job, rest)
        assert "maximum messages" in str(failure)
        wire.api("STREAM.UPDATE.BACK", **config | more)
        results, failure = publish(job, rest)
        assert failure is None
        assert payloads(wire) == list(range(40))


@pytest.mark.parametrize("batched", MODES)
def test_an_account_without_room(nats, nats_factory, file_store, batched) -> None:
    chunks = archived(nats, file_store, numbered(400), 100)
    users = "users: [{user: u, password: p}], jetstream { max_file: 60000 }"
    limited = nats_factory(config=f"accounts {{ A {{ {users} }} }}")
    options = replace(limited.options, user="u", password="p")
    with Wire(limited.url, user="u", **{"pass": "p"}) as wire:
        wire.create_stream("BACK", "back.>", **batches(batched))
        with Link(options) as link:
            target = ReplayTarget(stream_state(link, "BACK").incarnation, 1)
        job = ReplayJob(REPLAY, 1, TO_BACK, (target,), options, file_store, batched)
        results, failure = publish(job, chunks)
        assert "resource limits exceeded for account" in str(failure)
        stored = payloads(wire)
        assert 100 * len(results) <= len(stored) < 400
        assert stored == list(range(len(stored)))
