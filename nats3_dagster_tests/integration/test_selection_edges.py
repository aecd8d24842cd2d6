"""The ends of a selection: what a real stream still has of it and no capture took is missing, quiet hours are not."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.proof.seal import seal_hours, sealable
from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.next_chunks import NextChunks, is_over, next_chunks
from nats3_dagster.archive.selected.uncovered import lost_of_selection, uncovered
from nats3_dagster.archive.source.backlog import backlog
from nats3_dagster.archive.source.clocks import stream_now_ns
from nats3_dagster.archive.source.observe import source_state
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, format_time, hour_of, hour_start
from nats3_dagster.model import Archive, Gap, ReplaySpec, Selection, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.catalog import chunk
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.replays import dry_run
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]  # 2.15 restores a stream with its times
MINUTE_NS = 60 * 10**9
# The beginning of an hour that ended, four hours ago.
START = hour_start(hour_of(time.time_ns() - 4 * HOUR_NS))
HOURS = tuple(hour_of(START + n * HOUR_NS) for n in range(8))
# Ten messages in each of the hours 0, 1 and 3; hour 2 is quiet, and so is the open one: hour 4, or 5 in a long run.
SEQS = {0: SeqRange(1, 10), 1: SeqRange(11, 20), 3: SeqRange(21, 30)}


@pytest.fixture
def events(settings: Settings, workspace: Workspace, bucket: str) -> Archive:
    past = [
        Past(seq, START + hour * HOUR_NS + (seq - seqs.first + 1) * MINUTE_NS, "ev.a", b"", b"x")
        for hour, seqs in SEQS.items()
        for seq in range(seqs.first, seqs.last + 1)
    ]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    return workspace.catalog.archives.get("events")


def capture(workspace: Workspace, found: Archive, hour: int, upto: int | None = None) -> None:
    """A chunk of the hour's messages, or of those up to a sequence; its object does not matter to a plan."""
    planned = plan_hours(workspace, found, [HOURS[hour]])
    (window,) = planned.spans
    first, last = window.first, upto or window.last
    start = hour_start(HOURS[hour])
    made = chunk(
        first,
        last,
        archive=found.name,
        incarnation=planned.job.state.incarnation,
        hour=HOURS[hour],
        first_ns=start + MINUTE_NS,
        last_ns=start + (last - first + 1) * MINUTE_NS,
        bucket=found.spec.bucket,
        deleted=(),
        subjects={"ev.a": last - first + 1},
    )
    workspace.catalog.chunks.commit(found, [made], planned.gaps)


def open_hour() -> int:
    """The number of the hour that is open now."""
    return HOURS.index(hour_of(time.time_ns()))


def seal(workspace: Workspace, found: Archive) -> int:
    """Seal what can be sealed; how many hours that were."""
    return len(list(seal_hours(workspace, found, sealable(workspace, found, HOURS[0]).hours)))


def lacks(workspace: Workspace, found: Archive, selection: Selection) -> list[str]:
    """As a plan and as a read ask it: of sums by hour and of chunks."""
    selected = ArchiveSelection(workspace, found, selection)
    by_hour, by_chunk = Held.of_hours(selected.hours()), Held.of_chunks(selected.chunks())
    asked, again = (uncovered(selected, held) for held in (by_hour, by_chunk))
    assert asked == again
    return [str(r) for r in asked]


def of(*hours: int) -> Selection:
    return Selection(hours=tuple(HOURS[hour] for hour in hours))


def times(first: int, end: int | None) -> Selection:
    """From minute `first` of hour 0 to minute `end`."""
    return Selection(from_ns=START + first * MINUTE_NS, to_ns=None if end is None else START + end * MINUTE_NS)


