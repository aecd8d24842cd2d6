"""A cluster of three: leaders change and servers go in the middle of a read and of a publish."""

import itertools
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count

import pyarrow as pa
import pytest

from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.captures.read import RangeCapture
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.take_capture import TakeCapture
from nats3_dagster.errors import Interrupted, SourceError
from nats3_dagster.jetstream import api
from nats3_dagster.jetstream.api import request
from nats3_dagster.jetstream.consumers.positions import durables_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.publish.probe import await_stored
from nats3_dagster.jetstream.publish.publisher import Publisher
from nats3_dagster.jetstream.read import consumer
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import create_stream, stream_state, streams_listening
from nats3_dagster.jetstream.take.durable import make_durable
from nats3_dagster.jetstream.take.pull import PullLimits
from nats3_dagster.model import (
    ArchiveSpec,
    Chunk,
    ChunkMeta,
    ChunkResult,
    Deliveries,
    Gap,
    ReplaySpec,
    ReplayTarget,
    Selection,
    SeqRange,
)
from nats3_dagster.replay.job import ReplayJob, Share
from nats3_dagster.replay.messages.republish import Republisher
from nats3_dagster_tests.support.applications import Application
from nats3_dagster_tests.support.servers.cluster import start, three_servers
from nats3_dagster_tests.support.taking import acknowledged_one_by_one

