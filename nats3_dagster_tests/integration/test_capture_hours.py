"""Which hours a capture is asked for: each must take something, whatever clocks did and what was deleted."""

import time
from collections.abc import Callable

import pytest

from nats3_dagster.archive.captures.due import due
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.health.nats_health import check
from nats3_dagster.archive.source.backlog import Backlog, backlog
from nats3_dagster.archive.source.condition import condition
from nats3_dagster.archive.source.loss import time_to_loss
from nats3_dagster.archive.source.windows import hours_to_capture
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ArchiveSpec, Gap, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats

MINUTE_NS = 60 * 10**9
# Minutes from the beginning of an hour two days ago, message by message.
CLOCKS = {
    "steady": [10, 50, 70, 110, 130],
    "back over the hour": [50, 61, 62, 58, 59, 63, 64],
    "back and on in the hour before": [61, 62, 58, 59, 59, 59],
    "back by a day": [1500, 1501, 60, 61, 62, 121],
    "ahead by a day for one message": [10, 1450, 11, 12, 70],
    "to and fro": [10, 130, 20, 190, 30, 70, 5, 250, 260],
}


def take(workspace: Workspace, found: Archive, hour: str) -> int:
    """What a capture of the hour would account for, put down as a gap; how many sequences."""
    planned = plan_hours(workspace, found, [hour])
    gaps = list(planned.gaps)
    if planned.missing:
        gaps.append(Gap(planned.job.state.incarnation, planned.missing, "unselected"))
    workspace.catalog.chunks.commit(found, [], gaps)
    return sum(gap.size for gap in gaps)


@pytest.mark.needs_nats("2.15")
@pytest.mark.parametrize("storage", ["file", "memory"])
@pytest.mark.parametrize("minutes", CLOCKS.values(), ids=CLOCKS)
def test_every_round_takes_something_until_nothing_is_lacking(
    settings: Settings, workspace: Workspace, bucket: str, minutes: list[int], storage: str
) -> None:
    start = hour_start(hour_of(time.time_ns() - 48 * HOUR_NS))
    past = [Past(n + 1, start + minute * MINUTE_NS, "ev.a", b"", b"x") for n, minute in enumerate(minutes)]
    restore_stream(settings.nats, "EV", ["ev.>"], past, storage=storage)
    archive(settings, bucket)
    catalog = workspace.catalog
    found = catalog.archives.get("events")
    state = open_source(workspace, found).state
    for _ in minutes:
        hours = hours_to_capture(workspace, found, state)
        waiting = backlog(workspace, found, state, time.time_ns())
        assert waiting.ended == tuple(hours)
        if not hours:
            break
        assert take(workspace, found, hours[0]) > 0, hours
        assert take(workspace, found, hours[-1]) > 0 or len(hours) == 1, hours
    assert catalog.coverage.missing(found, state.incarnation, SeqRange(1, len(minutes))) == ()


DELETED: dict[str, Callable[[Wire], object]] = {
    "the oldest that waits": lambda wire: _delete(wire, 41),
    "the newest": lambda wire: _delete(wire, 59, 60),
    "all but one that wait": lambda wire: _delete(wire, *range(41, 55), *range(56, 61)),
    "all that wait": lambda wire: _delete(wire, *range(41, 61)),
    "all": lambda wire: wire.api("STREAM.PURGE.EV"),
    "the head, that waits as well": lambda wire: wire.api("STREAM.PURGE.EV", seq=50),
}


def _delete(wire: Wire, *seqs: int) -> None:
    for seq in seqs:
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)


