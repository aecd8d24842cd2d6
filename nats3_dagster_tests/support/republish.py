"""A replay job over chunks of numbered messages, and one of its tasks in this process."""

from datetime import UTC, datetime

from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.captures.read import RangeCapture
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import TargetError
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, Chunk, ChunkMeta, ReplaySpec, ReplayTarget, Selection, SeqRange
from nats3_dagster.objects import StoreOptions
from nats3_dagster.replay.job import ReplayJob, Share
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster_tests.support.wire import Wire

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
        job = CaptureJob(spec, state, ((HOUR, 1),), server.options, store)
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