# A cluster of 2.9 on one busy machine leaves requests without an answer for longer than a client waits.
pytestmark = [pytest.mark.slow, pytest.mark.needs_nats("2.14")]
COUNT = 10_000
NAMES = count()


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """Three servers for all tests: an election of the first leader takes seconds."""
    with three_servers(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


@pytest.fixture
def cluster(servers):
    start([server for server in servers if not server.find()])
    return servers


@pytest.fixture
def link(cluster):
    with Link(options(cluster)) as link:
        yield link


@pytest.fixture
def stream(link):
    return new_stream(link)


def new_stream(link):
    """A stream with three copies; who made it is as sure of the cluster as a client can be."""
    name = f"S{next(NAMES)}"
    for _ in range(100):
        try:
            config = {"name": name, "subjects": [f"{name}.>"], "num_replicas": 3}
            create_stream(link, {**config, "allow_batched": True, "allow_atomic": True})
            return name
        except SourceError:  # no leader yet
            time.sleep(0.2)
    raise AssertionError("The cluster takes no stream")


def options(servers):
    return NatsOptions(servers=tuple(s.url for s in servers))


def messages(stream, numbers):
    return pa.array([f"{stream}.a"] * len(numbers)), None, pa.array([b"%d" % n for n in numbers])


def leader(link, stream):
    async def ask(client):
        return (await request(client, f"STREAM.INFO.{stream}"))["cluster"].get("leader")

    return link.call(ask)


def change_leader(cluster, link, stream, how):
    """Let another server become the stream's leader."""
    before = leader(link, stream)
    if how != "steps down":
        getattr(cluster[int(before[1:])], how)()
        return

    async def ask(client):
        await request(client, f"STREAM.LEADER.STEPDOWN.{stream}")

    link.call(ask)
    for _ in range(100):
        if leader(link, stream) not in (None, before):
            return
        time.sleep(0.05)


def read(link, stream, servers, trouble=lambda: None):
    """The numbers in the stream; trouble happens after the first batch."""
    state = stream_state(link, stream)
    if not state.last_seq:
        return []
    batches = read_batches(options(servers), ReadSpec(state.incarnation, SeqRange(1, state.last_seq)), batch_rows=100)
    numbers = [int(data) for data in next(batches).column("data").to_pylist()]
    trouble()
    return numbers + [int(data) for batch in batches for data in batch.column("data").to_pylist()]


@pytest.mark.parametrize("how", ["steps down", "stop"])
def test_reading(cluster, link, stream, monkeypatch, how):
    with Publisher(options(cluster)) as publisher:
        publisher.publish(*messages(stream, range(COUNT)))
    # So that most of the range has not even been asked for when it happens.
    monkeypatch.setattr(consumer, "PULL_MESSAGES", 300)
    monkeypatch.setattr(consumer, "ROOM_BYTES", 1)
    assert read(link, stream, cluster, lambda: change_leader(cluster, link, stream, how)) == list(range(COUNT))


@pytest.mark.parametrize(
    ("mode", "how"),
    [
        ("window", "steps down"),
        ("window", "stop"),
        ("window", "kill"),  # once: nobody hands over, and until the others miss it there is no leader for seconds
        pytest.param("batch", "steps down", marks=pytest.mark.needs_nats("2.14")),
        pytest.param("batch", "stop", marks=pytest.mark.needs_nats("2.14")),
        ("atomic", "steps down"),
        ("atomic", "stop"),
        ("atomic", "kill"),
    ],
)
def test_publishing(cluster, link, stream, mode, how):
    """A replay in small: after an Interrupted ask the stream what it has, and publish the rest."""
    started, breaks, there = threading.Event(), 0, []

    def trouble():
        started.wait()
        change_leader(cluster, link, stream, how)

    thread = threading.Thread(target=trouble)
    thread.start()
    while missing := sorted(set(range(COUNT)) - set(there)):
        try:
            with Publisher(options(cluster), mode=mode, ack_timeout_s=3) as publisher:
                for at in range(0, len(missing), 100):
                    publisher.publish(*messages(stream, missing[at : at + 100]))
                    if at >= 1000:
                        started.set()
                        publisher.wait(0.02 if thread.is_alive() else 0)
        except Interrupted:
            breaks += 1
            assert breaks < 20
            time.sleep(0.3)
        await_stored(link, stream, timeout_s=20)
        there = read(link, stream, cluster)
        assert len(there) == len(set(there))
    thread.join()
    assert started.is_set()
    if mode != "window":
        assert there == list(range(COUNT))


def test_a_list_without_a_stream_that_does_not_answer_is_no_list(cluster, monkeypatch):
    monkeypatch.setattr(api, "PATIENCE_S", 1)
    name = f"S{next(NAMES)}"
    with Link(options(cluster)) as link:
        new_stream(link)  # the cluster has a leader
        create_stream(link, {"name": name, "subjects": ["lonely.>"]})
        holder = cluster[int(leader(link, name)[1:])]
    others = [server for server in cluster if server is not holder]
    with Link(options(others)) as link:
        assert [state.name for state in streams_listening(link, "lonely.>")] == [name]
        holder.stop()
        try:
            with pytest.raises(SourceError, match=f"The state of stream {name} cannot be known now"):
                streams_listening(link, "lonely.>")
        finally:
            holder.start()
        monkeypatch.undo()
        assert [state.name for state in streams_listening(link, "lonely.>")] == [name]


def test_a_leader_that_lost_its_cluster_is_not_believed(cluster):
    """It answers for ten seconds from what it knows, and meanwhile another one may lead."""
    with Link(options(cluster)) as link:
        stream = new_stream(link)
        wait_current(link, stream)
        old = cluster[int(leader(link, stream)[1:])]
    others = [server for server in cluster if server is not old]
    with Link(options([old])) as link:
        before = stream_state(link, stream)
        for server in others:
            server.pause()
        try:
            until = time.monotonic() + 9
            with pytest.raises(SourceError, match="has not heard from a majority of its cluster for 3 s") as caught:
                while time.monotonic() < until:
                    link.call(request, f"STREAM.INFO.{stream}", None, 0)
                    time.sleep(0.1)
            assert "routes" in str(caught.value.hint)
        finally:
            for server in others:
                server.resume()
        wait_current(link, stream)
        assert stream_state(link, stream) == before


def archived(cluster, link, stream, count, store):
    """The chunks of a stream with the numbers up to `count`."""
    with Publisher(options(cluster)) as publisher:
        publisher.publish(*messages(stream, range(count)))
    spec = ArchiveSpec(name="ev", stream=stream, bucket="archive")
    job = CaptureJob(spec, stream_state(link, stream), (("2026-11-21-07:00", 1),), options(cluster), store)
    outcomes = RangeCapture(job, SeqRange(1, count), link).outcomes()
    metas = [outcome for outcome in outcomes if isinstance(outcome, ChunkMeta)]
    return [Chunk(n, meta, datetime.now(UTC), None) for n, meta in enumerate(metas, 1)]


def replay_into(cluster, link, stream, target, store, *, batched=False):
    into = ReplayTarget(stream_state(link, target).incarnation, 1)
    spec = ReplaySpec("ev", f"{target}.>", Selection(subjects=(f"{stream}.>",)))
    return ReplayJob("0123456789abcdef", 1, spec, (into,), options(cluster), store, batched)


@pytest.mark.parametrize("settings", [{}, {"allow_atomic": True}], ids=["single", "atomic"])
def test_a_replay_beside_another_publisher_leaves_its_target_alive(cluster, link, file_store, settings):
    """A replica that must refuse an expected id stops for good: no message may expect one."""
    stream, count = new_stream(link), 2_000
    chunks = archived(cluster, link, stream, count, file_store)
    target = f"T{stream}"
    create_stream(link, {"name": target, "subjects": [f"{target}.>"], "num_replicas": 3, **settings})
    job, stopped, begun = replay_into(cluster, link, stream, target, file_store), threading.Event(), threading.Event()

    def neighbour():
        with Publisher(options(cluster)) as publisher:
            while not stopped.is_set():
                publisher.publish(pa.array([f"{target}.other"]), None, pa.array([b"another's"]))
                publisher.flush()
                begun.set()

    thread = threading.Thread(target=neighbour)
    thread.start()
    try:
        begun.wait(10)
        with Link(options(cluster)) as own:
            answers = list(Republisher(Share(job, tuple(chunks), 0, 1), own).results())
    finally:
        stopped.set()
        thread.join()
    assert sum(answer.published for answer in answers if isinstance(answer, ChunkResult)) == count
    state = stream_state(link, target)
    batches = read_batches(options(cluster), ReadSpec(state.incarnation, SeqRange(1, state.last_seq)))
    stored = [data for batch in batches for data in batch.column("data").to_pylist()]
    assert [int(data) for data in stored if data != b"another's"] == list(range(count))
    assert b"another's" in stored[stored.index(b"0") :]


@pytest.mark.parametrize("setting", ["allow_atomic", "allow_batched"])
def test_batches_may_be_allowed_while_a_stream_is_in_use(cluster, link, stream, setting):
    """As a plan advises: by a change of the stream beside its publishers."""
    config = {"name": f"T{stream}", "subjects": [f"T{stream}.>"], "num_replicas": 3}
    create_stream(link, config)
    with Publisher(options(cluster)) as other:
        other.publish(*messages(f"T{stream}", range(1000)))

        async def update(client):
            await request(client, f"STREAM.UPDATE.T{stream}", {**config, setting: True})

        link.call(update)
        with Publisher(options(cluster), mode="atomic" if setting == "allow_atomic" else "batch") as publisher:
            publisher.publish(*messages(f"T{stream}", range(1000, 3000)))
        other.publish(*messages(f"T{stream}", range(3000, 3500)))
    numbers = read(link, f"T{stream}", cluster)
    assert sorted(numbers) == list(range(3500))
    assert [n for n in numbers if 1000 <= n < 3000] == list(range(1000, 3000))


def test_atomic_batches_reach_mirrors_and_streams_that_source(cluster, link, stream):
    """The lines of a batch are stored with its messages."""
    create_stream(link, {"name": f"M{stream}", "mirror": {"name": stream}, "num_replicas": 3})
    create_stream(link, {"name": f"S{stream}", "sources": [{"name": stream}], "num_replicas": 3, "allow_atomic": True})
    create_stream(link, {"name": f"O{stream}", "sources": [{"name": stream}], "num_replicas": 1})
    with Publisher(options(cluster), mode="atomic") as publisher:
        publisher.publish(*messages(stream, range(2500)))
    until = time.monotonic() + 20
    for name in (f"M{stream}", f"S{stream}", f"O{stream}"):
        while stream_state(link, name).last_seq < 2500 and time.monotonic() < until:
            time.sleep(0.1)
        assert read(link, name, cluster) == list(range(2500))


def test_messages_that_expect_a_sequence_leave_a_hole_beside_another_publisher(cluster, link, stream):
    """Why a replay does not send a window of them: one is refused, and the next one fits again."""
    block = "NATS/1.0\r\nNats-Expected-Last-Sequence: {}\r\n\r\n"
    frames = b""
    for n in range(5):
        if n == 2:
            frames += b"PUB %b.other 1\r\nx\r\n" % stream.encode()
        head = block.format(n).encode()
        frames += b"HPUB %b.a %d %d\r\n%b%d\r\n" % (stream.encode(), len(head), len(head) + 1, head, n)

    async def send(client):
        client.send(frames)
        await client.flush()

    link.call(send)
    await_stored(link, stream)
    state = stream_state(link, stream)
    batches = read_batches(options(cluster), ReadSpec(state.incarnation, SeqRange(1, state.last_seq)))
    assert [data for batch in batches for data in batch.column("data").to_pylist()] == [b"0", b"1", b"x", b"3", b"4"]


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"allow_batched": True}, 30_000),
        ({"allow_atomic": True}, 30_000),
        ({"allow_atomic": True, "max_msgs_per_subject": 1_000_000}, 30_000),
        ({}, 4_000),
        ({"max_msgs_per_subject": 1_000_000}, 4_000),
    ],
    ids=["batches", "atomic", "atomic removes", "keeps", "removes"],
)
def test_a_replay_while_leaders_change(cluster, link, file_store, settings, count):
    """Messages that the old leader had not yet passed on are lost, and those that follow are not stored: in order."""
    stream = new_stream(link)
    chunks = archived(cluster, link, stream, count, file_store)
    target = f"T{stream}"
    create_stream(link, {"name": target, "subjects": [f"{target}.>"], "num_replicas": 3, **settings})
    job = replay_into(cluster, link, stream, target, file_store, batched="allow_batched" in settings)
    ended = threading.Event()

    def trouble():
        for part in (0.2, 0.4, 0.6):
            with suppress(SourceError):  # a machine that is busy leaves a cluster without leaders for longer
                while not ended.is_set() and stream_state(link, target).last_seq < part * count:
                    time.sleep(0.005)
                change_leader(cluster, link, target, "steps down")

    thread = threading.Thread(target=trouble)
    thread.start()
    results, refused, began = [], "", time.monotonic()
    try:
        for attempt in itertools.count(1):  # a replay that gave up waiting for a leader is run again
            left = tuple(chunks[len(results) :])
            try:
                with Link(options(cluster)) as own:
                    for result in Republisher(Share(replace(job, attempt=attempt), left, 0, 1), own).results():
                        results.append(result)
            except (Interrupted, SourceError) as error:
                refused = str(error)
            if len(results) == len(chunks) or time.monotonic() > began + 110:
                break
            time.sleep(0.5)
    finally:
        ended.set()
        thread.join()
    assert sum(r.published + r.found for r in results) == count, refused
    assert read(link, target, cluster) == list(range(count))