@pytest.mark.needs_nats("2.15")
@pytest.mark.parametrize("delete", DELETED.values(), ids=DELETED)
def test_what_was_deleted_before_its_capture_is_asked_for_once(
    settings: Settings, workspace: Workspace, bucket: str, delete: Callable[[Wire], object]
) -> None:
    # Two days, so that the hours of the whole stream would be more than a run takes.
    start = hour_start(hour_of(time.time_ns() - 48 * HOUR_NS))
    past = [Past(n + 1, start + n * HOUR_NS // 2, "ev.a", b"", b"x") for n in range(60)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    catalog = workspace.catalog
    found = catalog.archives.get("events")
    with Wire(settings.nats.servers[0]) as wire:
        catalog.chunks.commit(
            found, [], [Gap(open_source(workspace, found).state.incarnation, (SeqRange(1, 40),), "missing")]
        )
        delete(wire)
    state = open_source(workspace, found).state
    hours = hours_to_capture(workspace, found, state)
    assert 1 <= len(hours) <= 11
    assert sum(take(workspace, found, hour) for hour in hours) == 20
    assert hours_to_capture(workspace, found, state) == []
    assert backlog(workspace, found, state, time.time_ns()) == Backlog(state)


def test_a_loss_is_due_though_nothing_waits(settings: Settings, workspace: Workspace, bucket: str) -> None:
    spec = ArchiveSpec("events", "EV", bucket)
    catalog = workspace.catalog
    with Wire(settings.nats.servers[0]) as wire:
        wire.create_stream("EV", "ev.>")
        archive(settings, bucket)
        wire.publish([("ev.a", b"", b"x")] * 7)
        wire.api("STREAM.PURGE.EV")
    found = catalog.archives.get("events")
    now = time.time_ns()
    state = open_source(workspace, found).state
    waiting = backlog(workspace, found, state, now)
    assert waiting == Backlog(state, open=hour_of(now), gone=7)
    wanted = due(spec, waiting, 24)
    assert wanted.hours == (hour_of(now),)
    assert wanted.why == "7 sequences went before they were captured"
    assert take(workspace, found, hour_of(now)) == 7
    assert backlog(workspace, found, state, now) == Backlog(state)


def test_the_oldest_that_waits_has_an_age_though_the_one_before_was_deleted(
    settings: Settings, workspace: Workspace, bucket: str
) -> None:
    catalog = workspace.catalog
    with Wire(settings.nats.servers[0]) as wire:
        wire.create_stream("EV", "ev.>")
        archive(settings, bucket)
        wire.publish([("ev.a", b"", b"x")] * 7)
        take(workspace, catalog.archives.get("events"), hour_of(time.time_ns()))
        wire.publish([("ev.a", b"", b"x")] * 7)
        _delete(wire, 8, 9)
    found = catalog.archives.get("events")
    waiting = backlog(workspace, found, open_source(workspace, found).state, time.time_ns() + MINUTE_NS)
    assert waiting.messages == 7 or waiting.ended
    assert 60 < (waiting.age_s or waiting.behind_s) < 75


def test_a_clock_ahead_of_ours_is_waited_for(settings: Settings, workspace: Workspace, bucket: str) -> None:
    catalog = workspace.catalog
    with Wire(settings.nats.servers[0]) as wire:
        wire.create_stream("EV", "ev.>")
        archive(settings, bucket)
        wire.publish([("ev.a", b"", b"x")] * 7)
    found = catalog.archives.get("events")
    state = open_source(workspace, found).state
    waiting = backlog(workspace, found, state, time.time_ns() - 2 * HOUR_NS)
    assert (waiting.ended, waiting.open, waiting.behind, waiting.ahead) == ((), None, 7, 7)
    assert 119 * 60 < waiting.ahead_s <= 120 * 60
    said = (
        "7 messages are of an hour that has not begun by this host's clock: the clock of NATS is 120 minutes ahead. "
        "They are captured when that hour has begun; set the clocks right"
    )
    assert due(found.spec, waiting, 24).why == said
    assert time_to_loss(waiting).text == f"No limit of the stream deletes messages. {said}"
    assert (time_to_loss(waiting).level, waiting.behind_s < 60) == ("warn", True)
    assert waiting.behind_s >= 0


@pytest.mark.needs_nats("2.15")
def test_a_message_of_1970_is_one_hour_and_not_half_a_million(
    settings: Settings, workspace: Workspace, bucket: str
) -> None:
    """A device that stored a message before its clock was set."""
    start = hour_start(hour_of(time.time_ns() - 60 * HOUR_NS))
    times = [10 * MINUTE_NS, *(start + hour * HOUR_NS for hour in (0, 1, 3, 40)), time.time_ns()]
    past = [Past(n + 1, time_ns, "ev.a", b"", b"x") for n, time_ns in enumerate(times)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    found = workspace.catalog.archives.get("events")
    hours = hours_to_capture(workspace, found, open_source(workspace, found).state)
    # A quiet hour inside of a day with messages is named as well.
    expected = [times[0], *(start + hour * HOUR_NS for hour in (0, 1, 2, 3, 40)), times[-1]]
    within_a_day = {hour_of(start + hour * HOUR_NS) for hour in range(41, 60)}
    assert [hour for hour in hours if hour not in within_a_day] == [hour_of(time_ns) for time_ns in expected]
    for hour in hours:
        take(workspace, found, hour)
    assert hours_to_capture(workspace, found, open_source(workspace, found).state) == []


@pytest.mark.needs_nats("2.15")
def test_messages_of_the_future_are_said_wherever_an_archive_is_looked_at(
    settings: Settings, workspace: Workspace, bucket: str
) -> None:
    now = time.time_ns()
    past = [Past(n + 1, now + (n - 1) * 3 * HOUR_NS, "ev.a", b"", b"x") for n in range(3)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    found = workspace.catalog.archives.get("events")
    waiting = condition(workspace, found).waiting
    assert waiting
    assert (waiting.behind, waiting.ahead) == (3, 1)
    assert "1 messages are of an hour that has not begun by this host's clock" in time_to_loss(waiting).text
    assert backlog(workspace, found, open_source(workspace, found).state, now).ahead == 1
    (warned,) = [f for f in check(workspace) if "events" in f.what]
    assert (warned.status, "the clock of NATS is 180 minutes ahead" in warned.what) == ("warn", True)
