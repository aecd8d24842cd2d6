"""Header blocks of any bytes on real servers: they come back, and a resumed replay knows them."""

import pyarrow as pa
import pytest

from nats3_dagster.model import ReplaySpec, Selection
from nats3_dagster.replay import attempt
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.messages.headers import original_headers
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived, driven, pending, published
from nats3_dagster_tests.support.wire import Wire

BLOCKS = [
    b"garbage",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 503 No Way\r\nA: b\r\n\r\n",
    b"NATS/1.0\nA: b\r\n\r\n",
    b"NATS/1.0\nA: b\n\n",
    b"NATS/1.0\r\nA: b\r\n",
    b"NATS/1.0\r\n",
    b"NATS/1.0\r\n\r\n",
    b"A: b\r\n\r\n",
    b"\xff\x00",
    b"NATS/1.0\r\nA: b\r\n\r\n",
]


@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.needs_nats("2.14"))])
def test_they_come_back_and_are_published_once(workspace: Workspace, wire: Wire, bucket: str, batched: bool) -> None:
    wire.create_stream("EV", "ev.>")
    # Some servers strip a status when they store a message.
    wire.publish([("ev.a", block, b"%d" % n) for n, block in enumerate(BLOCKS)])
    stored = [m.headers for m in wire.messages("EV")]
    # No duplicate window may help.
    wire.create_stream("BACK", "back.>", duplicate_window=100_000_000, **({"allow_batched": True} if batched else {}))
    archived(workspace, wire, "EV", bucket)
    replay, planned = begin(workspace, ReplaySpec("a", "back.>", Selection(subjects=("ev.>",))))
    assert planned.batched == batched
    started = attempt.start(workspace, replay.id)
    # Killed before anything was recorded.
    assert sum(result.published for result in published(started.job, pending(workspace, replay.id))) == len(BLOCKS)
    done = driven(workspace, replay.id)
    assert (done.published, done.found) == (0, len(BLOCKS))
    back = list(wire.messages("BACK"))
    assert [m.data for m in back] == [b"%d" % n for n in range(len(BLOCKS))]
    blocks = original_headers(pa.array([m.headers for m in back], pa.binary())).to_pylist()
    assert [block or b"" for block in blocks] == stored
