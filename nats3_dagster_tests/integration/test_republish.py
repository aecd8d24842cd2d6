"""A replay's task against real targets: what is stored is a beginning of what was sent, in order, whatever refuses it.

Without Spark and the catalog: the archive is one capture into a local folder.
"""

import contextlib
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nats3_dagster.archive.capture import CaptureJob
from nats3_dagster.archive.range_capture import RangeCapture
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, Chunk, ChunkMeta, ReplaySpec, ReplayTarget, Selection, SeqRange
from nats3_dagster.objects import StoreOptions
from nats3_dagster.replay.job import ReplayJob, Share
from nats3_dagster.replay.republish import Republisher
from nats3_dagster_tests.wire import Wire

HOUR = "2026-11-21-07:00"
TO_BACK = ReplaySpec("ev", "back.>", Selection(subjects=("ev.>",)))
REPLAY = "0123456789abcdef"


def archived(server: NatsServer, store: StoreOptions, messages, chunk_messages: int = 1 << 20) -> tuple[Chunk, ...]:
    """The chunks of a stream EV with these messages."""
    with Wire(server.url) as wire, Link(server.options) as link:
        wire.create_stream("EV", "ev.>")
        wire.publish(messages)
        state = stream_state(link, "EV")
        spec = ArchiveSpec(name="ev", stream="EV", bucket="archive")
        job = CaptureJob(spec, state, HOUR, server.options, store)
        outcomes = []
        for first in range(1, state.last_seq + 1, chunk_messages):
            seqs = SeqRange(first, min(state.last_seq, first + chunk_messages - 1))
            outcomes += RangeCapture(job, seqs, link).outcomes()
    assert all(isinstance(outcome, ChunkMeta) for outcome in outcomes)
    return tuple(Chunk(n, meta, datetime.now(UTC), None) for n, meta in enumerate(outcomes, 1))


def numbered(count: int, subjects: int = 100):
    return [(f"ev.{n % subjects}", b"", b"%d" % n) for n in range(count)]


def job_of(server: NatsServer, store: StoreOptions, *streams: str, **more) -> ReplayJob:
    with Link(server.options) as link:
        states = [stream_state(link, stream) for stream in streams]
    targets = tuple(ReplayTarget(state.incarnation, state.last_seq + 1) for state in states)
    return ReplayJob(REPLAY, 1, more.pop("spec", TO_BACK), targets, server.options, store, False, **more)


def publish(job: ReplayJob, chunks, index: int = 0, count: int = 1):
    """The results of one task, and what it failed of."""
    results, failure = [], None
    with Link(job.nats) as link:
        try:
            results.extend(Republisher(Share(job, tuple(chunks), index, count), link).results())
        except TargetError as error:
            failure = error
    return results, failure


def payloads(wire: Wire, stream: str = "BACK") -> list[int]:
    return [int(m.data) for m in wire.messages(stream) if b"Nats3-Replay" in m.headers]


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


def test_another_publisher_in_the_target(nats, file_store) -> None:
    """It breaks the chain, and the replay goes on one message at a time."""
    chunks = archived(nats, file_store, numbered(3000), 300)
    with Wire(nats.url) as wire, neighbour(nats, "back.other", 0.001):
        wire.create_stream("BACK", "back.>", max_msgs_per_subject=1_000_000)
        results, failure = publish(job_of(nats, file_store, "BACK"), chunks)
        assert failure is None
        assert [r.published + r.found for r in results] == [300] * 10
        assert payloads(wire) == list(range(3000))
