"""How near an archive is to loss: one answer for sensor, check and doctor."""

import time

import pytest

from nats3_dagster.archive.captures.due import due
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.backlog import Backlog, backlog
from nats3_dagster.archive.source.loss import Loss, time_to_loss
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import Archive, ArchiveSpec, Gap, Incarnation, SeqRange, StreamState
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire


def state_of(messages: int, **config: object) -> StreamState:
    return StreamState(Incarnation("EV", 1), 1, messages, 0, 0, messages, messages * 100, config)


@pytest.mark.parametrize(
    ("config", "behind", "first", "loss"),
    [
        ({}, 950, 51, Loss()),
        ({"max_msgs": 1000}, 950, 51, Loss(0.95, "max_msgs")),
        # A stream that is full refuses new messages: it deletes none.
        ({"max_msgs": 1000, "discard": "new"}, 950, 51, Loss()),
        ({"max_bytes": 100_000, "discard": "new"}, 950, 51, Loss()),
        ({"max_age": 100 * SECOND_NS, "discard": "new"}, 950, 51, Loss(0.5, "max_age")),
        # One message is missing, and it is the next to be deleted.
        ({"max_msgs": 1000}, 1, 1, Loss(1.0, "max_msgs")),
        ({"max_msgs": 2000}, 1, 1, Loss(0.5, "max_msgs")),
        ({"max_msgs": 1000, "max_bytes": 50_000}, 1, 501, Loss(1.0, "max_bytes")),
    ],
)
def test_what_counts_is_where_the_oldest_uncaptured_message_lies(
    config: dict[str, object], behind: int, first: int, loss: Loss
) -> None:
    waiting = Backlog(state_of(1000, **config), behind=behind, first_seq=first, behind_s=50.0)
    assert time_to_loss(waiting) == loss


def test_a_loss_that_is_not_recorded_yet_is_an_error() -> None:
    loss = time_to_loss(Backlog(state_of(1000, max_msgs=1000), gone=7))
    assert (loss.level, loss.text) == ("error", "The stream has deleted 7 sequences that were not captured")
    assert time_to_loss(Backlog(state_of(1000, max_msgs=1000))).level == "ok"


def test_a_pause_is_a_warning_and_hides_no_error() -> None:
    quiet, half, near = (Backlog(state_of(1000, max_msgs=1000), behind=n, first_seq=1001 - n) for n in (1, 600, 950))
    assert [time_to_loss(b).level for b in (quiet, half, near)] == ["ok", "warn", "error"]
    assert [time_to_loss(b, paused=True).level for b in (quiet, half, near)] == ["paused", "paused", "error"]
    assert time_to_loss(half, paused=True).text == f"Paused: nothing is captured. {time_to_loss(half).text}"
    assert time_to_loss(Backlog(state_of(1000)), paused=True).level == "paused"


def test_an_archive_that_waits_longer_than_its_threshold_is_late() -> None:
    waits = [
        Backlog(state_of(1000, max_msgs=1000), behind=1, first_seq=1000, behind_s=after)
        for after in (4500, 4600, 91000)
    ]
    assert [time_to_loss(one, max_age_s=60).level for one in waits] == ["ok", "warn", "error"]
    assert [time_to_loss(one, max_age_s=60, paused=True).level for one in waits] == ["paused", "paused", "error"]
    assert [time_to_loss(one).level for one in waits] == ["ok"] * 3
    assert time_to_loss(waits[1], max_age_s=60).text.endswith("It waits for 1.3 hours, and a capture is due after 60 s")


@pytest.mark.steady_hour(30)
def test_no_capture_is_due_for_messages_that_the_archive_does_not_select(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    wire.create_stream("EV", "ev.>")
    archive = create(workspace, ArchiveSpec("events", "EV", bucket, subjects=("ev.b", "ev.c"), max_age_s=1))
    wire.publish([("ev.a", b"", b"x")] * 10)

    def asked() -> tuple[int, str]:
        waiting = backlog(workspace, archive, open_source(workspace, archive).state, time.time_ns() + 5 * SECOND_NS)
        found = due(archive.spec, waiting, 1)
        return len(found.hours), found.why

    assert asked() == (0, "10 messages are not the archive's: they are accounted for when the hour has ended")
    wire.publish([("ev.c", b"", b"x")])
    assert asked()[0] == 1


@pytest.fixture
def archive(workspace: Workspace, wire: Wire, bucket: str) -> Archive:
    """Of a stream with 100 messages of at most 100, all captured but the first."""
    wire.create_stream("EV", "ev.>", max_msgs=100)
    archive = create(workspace, ArchiveSpec("events", "EV", bucket))
    wire.publish([("ev.a", b"", b"x")] * 100)
    state = open_source(workspace, archive).state
    workspace.catalog.chunks.commit(archive, [], [Gap(state.incarnation, (SeqRange(2, 100),), "unselected")])
    return archive


def test_a_hole_at_the_head_is_the_same_for_the_check_and_the_doctor(workspace: Workspace, archive: Archive) -> None:
    state = open_source(workspace, archive).state
    loss = time_to_loss(backlog(workspace, archive, state, time.time_ns()))
    assert (loss.used, loss.limit, loss.level) == (1.0, "max_msgs", "error")
    said = [finding.what for finding in check(workspace) if finding.status == "fail"]
    assert said == ["Archive events, stream EV: 1 sequences are not captured, which is 100% of its max_msgs"]


def test_what_is_gone_before_it_was_captured_is_the_same_for_both(
    workspace: Workspace, archive: Archive, wire: Wire
) -> None:
    wire.publish([("ev.a", b"", b"x")] * 2)
    state = open_source(workspace, archive).state
    assert time_to_loss(backlog(workspace, archive, state, time.time_ns())).gone == 1
    said = [finding.what for finding in check(workspace) if finding.status == "fail"]
    assert said == ["Archive events, stream EV: the stream has deleted messages that were not captured"]
