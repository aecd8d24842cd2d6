"""A run that stays: when the next capture is due, and what ends it."""

import threading
import time
from collections.abc import Callable

import pytest

from nats3_dagster.archive.captures import stay
from nats3_dagster.archive.captures.stay import Stay, stays
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, Gap, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.steady_hour(60)


def archive(workspace: Workspace, wire: Wire, bucket: str, max_age_s: int = 1) -> Archive:
    wire.create_stream("EV", "ev.>")
    return create(workspace, ArchiveSpec("events", "EV", bucket, max_age_s=max_age_s))


def this_hour() -> str:
    return hour_of(time.time_ns())


def cover(workspace: Workspace) -> None:
    """Accounts for the stream's last message, as a capture would."""
    state = stream_state(workspace.link, "EV")
    gap = Gap(state.incarnation, (SeqRange(state.last_seq, state.last_seq),), "unselected")
    workspace.catalog.chunks.commit(workspace.catalog.archives.get("events"), [], [gap])


def test_each_capture_is_due_by_the_threshold_and_the_last_by_silence(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stay, "IDLE_S", 1.5)
    staying = Stay(archive(workspace, wire, bucket), this_hour(), lambda: False)
    for _ in range(2):
        wire.publish([("ev.a", b"", b"x")])
        began = time.monotonic()
        assert staying.is_due(workspace)
        # Not before the message is a second old, and not much later.
        assert 0.9 < time.monotonic() - began < 5
        cover(workspace)
    began = time.monotonic()
    assert not staying.is_due(workspace)
    assert time.monotonic() - began > 1.5


def test_a_count_that_is_reached_is_due_before_the_age(workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    spec = ArchiveSpec("events", "EV", bucket, max_age_s=60, max_messages=3)
    found = create(workspace, spec)
    threading.Timer(0.5, wire.publish, ([("ev.a", b"", b"x")] * 3,)).start()
    assert Stay(found, this_hour(), lambda: False).is_due(workspace)


def deleted(workspace: Workspace, wire: Wire) -> None:
    wire.api("STREAM.DELETE.EV")


def made_again(workspace: Workspace, wire: Wire) -> None:
    wire.publish([("ev.a", b"", b"x")])
    cover(workspace)
    deleted(workspace, wire)
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")])


def paused(workspace: Workspace, wire: Wire) -> None:
    workspace.catalog.archives.pause("events")


def slow(workspace: Workspace, wire: Wire) -> None:
    change(workspace, "events", {"max_age_s": stay.MOST_AGE_S + 1})


@pytest.mark.parametrize("event", [deleted, made_again, paused, slow])
def test_what_is_out_of_the_ordinary_ends_the_stay_and_raises_nothing(
    workspace: Workspace, wire: Wire, bucket: str, event: Callable[[Workspace, Wire], None]
) -> None:
    staying = Stay(archive(workspace, wire, bucket, max_age_s=60), this_hour(), lambda: False)
    event(workspace, wire)
    began = time.monotonic()
    assert not staying.is_due(workspace)
    assert time.monotonic() - began < 5


def test_a_run_that_waits_gets_the_place(workspace: Workspace, wire: Wire, bucket: str) -> None:
    looks = iter([False, True])
    staying = Stay(archive(workspace, wire, bucket, max_age_s=2), this_hour(), lambda: next(looks))
    assert not staying.is_due(workspace)
    assert next(looks, None) is None


def test_a_stay_ends_after_its_longest_time(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stay, "LONGEST_S", 0.0)
    staying = Stay(archive(workspace, wire, bucket), this_hour(), lambda: False)
    wire.publish([("ev.a", b"", b"x")])
    assert not staying.is_due(workspace)


def test_only_an_active_archive_with_captures_soon_stays_and_only_in_the_open_hour(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    found = archive(workspace, wire, bucket, max_age_s=stay.MOST_AGE_S)
    assert stays(found, this_hour())
    assert not stays(found, hour_of(time.time_ns() - HOUR_NS))
    assert not stays(workspace.catalog.archives.pause("events"), this_hour())