@pytest.mark.parametrize(
    ("captured", "selection", "missing"),
    [
        ([(0, 10)], of(0, 1), ["11-20"]),
        ([(0, 10)], of(0, 1, 2, 3), ["11-30"]),
        ([(0, 10), (1, 15)], of(0, 1), ["16-20"]),
        ([(0, 10), (1, 15)], of(1, 2), ["16-20"]),
        ([(1, 20)], of(0, 1), ["1-10"]),
        ([(0, 10), (3, 30)], of(0, 3), []),
        ([(0, 10), (3, 30)], of(0, 1), ["11-20"]),
        ([(0, 10), (1, 20)], of(0, 1, 2), []),
        ([(0, 10), (1, 20), (3, 30)], of(2, 3, 4), []),
        ([(0, 10), (1, 20)], times(5, 125), []),
        ([(0, 10), (1, 20)], times(5, 185), ["21-24"]),
        # Without an end it ends with what is archived.
        ([(0, 10), (1, 20)], times(5, None), []),
        ([(1, 20)], times(5, None), ["5-10"]),
        ([(0, 10), (1, 20)], Selection(), []),
        ([(0, 10)], Selection(sequences=SeqRange(5, 12)), ["11-12"]),
        ([(0, 10)], Selection(sequences=SeqRange(5, 10)), []),
        ([(1, 20)], Selection(sequences=SeqRange(5, 20)), ["5-10"]),
        ([(0, 10), (1, 20), (3, 30)], Selection(sequences=SeqRange(5, 99)), []),
    ],
)
def test_what_the_stream_has_and_no_capture_took(
    workspace: Workspace,
    events: Archive,
    captured: Sequence[tuple[int, int]],
    selection: Selection,
    missing: list[str],
) -> None:
    for hour, upto in captured:
        capture(workspace, events, hour, upto)
    assert lacks(workspace, events, selection) == missing
    # The stream is not asked about times in sealed hours, and the answer is the same.
    seal(workspace, events)
    assert lacks(workspace, events, selection) == missing


@pytest.mark.parametrize("lost", [None, SeqRange(16, 20), SeqRange(11, 20), SeqRange(1, 10)])
def test_a_read_begins_and_ends_where_it_did_before_its_hours_were_sealed(
    workspace: Workspace, events: Archive, wire: Wire, lost: SeqRange | None
) -> None:
    bounds = [(0, 60), (5, 115), (60, 120), (75, 90), (120, 180), (120, 240), (60, 185), (180, None)]
    selections = [times(first, end) for first, end in bounds]

    def found() -> dict[tuple[Selection, int | None], NextChunks]:
        """What comes first, and what comes after each chunk."""
        return {
            (one, after): next_chunks(
                ArchiveSelection(workspace, events, one), (incarnation, after) if after else None, over_gaps=False
            )
            for one in selections
            for after in (None, *ends_of_chunks)
        }

    incarnation = open_source(workspace, events).state.incarnation
    if lost:
        for seq in range(lost.first, lost.last + 1):
            wire.api("STREAM.MSG.DELETE.EV", seq=seq)
        workspace.catalog.chunks.commit(events, [], [Gap(incarnation, (lost,), "expired")])
    for hour, seqs in SEQS.items():
        if lost is None or lost.first > seqs.first or lost.last < seqs.first:
            capture(workspace, events, hour, lost.first - 1 if lost and lost.first in range(*seqs) else None)
    ends_of_chunks = [chunk.meta.covers.last for chunk in workspace.catalog.chunks.select(events)]
    before = found()
    assert seal(workspace, events) == open_hour()
    after = found()
    assert {one: (before[one], after[one]) for one in before if before[one] != after[one]} == {}


def test_the_stream_is_not_asked_where_sealed_hours_begin(
    workspace: Workspace, events: Archive, settings: Settings, wire: Wire
) -> None:
    """The server makes a consumer for each question about a time."""
    for hour in SEQS:
        capture(workspace, events, hour)
    selections = [of(0, 1), of(3), of(1, 2, 3), times(0, 60), times(60, 180), times(5, 115), times(60, 120)]

    def read() -> None:
        for selection in selections:
            assert lacks(workspace, events, selection) == []
            if selection.times:
                assert next_chunks(ArchiveSelection(workspace, events, selection), None, over_gaps=False).chunks

    assert asks(settings, wire, read)
    seal(workspace, events)
    assert not asks(settings, wire, read)


