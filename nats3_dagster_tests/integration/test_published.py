"""What a target holds of a replay, asked of the target: nothing that was on its way to it overtakes the answer."""

from dataclasses import replace

import numpy as np
import pytest

from nats3_dagster.errors import StreamChanged, TargetError
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ReplaySpec, ReplayTarget, SeqRange
from nats3_dagster.objects import StoreOptions
from nats3_dagster.replay.job import DoneRange, ReplayJob
from nats3_dagster.replay.messages.published import ask_targets
from nats3_dagster.replay.targets import check_kept

REPLAY, TOKEN, COUNT = "0123456789abcdef", "20261121T000000.000000000Z", 5000


def job_of(nats, link, *streams):
    targets = tuple(
        ReplayTarget(state.incarnation, state.last_seq + 1) for state in (stream_state(link, s) for s in streams)
    )
    spec = ReplaySpec("a", "back.>")
    return ReplayJob(REPLAY, 2, spec, targets, nats.options, StoreOptions("file:///nowhere"), False)


def sequences(published):
    """Of all that may be published, those that are."""
    every = np.arange(1, 10 * COUNT + 1)
    return every[published.has(TOKEN, every)]


def burst(link, subject, first, count=COUNT):
    """As a publisher that was killed leaves it: sent, read by the server, and no answer waited for."""
    frames = []
    for seq in range(first, first + count):
        block = (
            f"NATS/1.0\r\nNats3-Replay: {REPLAY}\r\nNats3-Stream: S\r\nNats3-Incarnation: {TOKEN}\r\n"
            f"Nats3-Sequence: {seq}\r\n\r\n"
        ).encode()
        frames.append(b"HPUB %b %d %d\r\n%b\r\n" % (subject.encode(), len(block), len(block), block))

    async def send(client):
        client.send(b"".join(frames))
        await client.flush()

    link.call(send)


@pytest.mark.parametrize("subjects", [["back.>"], ["other", "back.*.b", "back.c"]])
def test_what_was_under_way_is_found(nats, wire, link, subjects):
    wire.api("STREAM.CREATE.BACK", name="BACK", subjects=subjects, storage="file")
    job = job_of(nats, link, "BACK")
    for turn in range(4):
        burst(link, "back.a.b", turn * COUNT + 1)
        found = sequences(ask_targets(link, job, "back.>"))
        assert np.array_equal(found, np.arange(1, (turn + 1) * COUNT + 1))
    assert wire.state("BACK")["last_seq"] == 4 * COUNT


def test_in_every_target(nats, wire, link):
    wire.create_stream("A", "back.a")
    wire.create_stream("B", "back.b")
    job = job_of(nats, link, "A", "B")
    burst(link, "back.a", 1)
    burst(link, "back.b", COUNT + 1)
    found = sequences(ask_targets(link, job, "back.>"))
    assert np.array_equal(found, np.arange(1, 2 * COUNT + 1))


@pytest.mark.needs_nats("2.10")
@pytest.mark.parametrize(
    "transform", [{"src": "back.>", "dest": "stored.>"}, {"src": "back.*.b", "dest": "stored.{{wildcard(1)}}"}]
)
def test_in_a_target_that_stores_other_subjects(nats, wire, link, transform):
    wire.create_stream("BACK", "back.>", "other", subject_transform=transform)
    job = job_of(nats, link, "BACK")
    for turn in range(4):
        wire.publish([("other", b"", b"")] * 3)
        # The last messages are still on their way: the probe must reach the stream under a subject it listens on.
        burst(link, "back.a.b" if turn % 2 else "back.c", turn * COUNT + 1)
        found = sequences(ask_targets(link, job, "back.>"))
        assert np.array_equal(found, np.arange(1, (turn + 1) * COUNT + 1))
    assert wire.state("BACK")["messages"] == 4 * (COUNT + 3)
    message = wire.api("STREAM.MSG.GET.BACK", seq=wire.state("BACK")["last_seq"])["message"]
    assert message["subject"].startswith("stored.")


def test_a_target_that_was_made_again(nats, wire, link):
    wire.create_stream("A", "back.a")
    job = job_of(nats, link, "A")
    wire.api("STREAM.DELETE.A")
    wire.create_stream("A", "back.a")
    with pytest.raises(StreamChanged, match="deleted and made again"):
        ask_targets(link, job, "back.>")


# Targets that remove messages


def acknowledge(link, stream, seqs):
    """A consumer acknowledges these messages, of all that it gets."""

    async def work(client):
        js = client.jetstream()
        subscription = await js.pull_subscribe("back.>", durable="app", stream=stream)
        while True:
            try:
                messages = await subscription.fetch(100, timeout=0.5)
            except TimeoutError:
                return
            for message in messages:
                if message.metadata.sequence.stream in seqs:
                    await message.ack_sync()

    link.call(work)


def consumer(wire, stream):
    config = {"durable_name": "app", "ack_policy": "explicit"}
    wire.api(f"CONSUMER.DURABLE.CREATE.{stream}.app", stream_name=stream, config=config)


def test_one_unacknowledged_message_is_no_proof_of_the_newest(nats, wire, link):
    """The target's newest visible message is 10; messages up to 100 were published and are gone."""
    wire.create_stream("BACK", "back.>", retention="interest")
    consumer(wire, "BACK")
    job = job_of(nats, link, "BACK")
    burst(link, "back.a", 1, 100)
    assert sequences(ask_targets(link, job, "back.>")).tolist() == list(range(1, 101))
    acknowledge(link, "BACK", set(range(1, 101)) - {10})
    with pytest.raises(TargetError, match="cannot be known"):
        ask_targets(link, job, "back.>")