def test_reading_while_a_replica_catches_up(tmp_path, monkeypatch):
    """A consumer is put on a replica drawn at random, also on one that has a part of the stream, or nothing yet."""
    count, pending = 6 * COUNT, []
    create = consumer.RangeConsumer._create

    async def create_and_note(reading):
        created = await create(reading)
        pending.append(created["num_pending"])
        return created

    monkeypatch.setattr(consumer.RangeConsumer, "_create", create_and_note)
    # A server that catches up gets a kilobyte at a time, so that it takes more than a second for what is small.
    with three_servers(tmp_path, "max_outstanding_catchup: 1KB") as servers:
        with Link(options(servers)) as link:
            stream = new_stream(link)
            with Publisher(options(servers)) as publisher:
                publisher.publish(*messages(stream, range(count)))
            spec = ReadSpec(stream_state(link, stream).incarnation, SeqRange(count - 99, count))
        for _ in range(6):  # now and then it has caught up before it is given a consumer
            with Link(options(servers)) as link:
                lagging = servers[(int(leader(link, stream)[1:]) + 1) % 3]
            lagging.stop()
            shutil.rmtree(lagging.folder / "data")
            lagging.start()
            until = time.monotonic() + 4
            while min(pending, default=100) == 100 and time.monotonic() < until:
                # Short reads of what the replica gets last: many are over before it has it.
                batches = read_batches(options([s for s in servers if s is not lagging]), spec)
                assert sum(batch.num_rows for batch in batches) == 100
            if min(pending) < 100:
                break
    assert min(pending) < 100, "no consumer was put on the replica while it lagged"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """Three servers of their own, a stream of 30,000 messages, and the server whose disk lost some of them. It serves
    what is left of its copy without a word, and numbers that without a hole."""
    count = 3 * COUNT
    with three_servers(tmp_path_factory.mktemp("damaged")) as servers:
        with Link(options(servers)) as link:
            stream = new_stream(link)
            with Publisher(options(servers)) as publisher:
                publisher.publish(messages(stream, range(count))[0], None, pa.array([b"x" * 600] * count))
            bad = servers[(int(leader(link, stream)[1:]) + 1) % 3]
            wait_current(link, stream)
        bad.stop()
        block = next((bad.folder / "data").rglob(f"{stream}/msgs/1.blk"))
        with block.open("r+b") as file:
            file.seek(block.stat().st_size // 2)
            file.write(bytes(5000))
        bad.start()
        with Link(options(servers)) as link:
            wait_current(link, stream)
            yield servers, bad, stream_state(link, stream)


def test_a_replica_whose_disk_lost_messages_is_not_read(damaged):
    """Absent is what the leader has not."""
    servers, _, state = damaged
    spec = ReadSpec(state.incarnation, SeqRange(1, state.last_seq))
    # A server draws the replica: with three of them, one of twelve reads would get the bad one nearly always.
    for _ in range(12):
        assert sum(batch.num_rows for batch in read_batches(options(servers), spec)) == state.last_seq


def test_a_durable_on_a_replica_whose_disk_lost_messages_proves_no_absence(damaged, file_store, monkeypatch):
    acknowledged_one_by_one(monkeypatch)
    servers, bad, state = damaged
    settings = {"filters": (), "max_ack_pending": 100_000, "ack_wait_s": 30, "first_seq": 1, "description": ""}
    with Link(options(servers)) as link:
        drawn = (make_durable(link, state.name, f"d{n}", **settings) for n in range(100))
        durable = next(durable for durable in drawn if durable.server == bad.folder.name)
    spec = ArchiveSpec("ev", state.name, "archive", mode="consumer", durable=durable.name)
    limits = PullLimits(100_000, 64 << 20, state.last_seq, 1)
    job = TakeJob(spec, state, durable, Deliveries(0, 0), (), (), limits, 100_000, options(servers), file_store)
    outcomes = list(TakeCapture(job).outcomes())
    chunks = [outcome for outcome in outcomes if isinstance(outcome, ChunkMeta)]
    assert sum(chunk.messages for chunk in chunks) < state.last_seq
    assert not [outcome for outcome in outcomes if isinstance(outcome, Gap)]
    assert not any(chunk.absent for chunk in chunks)


def wait_current(link, stream):
    async def ask(client):
        return (await request(client, f"STREAM.INFO.{stream}"))["cluster"].get("replicas") or [{}]

    for _ in range(200):
        if all(replica.get("current") and not replica.get("offline") for replica in link.call(ask)):
            return
        time.sleep(0.05)
    raise AssertionError("A replica does not catch up")


@pytest.mark.needs_nats("2.15")
def test_of_a_consumer_of_a_cluster_the_floor_is_known(cluster, link, stream):
    """Its backup has no more, so it is not asked for."""
    with Publisher(options(cluster)) as publisher:
        publisher.publish(*messages(stream, range(9)))
    app = Application(cluster[0].url, stream, "app")
    app.make(ack_policy="explicit")
    app.take(5, acked=[1, 3])
    found = durables_of(link, stream)
    (one,) = found.consumers
    assert (one.exact, one.delivered.stream, one.ack_floor.stream, found.problem) == (False, 5, 1, None)