def test_a_tick_does_not_ask_where_an_hour_begins_of_which_it_has_a_part(
    workspace: Workspace, events: Archive, settings: Settings, wire: Wire
) -> None:
    for hour in SEQS:
        capture(workspace, events, hour)

    opened = open_hour()

    def tick() -> None:
        state = source_state(workspace, events)
        found = backlog(workspace, events, state, stream_now_ns(state))
        assert (found.ended, found.open, found.messages, found.behind) == ((), HOURS[opened], 5, 5)
        assert sealable(workspace, events, HOURS[0]).hours == HOURS[:opened]

    wire.publish([("ev.a", b"", b"x")] * 5)
    assert asks(settings, wire, tick)
    capture(workspace, events, opened)
    wire.publish([("ev.a", b"", b"x")] * 5)
    assert not asks(settings, wire, tick)


def asks(settings: Settings, wire: Wire, call: Callable[[], None]) -> bool:
    """True if the call made a consumer."""
    with Wire(str(settings.nats_url)) as listener:
        listener.listen("$JS.EVENT.ADVISORY.CONSUMER.CREATED.EV.*")
        call()
        wire.api("CONSUMER.CREATE.EV.last", stream_name="EV", config={"name": "last", "ack_policy": "none"})
        (first,) = listener.heard(1)
        wire.api("CONSUMER.DELETE.EV.last")
    return not first.endswith(b".last")


def test_the_open_hour_is_complete_only_up_to_now(workspace: Workspace, events: Archive, wire: Wire) -> None:
    for hour in SEQS:
        capture(workspace, events, hour)
    assert lacks(workspace, events, of(3, 4)) == []
    wire.publish([("ev.a", b"", b"x")] * 5)
    assert lacks(workspace, events, Selection(hours=(HOURS[3], hour_of(time.time_ns())))) == ["31-35"]


def test_a_plan_says_what_is_missing_and_goes_over_it_when_asked(
    workspace: Workspace, events: Archive, wire: Wire, s3_client: object
) -> None:
    capture(workspace, events, 0)
    wire.create_stream("BACK", "back.>")
    spec = ReplaySpec("events", "back.>", of(0, 1))
    with pytest.raises(OperatorError, match="of the selection are not in archive events: 11-20. Capture those"):
        dry_run(workspace, spec)


def test_what_expired_and_is_recorded_nowhere_yet(workspace: Workspace, events: Archive, wire: Wire) -> None:
    capture(workspace, events, 0)
    wire.api("STREAM.PURGE.EV", seq=24)
    assert lacks(workspace, events, of(0, 1)) == ["11-23"]
    capture(workspace, events, 3)
    # As losses of an hour before that nothing tells from the next one's.
    assert lacks(workspace, events, of(3)) == ["11-23"]


def test_a_lost_hour_apart_from_the_others(workspace: Workspace, events: Archive, wire: Wire) -> None:
    capture(workspace, events, 0)
    capture(workspace, events, 3)
    state = open_source(workspace, events).state
    workspace.catalog.chunks.commit(events, [], [Gap(state.incarnation, (SeqRange(11, 20),), "expired")])
    assert lacks(workspace, events, of(1)) == ["11-20"]
    # Of another incarnation the same sequences: each says which one is meant.
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    newer = open_source(workspace, events, adopt=True).state.incarnation
    workspace.catalog.chunks.commit(events, [], [Gap(newer, (SeqRange(11, 20),), "expired")])
    every = lacks(workspace, events, Selection())
    streams = [f" (stream of {format_time(life.created_ns)})" for life in (state.incarnation, newer)]
    assert {f"11-20{streams[0]}", f"1-20{streams[1]}"} <= set(every)
    assert all(text.endswith(tuple(streams)) for text in every)
    text = str(lost_of_selection(events, uncovered(ArchiveSelection(workspace, events, Selection()), Held()))[0])
    assert text.startswith(f"Sequences of the selection are not in archive events: {', '.join(every[:3])}")