def test_a_work_queue_is_asked(nats, wire, link):
    wire.create_stream("BACK", "back.>", retention="workqueue")
    consumer(wire, "BACK")
    job = job_of(nats, link, "BACK")
    assert sequences(ask_targets(link, job, "back.>")).tolist() == []  # nothing was stored
    burst(link, "back.a", 1, 100)
    acknowledge(link, "BACK", set(range(1, 50)))
    assert sequences(ask_targets(link, job, "back.>")).tolist() == list(range(1, 101))
    wire.api("STREAM.MSG.DELETE.BACK", seq=100)  # as by an acknowledgement
    with pytest.raises(TargetError, match="cannot be known"):
        ask_targets(link, job, "back.>")


def test_a_key_that_somebody_else_wrote_after_us(nats, wire, link):
    """Our newest message is gone: its value must not be written over the application's."""
    wire.create_stream("BACK", "back.>", max_msgs_per_subject=1)
    job = job_of(nats, link, "BACK")
    burst(link, "back.a", 99, 1)
    wire.publish([("back.c", b"", b"other")] * 100)
    burst(link, "back.b", 100, 1)
    assert sequences(ask_targets(link, job, "back.>")).tolist() == list(range(1, 101))
    wire.publish([("back.b", b"", b"newer")])
    with pytest.raises(TargetError, match="cannot be known"):
        ask_targets(link, job, "back.>")


def test_a_target_from_which_a_message_was_deleted(nats, wire, link):
    wire.create_stream("BACK", "back.>")
    job = job_of(nats, link, "BACK")
    burst(link, "back.a", 1, 100)
    wire.api("STREAM.MSG.DELETE.BACK", seq=50)
    # One publisher in order: what lies before the newest message was published.
    assert sequences(ask_targets(link, job, "back.>")).tolist() == list(range(1, 101))
    with pytest.raises(TargetError, match="cannot be known"):
        ask_targets(link, replace(job, spec=replace(job.spec, order="subject")), "back.>")


def test_a_target_that_lost_what_it_acknowledged(nats, wire, link):
    wire.create_stream("BACK", "back.>")
    job = job_of(nats, link, "BACK")
    burst(link, "back.a", 1, 90)
    done = (DoneRange(TOKEN, SeqRange(1, 50), 50, 50), DoneRange(TOKEN, SeqRange(51, 100), 50, 100))
    assert len(sequences(ask_targets(link, job, "back.>", done[:1]))) == 90
    with pytest.raises(TargetError, match="acknowledged 50 messages of the sequences 51-100 and holds 40"):
        ask_targets(link, job, "back.>", done)


def test_a_target_that_removes_and_lost_what_it_acknowledged(nats, wire, link):
    """As after a power cut: its newest message of the replay lies in the middle of what is done."""
    wire.create_stream("BACK", "back.>", max_msgs_per_subject=1000)
    job = job_of(nats, link, "BACK")
    burst(link, "back.a", 1, 90)
    done = DoneRange(TOKEN, SeqRange(1, 100), 90, 90)
    assert len(sequences(ask_targets(link, job, "back.>", [done]))) == 90
    with pytest.raises(TargetError, match="up to sequence 95 of the archived stream, and its newest .* is 90: it lost"):
        ask_targets(link, job, "back.>", [replace(done, messages=95, last_seq=95)])


def test_a_purge_of_a_target_that_keeps_its_newest(nats, wire, link):
    """A stream that removes by max_msgs alone is as full as it may be; one that was purged is not."""
    wire.create_stream("BACK", "back.>", max_msgs=10)
    job = job_of(nats, link, "BACK")
    wire.publish([("back.a", b"", b"")] * 30)
    check_kept(link, job.targets, {"BACK": 30})
    wire.api("STREAM.PURGE.BACK", keep=9)
    with pytest.raises(TargetError, match=r"began at 1: it has 9 messages of 10 \(max_msgs\), so it was purged"):
        check_kept(link, job.targets, {"BACK": 30})
    wire.publish([("back.a", b"", b"")])  # the limit would have removed those that were purged
    check_kept(link, job.targets, {"BACK": 31})


@pytest.mark.parametrize("limit", [{"max_age": 10**12}, {"max_bytes": 10**6}, {"max_msgs_per_subject": 5}])
def test_a_purge_that_cannot_be_told_from_what_the_target_removes(nats, wire, link, limit):
    """The plan says so (test_replay_refusals)."""
    wire.create_stream("BACK", "back.>", max_msgs=10, **limit)
    job = job_of(nats, link, "BACK")
    wire.publish([("back.a", b"", b"")] * 3)
    wire.api("STREAM.PURGE.BACK")
    check_kept(link, job.targets, {"BACK": 3})


def test_marks_that_are_not_ours(nats, wire, link):
    """Who may publish into a target can write any header."""
    wire.create_stream("BACK", "back.>")
    job = job_of(nats, link, "BACK")
    mark = f"NATS/1.0\r\nNats3-Replay: {REPLAY}\r\n".encode()
    life = b"Nats3-Stream: S\r\nNats3-Incarnation: %b\r\nNats3-Sequence: %b\r\n\r\n"
    forged = [b"\r\n", life % (b"\xff", b"1"), life % (TOKEN.encode(), b"9" * 25), life % (TOKEN.encode(), b"x")]
    wire.publish([("back.a", mark + rest, b"") for rest in forged])
    assert sequences(ask_targets(link, job, "back.>")).tolist() == []
