"""A live replay that was stopped: what the target's own doing looks like is not taken for what the replay did."""

import time

import pytest

from nats3_dagster.model import ChunkResult
from nats3_dagster.pipeline.worker import publish_share
from nats3_dagster.replay import attempt, control
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.job import shares
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, driven, live, pending, published, replayed
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire


def block(*lines: str) -> bytes:
    return "\r\n".join(["NATS/1.0", *lines, "", ""]).encode()


def published_once(workspace: Workspace, replay_id: str) -> int:
    """Publish all of it as an attempt that dies before it records anything."""
    started = attempt.start(workspace, replay_id)
    return sum(r.published for r in published(started.job, pending(workspace, replay_id)))


@pytest.mark.needs_nats("2.12")
@pytest.mark.parametrize("batched", [False, True])
def test_what_a_schedule_makes_is_not_the_newest_message(
    workspace: Workspace, wire: Wire, bucket: str, batched: bool
) -> None:
    """A message that a schedule makes carries the marks of the schedule."""
    config = {"allow_msg_schedules": True, "allow_msg_ttl": True} | ({"allow_batched": True} if batched else {})
    wire.create_stream("old", "s.>", **config)
    # Later than the archive has the schedule, also on a busy machine.
    at = time.strftime("@at %Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 6))
    wire.publish([("s.0", block(f"Nats-Schedule: {at}", "Nats-Schedule-Target: s.made"), b"0")])
    wire.publish([(f"s.{n}", b"", b"%d" % n) for n in range(1, 10)])
    archived(workspace, wire, "old", bucket)
    wire.api("STREAM.DELETE.old")
    wire.create_stream("new", "s.>", **config)
    replay, _ = begin(workspace, live("s.>", "s.>"))
    assert published_once(workspace, replay.id) == 10
    eventually(lambda: wire.state("new")["last_seq"] == 11, "last_seq of new")  # the schedule has made its message
    done = driven(workspace, replay.id)
    assert (done.published, done.found) == (0, 10)


@pytest.mark.needs_nats("2.11")
def test_a_chunk_of_which_everything_had_ended_is_not_missed(workspace: Workspace, wire: Wire, bucket: str) -> None:
    for name in ("old", "new"):
        wire.create_stream(name, f"{name}.>", allow_msg_ttl=True)
    wire.publish([("old.a", block("Nats-TTL: 10s"), b"1")])  # longer than a capture takes on a busy machine
    archived(workspace, wire, "old", bucket)
    wire.publish([("old.b", b"", b"2")])
    archived(workspace, wire, "old", bucket)
    eventually(lambda: wire.state("old")["messages"] == 1, "messages of old")
    replay, _ = begin(workspace, live("old.>", "new.>"))
    started = attempt.start(workspace, replay.id)
    chunks = pending(workspace, replay.id)
    assert len(chunks) == 2
    results = publish_share(shares(started.job, chunks, 1)[0])
    first = next(iter(results))
    assert isinstance(first, ChunkResult)
    workspace.catalog.replay_chunks.record(replay.id, started.job.attempt, [first])
    del results  # and with it the publisher
    done = driven(workspace, replay.id)
    assert (done.state, done.published, done.expired) == ("succeeded", 1, 1)


@pytest.mark.needs_nats("2.11")
def test_a_chunk_is_kept_of_which_messages_were_left_out(workspace: Workspace, wire: Wire, bucket: str) -> None:
    for name in ("old", "new"):
        wire.create_stream(name, f"{name}.>", allow_msg_ttl=True)
    wire.publish([("old.a", block("Nats-TTL: 10s"), b"1"), ("old.b", b"", b"2")])
    archived(workspace, wire, "old", bucket)
    eventually(lambda: wire.state("old")["messages"] == 1, "messages of old")
    done = replayed(workspace, live("old.>", "new.>", delete_chunks=True))
    assert (done.published, done.expired) == (1, 1)
    assert control.delete_chunks(workspace, done.id) == 0
