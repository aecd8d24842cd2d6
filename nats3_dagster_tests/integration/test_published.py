"""What a target holds of a replay, asked of the target: nothing that was on its way to it overtakes the answer."""

import numpy as np
import pytest

from nats3_dagster.errors import StreamChanged
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ReplaySpec, ReplayTarget, SeqRange
from nats3_dagster.objects import StoreOptions
from nats3_dagster.replay.job import ReplayJob
from nats3_dagster.replay.published import ask_targets

REPLAY, TOKEN, COUNT = "0123456789abcdef", "20261121T000000.000000000Z", 5000


def job_of(nats, link, *streams):
    targets = tuple(
        ReplayTarget(state.incarnation, state.last_seq + 1) for state in (stream_state(link, s) for s in streams)
    )
    spec = ReplaySpec("a", "back.>")
    return ReplayJob(REPLAY, 2, spec, targets, nats.options, StoreOptions("file:///nowhere"), False)


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
        published = ask_targets(link, job, "back.>")
        found = published.within(TOKEN, SeqRange(1, 10 * COUNT))
        assert found is not None
        assert np.array_equal(found, np.arange(1, (turn + 1) * COUNT + 1))
    assert wire.state("BACK")["last_seq"] == 4 * COUNT


def test_in_every_target(nats, wire, link):
    wire.create_stream("A", "back.a")
    wire.create_stream("B", "back.b")
    job = job_of(nats, link, "A", "B")
    burst(link, "back.a", 1)
    burst(link, "back.b", COUNT + 1)
    found = ask_targets(link, job, "back.>").within(TOKEN, SeqRange(1, 10 * COUNT))
    assert found is not None
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
        found = ask_targets(link, job, "back.>").within(TOKEN, SeqRange(1, 10 * COUNT))
        assert found is not None
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