def test_of_a_stream_that_is_gone_what_was_seen_of_it(workspace: Workspace, events: Archive, wire: Wire) -> None:
    capture(workspace, events, 0)
    wire.api("STREAM.DELETE.EV")
    assert lacks(workspace, events, of(0, 1)) == ["11-30"]
    assert lacks(workspace, events, Selection(sequences=SeqRange(5, 12))) == ["11-12"]
    assert lacks(workspace, events, Selection()) == []


def test_what_expired_of_a_stream_that_was_made_again(workspace: Workspace, events: Archive, wire: Wire) -> None:
    """It may be of the hour in which the stream was made, and of no earlier one."""
    for hour in SEQS:
        capture(workspace, events, hour)
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    newer = open_source(workspace, events, adopt=True).state.incarnation
    wire.publish([("ev.a", b"", b"x")] * 10)
    wire.api("STREAM.PURGE.EV", seq=5)
    own = f" (stream of {format_time(newer.created_ns)})"
    assert lacks(workspace, events, Selection(hours=(hour_of(newer.created_ns),))) == [f"1-10{own}"]
    assert lacks(workspace, events, Selection(hours=(HOURS[2], hour_of(newer.created_ns)))) == [f"1-10{own}"]
    assert lacks(workspace, events, of(2)) == lacks(workspace, events, of(1, 2, 3)) == []


def test_a_selection_is_over_once_its_end_has_come_and_is_captured(
    workspace: Workspace, events: Archive, wire: Wire
) -> None:
    def over(selection: Selection) -> bool:
        return is_over(ArchiveSelection(workspace, events, selection))

    def upto(minute: int, **more: Any) -> Selection:
        return replace(times(5, minute), **more)

    capture(workspace, events, 0)
    capture(workspace, events, 1, upto=15)
    assert [over(upto(minute)) for minute in (30, 60, 65, 66, 67, 120, 500)] == [True] * 4 + [False] * 3
    assert not over(Selection())
    assert not over(times(5, None))
    assert [over(Selection(sequences=SeqRange(3, last))) for last in (14, 15, 16)] == [True, True, False]
    # Whichever comes first ends it.
    assert over(upto(120, sequences=SeqRange(1, 15)))
    assert over(upto(66, sequences=SeqRange(1, 99)))
    assert not over(upto(67, sequences=SeqRange(1, 99)))
    wire.api("STREAM.DELETE.EV")
    assert over(upto(30))
    # Made again, and a capture has yet to adopt it.
    wire.create_stream("EV", "ev.>")
    assert not over(upto(30))
    assert over(Selection(sequences=SeqRange(3, 15)))


def test_what_a_restored_stream_lost_before_the_times_is_in_nobodys_way(
    workspace: Workspace, events: Archive, wire: Wire
) -> None:
    """What was lost of the first one was stored before the times, although that stream was made after them: by a
    restore, which keeps the times of the messages."""
    capture(workspace, events, 0)
    life = open_source(workspace, events).state.incarnation
    workspace.catalog.chunks.commit(events, [], [Gap(life, (SeqRange(11, 20), SeqRange(29, 30)), "expired")])
    capture(workspace, events, 3, upto=28)
    wire.api("STREAM.DELETE.EV")
    wire.create_stream("EV", "ev.>")
    open_source(workspace, events, adopt=True)
    wire.publish([("ev.a", b"", b"x")] * 5)
    capture(workspace, events, open_hour())
    last = ArchiveSelection(workspace, events, times(open_hour() * 60 + 1, None))
    found = next_chunks(last, None, over_gaps=False)
    assert ([one.meta.covers for one in found.chunks], found.lost, found.is_open) == ([SeqRange(1, 5)], (), False)
    both = ArchiveSelection(workspace, events, times(185, None))
    assert [one.meta.covers for one in next_chunks(both, None, over_gaps=False).chunks] == [SeqRange(21, 28)]
    assert [one.meta.covers for one in next_chunks(both, None, over_gaps=True).chunks] == [
        SeqRange(21, 28),
        SeqRange(1, 5),
    ]
