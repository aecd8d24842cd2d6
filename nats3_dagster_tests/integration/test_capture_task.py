"""The worker's side of a capture against a real stream: what it makes of sequences that are not there."""

import itertools
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nats3_dagster.archive.captures import plan as planning
from nats3_dagster.archive.captures import read as reading
from nats3_dagster.archive.captures.read import RangeCapture
from nats3_dagster.archive.captures.task import HourFailure
from nats3_dagster.catalog import Catalog
from nats3_dagster.chunks import ChunkWriter
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.errors import SourceError, StreamChanged, from_json
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.breaks import UNKNOWN_FORM
from nats3_dagster.model import ChunkMeta, Gap, SeqRange
from nats3_dagster.objects import Bucket
from nats3_dagster.pipeline.worker import capture_task
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.runs import archive_events, hours_of
from nats3_dagster_tests.support.servers.nats_proxy import NatsProxy
from nats3_dagster_tests.support.wire import Wire


@pytest.fixture
def wire(nats: NatsServer) -> Iterator[Wire]:
    with Wire(nats.url) as client:
        client.create_stream("EV", "ev.>")
        client.publish([("ev.a", b"", b"%d" % n) for n in range(1, 1001)])
        yield client


def plan(settings: Settings, wire: Wire) -> planning.CapturePlan:
    """Of the hour that holds the messages (they were published a moment ago)."""
    with Workspace(settings) as workspace:
        hour = hours_of(wire, "EV")[-1]
        return plan_hours(workspace, workspace.catalog.archives.get("events"), [hour])


def run(planned: planning.CapturePlan) -> list[tuple[str, SeqRange]]:
    """Capture and commit-free: what each outcome is, and the sequences it accounts for."""
    outcomes = [o for ranges in planned.tasks(1) for o in capture_task((planned.job, ranges))]
    outcomes = [o for o in outcomes if not isinstance(o, HourFailure)]
    return [("chunk", o.covers) if isinstance(o, ChunkMeta) else (o.reason, o.ranges[0]) for o in outcomes]


def test_what_expires_between_plan_and_read_is_a_gap_and_never_part_of_a_chunk(
    settings: Settings, wire: Wire, bucket: str
) -> None:
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    first = planned.missing[0].first
    wire.api("STREAM.PURGE.EV", seq=401)
    assert run(planned) == [("expired", SeqRange(first, 400)), ("chunk", SeqRange(401, 1000))]


@pytest.mark.parametrize("first", [2, 3, 501, 502, 1000, 1001])
def test_the_first_messages_that_expire_are_a_gap_however_many_are_left(
    settings: Settings, wire: Wire, bucket: str, first: int
) -> None:
    wire.publish([("ev.a", b"", b"the 1,001st")])
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    assert planned.missing == (SeqRange(1, 1001),)
    wire.api("STREAM.PURGE.EV", seq=first)
    assert run(planned) == [("expired", SeqRange(1, first - 1)), ("chunk", SeqRange(first, 1001))]


def test_a_whole_range_that_expired_is_a_gap(settings: Settings, wire: Wire, bucket: str) -> None:
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    wire.api("STREAM.PURGE.EV")
    assert run(planned) == [("expired", planned.missing[0])]


def test_what_was_deleted_inside_the_stream_is_part_of_the_chunk_that_spans_it(
    settings: Settings, wire: Wire, bucket: str
) -> None:
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    first = planned.missing[0].first
    for seq in (first + 10, first + 11, 1000):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    outcomes = [o for seqs in planned.tasks(1) for o in capture_task((planned.job, seqs))]
    assert [type(o) for o in outcomes] == [ChunkMeta]
    assert isinstance(outcomes[0], ChunkMeta)
    assert outcomes[0].covers == planned.missing[0]
    assert outcomes[0].deleted == (SeqRange(first + 10, first + 11), SeqRange(1000, 1000))


