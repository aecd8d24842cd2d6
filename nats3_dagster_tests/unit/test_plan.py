"""The plan of a capture: its windows, its tasks, and which hours are due; each sequence once and none left out."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from nats3_dagster.archive.captures import commit, hour_windows
from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.captures.due import Due, due
from nats3_dagster.archive.captures.hour_windows import HourWindow, by_hour, job_windows
from nats3_dagster.archive.captures.job import CaptureJob
from nats3_dagster.archive.captures.plan import TASK_HOURS, TASK_SEQS, CapturePlan
from nats3_dagster.archive.source.backlog import Backlog, age_of, uncaptured
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_start
from nats3_dagster.model import Gap, SeqRange, StreamState
from nats3_dagster_tests.support.catalog import LOGS, archive, chunk, ranges, spec
from nats3_dagster_tests.support.sealed import AGAIN, gap

Pair = tuple[int, int]
HOURS = [f"2026-11-21-{hour:02}:00" for hour in range(24)]


def windows_of(*parts: Pair | None) -> tuple[HourWindow, ...]:
    return tuple(HourWindow(hour, SeqRange(*part) if part else None) for hour, part in zip(HOURS, parts, strict=False))


def planned(windows: Sequence[HourWindow], *missing: Pair) -> CapturePlan:
    """A plan of these windows; `missing`: all of them if not given."""
    hours = tuple((window.hour, window.seqs.first) for window in windows if window.seqs)
    state = StreamState(LOGS, 1, 9, 0, 0, 9, 90, {})
    job = CaptureJob(spec(), state, hours, cast("Any", None), cast("Any", None))
    own = ranges(*missing) or tuple(window.seqs for window in windows if window.seqs)
    return CapturePlan(archive(), job, tuple(windows), own, (), datetime.now(UTC))


@pytest.mark.parametrize(
    ("parts", "spans"),
    [
        ([], []),
        ([None], []),
        ([(1, 9)], [(1, 9)]),
        ([(1, 9), (10, 12)], [(1, 12)]),
        ([(1, 9), (11, 12)], [(1, 9), (11, 12)]),
        ([(1, 9), (11, 12), (13, 14)], [(1, 9), (11, 14)]),
        ([(1, 9), None, (10, 12), (13, 13), (15, 20)], [(1, 13), (15, 20)]),
    ],
)
def test_windows_that_touch_are_one_span(parts: list[Pair | None], spans: list[Pair]) -> None:
    assert planned(windows_of(*parts)).spans == ranges(*spans)


# The first sequence of each hour, and of the one after the last; and where a clock stepped, that of the third hour.
FIRSTS, STEPPED = (1, 6, 10, 10, 21), (1, 6, 4, 9, 9)
QUICK = StreamState(LOGS, 1, 21, 100 * HOUR_NS, 104 * HOUR_NS, 21, 0, {})
SLOW = StreamState(LOGS, 1, 21, 100 * HOUR_NS, 1100 * HOUR_NS, 21, 0, {})
ONE = StreamState(LOGS, 1, 1, HOUR_NS, HOUR_NS, 1, 0, {})


@pytest.mark.parametrize(
    ("firsts", "hours", "start", "bounds", "state", "parts"),
    [
        (FIRSTS, range(4), 1, {}, SLOW, [(1, 5), (6, 9), None, (10, 20)]),
        (FIRSTS, range(4), 8, {}, SLOW, [None, (8, 9), None, (10, 20)]),
        (FIRSTS, range(4), 20, {}, SLOW, [None, None, None, (20, 20)]),
        (FIRSTS, range(4), 21, {}, SLOW, [None] * 4),
        (FIRSTS, [1, 3], 1, {}, SLOW, [(6, 9), (10, 20)]),
        (FIRSTS, [2], 1, {}, SLOW, [None]),
        # A later time has an earlier sequence: each sequence is in one window all the same.
        (STEPPED, range(4), 1, {}, SLOW, [(1, 5), None, (6, 8), None]),
        (STEPPED, [0, 2], 1, {}, SLOW, [(1, 5), (6, 8)]),
        # A job has a number of hours and of sequences at most, and one hour at least.
        (FIRSTS, range(4), 1, {"JOB_HOURS": 3}, SLOW, [(1, 5), (6, 9), None]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 20}, SLOW, [(1, 5), (6, 9), None, (10, 20)]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 19}, SLOW, [(1, 5), (6, 9)]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 9}, SLOW, [(1, 5), (6, 9)]),
        (FIRSTS, [0, 1, 3], 1, {"JOB_SEQS": 9}, SLOW, [(1, 5), (6, 9)]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 8}, SLOW, [(1, 5)]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 1}, SLOW, [(1, 5)]),
        (FIRSTS, range(3), 1, {"JOB_SEQS": 8}, SLOW, [(1, 5)]),
        # No more hours are asked for than have so many sequences at the mean rate: five an hour.
        (FIRSTS, range(4), 1, {"JOB_SEQS": 14}, QUICK, [(1, 5), (6, 9)]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 15}, QUICK, [(1, 5), (6, 9), None]),
        (FIRSTS, range(4), 1, {"JOB_SEQS": 1}, QUICK, [(1, 5)]),
        # A stream of one message has no rate.
        ((1, 1, 2, 2, 2), range(4), 1, {}, ONE, [None, (1, 1), None, None]),
    ],
)
def test_the_windows_of_a_job(
    firsts: Sequence[int],
    hours: Sequence[int],
    start: int,
    bounds: dict[str, int],
    state: StreamState,
    parts: list[Pair | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def first_seq_at(_: Any, name: str, time_ns: int) -> int:
        asked.append((time_ns - hour_start(HOURS[0])) // HOUR_NS)
        return firsts[asked[-1]]

    for name, value in bounds.items():
        monkeypatch.setattr(hour_windows, name, value)
    monkeypatch.setattr(hour_windows, "first_seq_at", first_seq_at)
    monkeypatch.setattr(hour_windows, "first_seqs_at", lambda link, name, at: [first_seq_at(link, name, t) for t in at])
    found = job_windows(cast("Any", None), state, [HOURS[n] for n in hours], start)
    assert [window.hour for window in found] == [HOURS[n] for n in hours][: len(parts)]
    assert [window.seqs and tuple(window.seqs) for window in found] == parts
    # No time is asked for twice.
    assert len(asked) == len({*asked})


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ([], {}),
        ([(1, 20)], {0: [(1, 5)], 1: [(6, 9)], 3: [(12, 20)]}),
        ([(5, 6)], {0: [(5, 5)], 1: [(6, 6)]}),
        ([(9, 9)], {1: [(9, 9)]}),
        ([(10, 11)], {}),
        ([(9, 12)], {1: [(9, 9)], 3: [(12, 12)]}),
        ([(2, 3), (5, 7), (9, 9), (20, 30)], {0: [(2, 3), (5, 5)], 1: [(6, 7), (9, 9)], 3: [(20, 20)]}),
        ([(21, 30)], {}),
    ],
)
def test_ranges_by_hour(asked: list[Pair], parts: dict[int, list[Pair]]) -> None:
    windows = windows_of((1, 5), (6, 9), None, (12, 20))
    assert by_hour(windows, ranges(*asked)) == {HOURS[n]: [SeqRange(*p) for p in own] for n, own in parts.items()}


@pytest.mark.parametrize(
    ("sequences", "parallel", "tasks"),
    [
        (0, 4, 0),
        (1, 4, 1),
        (TASK_SEQS, 4, 1),
        (TASK_SEQS + 1, 4, 2),
        (2 * TASK_SEQS, 4, 2),
        (2 * TASK_SEQS + 1, 4, 3),
        (9 * TASK_SEQS, 4, 4),
        (9 * TASK_SEQS, 1, 1),
    ],
)
def test_the_number_of_tasks_follows_the_sequences(sequences: int, parallel: int, tasks: int) -> None:
    plan = planned(windows_of((1, sequences) if sequences else None))
    shares = plan.tasks(parallel)
    assert len(shares) == tasks
    tiled(shares, plan.missing)
    sizes = [sum(part.size for part in share) for share in shares]
    assert max(sizes, default=0) - min(sizes, default=0) <= tasks


def tiled(shares: tuple[tuple[SeqRange, ...], ...], missing: tuple[SeqRange, ...]) -> None:
    """The shares have each missing sequence once, in order."""
    parts = [part for share in shares for part in share]
    assert all(part.first <= part.last for part in parts)
    assert all(share for share in shares)
    assert joined(parts) == joined(missing)


def joined(parts: Iterable[SeqRange]) -> list[SeqRange]:
    """Joins ranges that touch."""
    found: list[SeqRange] = []
    for part in parts:
        if found and found[-1].last + 1 == part.first:
            found[-1] = SeqRange(found[-1].first, part.last)
        else:
            found.append(part)
    return found


@pytest.mark.parametrize(
    ("hours", "tasks"), [(TASK_HOURS - 1, 1), (TASK_HOURS, 1), (2 * TASK_HOURS, 2), (3 * TASK_HOURS - 1, 2)]
)
def test_the_number_of_tasks_follows_the_hours(hours: int, tasks: int) -> None:
    windows = [
        HourWindow(f"2026-11-{1 + n // 24:02}-{n % 24:02}:00", SeqRange(10 * n + 1, 10 * n + 10)) for n in range(hours)
    ]
    plan = planned(windows)
    shares = plan.tasks(4)
    assert len(shares) == tasks
    tiled(shares, plan.missing)
    firsts = {window.seqs.first for window in windows if window.seqs}
    assert all(share[0].first in firsts for share in shares)  # no small hour is divided


def test_a_large_hour_is_divided_and_a_small_one_beside_it_is_not() -> None:
    large = 4 * TASK_SEQS
    plan = planned(windows_of((1, large), (large + 1, large + 100), (large + 101, large + 200)))
    shares = plan.tasks(2)
    tiled(shares, plan.missing)
    assert [share[0].first for share in shares] == [1, large // 2 + 101]
    assert planned(windows_of((1, 50), (51, 100), (101, 2 * TASK_SEQS + 100))).tasks(9)[0][0].first == 1


@pytest.mark.parametrize(
    ("parts", "missing", "shares"),
    [
        # The first hour is small, and stays whole.
        ([(1, 99_999), (100_000, 149_999)], [], [[(1, 99_999)], [(100_000, 149_999)]]),
        # Of TASK_SEQS sequences an hour is divided.
        ([(1, 100_000), (100_001, 150_000)], [], [[(1, 75_000)], [(75_001, 100_000), (100_001, 150_000)]]),
        # A range of several hours is divided between them, also where the cut would be in the last one.
        ([(1, 60_000), (60_001, 120_000)], [(1, 120_000)], [[(1, 60_000)], [(60_001, 120_000)]]),
        ([(1, 60_000), (60_001, 120_001)], [(1, 120_001)], [[(1, 120_001)]]),
        ([(1, 40_000), (40_001, 80_000), (80_001, 120_000)], [(1, 120_000)], [[(1, 80_000)], [(80_001, 120_000)]]),
        ([(1, 10), (11, 100_009), (100_010, 120_000)], [(5, 120_000)], [[(5, 100_009)], [(100_010, 120_000)]]),
        ([(1, 10), (21, 60_000), (60_001, 120_000)], [(1, 10), (21, 120_000)], [[(1, 10), (21, 120_000)]]),
        # A share takes what it has room for, to the last sequence.
        (
            [(1, 300_000)],
            [(1, 66_666), (70_001, 203_335)],
            [[(1, 66_666), (70_001, 70_001)], [(70_002, 136_668)], [(136_669, 203_335)]],
        ),
    ],
)
def test_where_the_ranges_are_divided(parts: list[Pair], missing: list[Pair], shares: list[list[Pair]]) -> None:
    assert TASK_SEQS == 100_000
    plan = planned(windows_of(*parts), *missing)
    assert plan.tasks(9) == tuple(ranges(*share) for share in shares)
    assert plan.hours == tuple(HOURS[: len(parts)])


def test_holes_between_the_ranges_are_in_no_task() -> None:
    plan = planned(
        windows_of((1, 9 * TASK_SEQS)), (1, TASK_SEQS), (TASK_SEQS + 11, 2 * TASK_SEQS), (5 * TASK_SEQS, 5 * TASK_SEQS)
    )
    tiled(plan.tasks(3), plan.missing)


# Due


def waiting(**fields: Any) -> Backlog:
    return Backlog(StreamState(LOGS, 1, 20, 0, 0, 20, 200, {}), **fields)


@pytest.mark.parametrize(
    ("fields", "hours"),
    [
        ({}, []),
        ({"open": HOURS[5], "messages": 9, "bytes": 99, "age_s": 59.0}, []),
        ({"open": HOURS[5], "messages": 10, "bytes": 99, "age_s": 59.0}, [5]),
        ({"open": HOURS[5], "messages": 9, "bytes": 100, "age_s": 59.0}, [5]),
        ({"open": HOURS[5], "messages": 9, "bytes": 99, "age_s": 60.0}, [5]),
        ({"open": HOURS[5], "gone": 1}, [5]),
        ({"messages": 10, "bytes": 100, "age_s": 60.0}, []),
        ({"ended": (HOURS[3], HOURS[4])}, [3, 4]),
        ({"ended": (HOURS[3], HOURS[4]), "open": HOURS[5], "messages": 9}, [3, 4]),
        ({"ended": (HOURS[3], HOURS[4]), "open": HOURS[5], "messages": 10}, [3, 4, 5]),
        # A hole between two hours ends a job.
        ({"ended": (HOURS[3],), "open": HOURS[5], "messages": 10}, [3]),
        ({"ended": (HOURS[0], HOURS[1], HOURS[3])}, [0, 1]),
    ],
)
def test_hours_that_are_due(fields: dict[str, Any], hours: list[int]) -> None:
    thresholds = spec(max_messages=10, max_bytes=100, max_age_s=60)
    assert due(thresholds, waiting(**fields), 9).hours == tuple(HOURS[n] for n in hours)


def test_a_limit_and_hours_that_fail() -> None:
    ended = waiting(ended=tuple(HOURS[:4]))
    assert due(spec(), ended, 2).hours == tuple(HOURS[:2])
    assert due(spec(), ended, 1) == Due((HOURS[0],), "4 ended hours not complete")
    assert due(spec(), ended, 9, {HOURS[0]}) == Due(
        tuple(HOURS[1:4]), f"4 ended hours not complete; held back: {HOURS[0]}"
    )
    assert due(spec(), ended, 9, {HOURS[2]}).hours == tuple(HOURS[:2])
    assert due(spec(), waiting(ended=(HOURS[0],)), 9).why == "1 ended hour not complete"


def test_why_nothing_is_due() -> None:
    assert due(spec(), waiting(), 9).why == "Everything is captured"
    assert due(spec(), waiting(behind=3), 9).why.startswith("3 messages are not the archive's")
    assert due(spec(max_age_s=60), waiting(open=HOURS[1], messages=2, age_s=7.2), 9).why == (
        "2 messages wait, the oldest for 7 of 60 s"
    )
    assert due(spec(), waiting(ahead=2, ahead_s=120.0), 9).why.startswith(
        "2 messages are of an hour that has not begun"
    )


# The backlog


@pytest.mark.parametrize(
    ("missing", "behind", "first_seq", "gone"),
    [
        ([], 0, None, 0),
        ([(1, 4)], 0, None, 4),
        ([(4, 5)], 1, 5, 1),
        ([(5, 5)], 1, 5, 0),
        ([(1, 9)], 5, 5, 4),
        ([(2, 2), (7, 7), (9, 9)], 2, 7, 1),
        ([(9, 9)], 1, 9, 0),
    ],
)
def test_what_waits_and_what_is_gone(missing: list[Pair], behind: int, first_seq: int | None, gone: int) -> None:
    found = uncaptured(archive(), StreamState(LOGS, 5, 9, 0, 0, 5, 50, {}), ranges(*missing))
    assert (found.behind, found.first_seq, found.gone) == (behind, first_seq, gone)
    assert found.is_empty == (not missing)


def test_the_age_of_a_message_is_by_the_clock_that_is_ahead() -> None:
    state = StreamState(LOGS, 1, 2, 0, 50 * SECOND_NS, 2, 20, {})
    assert age_of(20 * SECOND_NS, state, 40 * SECOND_NS) == 30
    assert age_of(20 * SECOND_NS, state, 60 * SECOND_NS) == 40
    assert age_of(70 * SECOND_NS, state, 60 * SECOND_NS) == 0


# The results of a commit


def results(chunks: Sequence[Pair], gaps: Sequence[Gap], *missing: Pair) -> dict[str, CaptureResult]:
    """Returns the results of a plan of the hours 1 to 10, 11 to 20, one without messages, and 23 to 30."""
    plan = planned(windows_of((1, 10), (11, 20), None, (23, 30)), *missing)
    found = commit._results(plan, [chunk(*one) for one in chunks], gaps)
    assert [one.hour for one in found] == HOURS[:4]
    return {one.hour[11:13]: one for one in found}


def test_each_hour_of_a_capture_has_its_chunks_and_gaps() -> None:
    found = results([(11, 15), (1, 10), (23, 30)], [gap((16, 20)), gap((12, 12), (25, 26), reason="deleted")])
    assert {hour: [tuple(meta.covers) for meta in one.chunks] for hour, one in found.items()} == {
        "00": [(1, 10)],
        "01": [(11, 15)],
        "02": [],
        "03": [(23, 30)],
    }
    assert {hour: [(own.reason, own.ranges) for own in one.gaps] for hour, one in found.items()} == {
        "00": [],
        "01": [("expired", ranges((16, 20))), ("deleted", ranges((12, 12)))],
        "02": [],
        "03": [("deleted", ranges((25, 26)))],
    }
    assert [one.messages for one in found.values()] == [10, 5, 0, 8]
    assert [one.lost for one in found.values()] == [0, 5, 0, 0]
    assert [one.payload_bytes for one in found.values()] == [1000, 500, 0, 800]
    assert found["01"].stored_bytes == 151


def test_lost_sequences_of_gaps_and_of_chunks_count() -> None:
    lossy = chunk(1, 10, 8, deleted=ranges((3, 4)), absent_reason="ttl")
    plan = planned(windows_of((1, 20)))
    (found,) = commit._results(plan, [lossy, chunk(18, 20)], [gap((11, 15)), gap((16, 17), reason="deleted")])
    assert (found.lost, found.messages) == (7, 11)


def test_what_was_covered_before_counts_as_found() -> None:
    assert [one.found for one in results([], []).values()] == [0, 0, 0, 0]
    assert [one.found for one in results([], [], (1, 9), (12, 20), (30, 30)).values()] == [1, 1, 0, 7]


def test_what_lies_in_no_window_is_the_first_hours() -> None:
    found = results([(21, 22)], [gap((21, 21), (24, 24), (31, 40)), gap((0, 3), reason="damaged")])
    assert [tuple(meta.covers) for meta in found["00"].chunks] == [(21, 22)]
    assert [(own.reason, own.ranges) for own in found["00"].gaps] == [
        ("expired", ranges((21, 21), (31, 40))),
        ("damaged", ranges((0, 0), (1, 3))),
    ]
    assert [(own.reason, own.ranges) for own in found["03"].gaps] == [("expired", ranges((24, 24)))]
    assert found["01"].gaps == found["02"].gaps == ()


def test_gaps_of_one_reason_and_incarnation_are_one() -> None:
    one = commit.merged([gap((5, 6)), gap((9, 9), reason="damaged"), gap((1, 2)), gap((3, 4), incarnation=AGAIN)])
    assert one == (gap((1, 2), (5, 6)), gap((9, 9), reason="damaged"), gap((3, 4), incarnation=AGAIN))
    assert commit.merged([]) == ()


def test_lost_sequences_are_listed_in_order() -> None:
    lost = chunk(11, 20, 8, deleted=ranges((15, 16)), absent_reason="ttl")
    filtered = chunk(21, 30, 9, absent_reason="superseded", deleted=None)
    deleted = chunk(31, 40, 9, deleted=ranges((33, 33)))
    found = commit._lost([filtered, deleted, lost], [gap((1, 2)), gap((3, 4), reason="deleted")])
    assert found == [SeqRange(1, 2), SeqRange(15, 16), SeqRange(21, 30)]