@pytest.mark.parametrize("where", ["between messages", "at the end"])
def test_made_again_before_it_is_asked_what_expired(
    settings: Settings, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """The first sequence of the new stream says nothing of what the old one had expired."""
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    wire.api("STREAM.MSG.DELETE.EV", seq=999 if where == "between messages" else 1000)
    read = reading.read_batches

    def read_and_make_again(*args: Any) -> Iterator[Any]:
        batches = list(read(*args))
        wire.api("STREAM.DELETE.EV")
        wire.create_stream("EV", "ev.>")
        yield from batches

    monkeypatch.setattr(reading, "read_batches", read_and_make_again)
    with pytest.raises(StreamChanged, match="EV was made again at"):
        run(planned)


def test_chunks_roll_and_tile_the_range(
    settings: Settings, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    monkeypatch.setattr(reading, "CHUNK_MESSAGES", 300)
    covered = [covers for kind, covers in run(planned) if kind == "chunk"]
    assert (covered[0].first, covered[-1].last) == planned.missing[0]
    assert all(one.last + 1 == other.first for one, other in itertools.pairwise(covered))
    assert [c.size for c in covered[:-1]] == [300] * (len(covered) - 1)
    objects = list(Bucket(settings.store, bucket).list())
    # As after a kill: the same range and bytes give the same key, so that what is there is found, not put beside.
    run(planned)
    assert list(Bucket(settings.store, bucket).list()) == objects


def test_a_chunk_is_uploaded_while_the_next_one_is_written(
    settings: Settings, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    monkeypatch.setattr(reading, "CHUNK_MESSAGES", 300)
    store, writers, in_store = Bucket(planned.job.store, bucket), list[ChunkWriter](), list[str]()

    class Slow:
        """Takes the first object only when a second chunk was begun."""

        def put_new(self, key: str, data: bytes | memoryview, sha256: str) -> bool:
            until = time.monotonic() + 10
            while len(writers) < 2 and time.monotonic() < until:
                time.sleep(0.01)
            assert len(writers) >= 2
            created = store.put_new(key, data, sha256)
            in_store.append(key)
            return created

    new_writer = RangeCapture._new_writer  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        RangeCapture, "_new_writer", lambda self, hour: writers.append(new_writer(self, hour)) or writers[-1]
    )  # pyright: ignore[reportUnknownArgumentType, reportUnknownLambdaType]
    with Link(settings.nats) as link:
        for outcome in RangeCapture(planned.job, planned.missing[0], link, Slow()).outcomes():
            assert isinstance(outcome, ChunkMeta)
            assert outcome.key in in_store
    assert len(in_store) >= 3


def test_an_unfiltered_range_that_was_deleted_message_by_message_is_no_loss(
    settings: Settings, wire: Wire, bucket: str
) -> None:
    wire.publish([("ev.a", b"", b"last")])
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    for seq in (999, 1000, 1001):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    job = planned.job
    outcomes = list(capture_task((job, (SeqRange(999, 1001),))))
    assert outcomes == [Gap(job.state.incarnation, (SeqRange(999, 1001),), "deleted")]


def test_what_lies_behind_the_end_that_a_server_knows_is_not_absent(
    settings: Settings, wire: Wire, bucket: str
) -> None:
    """A leader that was cut off from the cluster answers for a while, and does not know the newest messages."""
    archive_events(settings, bucket)
    planned = plan(settings, wire)
    *_, failure = capture_task((planned.job, (SeqRange(901, 1010),)))
    assert isinstance(failure, HourFailure)
    assert (failure.hour, type(error := from_json(failure.error))) == (planned.hours[0], SourceError)
    assert "EV ends at sequence 1000, and ended at 1010 or later when this was planned" in error.what


def test_a_stream_that_forgot_what_the_archive_holds_is_an_error(settings: Settings, wire: Wire, bucket: str) -> None:
    archive_events(settings, bucket)
    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.get("events")
        # As if sequence 1001 had been captured before the server lost it.
        catalog.chunks.commit(
            archive, [], [Gap(catalog.coverage.incarnations(archive)[0], (SeqRange(1001, 1001),), "deleted")]
        )
    with pytest.raises(StreamChanged, match="ends at sequence 1000.*up to 1001"):
        plan(settings, wire)


def test_what_lies_before_a_message_that_cannot_be_read_is_archived(
    settings: Settings, nats: NatsServer, wire: Wire, bucket: str
) -> None:
    """Here its time comes garbled, each time that it comes."""
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(1001, 20_001)])
    archive_events(settings, bucket)
    planned = plan(settings, wire)

    def garble(frame: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        line, payload = frame
        return re.sub(rb"(\.1\.15000\.\d+\.)\d{19}", rb"\1" + b"x" * 19, line), payload

    with NatsProxy(nats.port) as proxy:
        proxy.from_server = garble
        job = replace(planned.job, nats=replace(planned.job.nats, servers=(proxy.url,)))
        chunk, failure = capture_task((job, planned.missing))
    assert isinstance(failure, HourFailure)
    error = from_json(failure.error)
    assert re.search("broke off 2 times at sequence .*cannot be understood", error.what)
    assert error.hint == UNKNOWN_FORM
    assert isinstance(chunk, ChunkMeta)
    assert chunk.covers.first == planned.missing[0].first
    assert 8192 <= chunk.covers.last < 15_000
