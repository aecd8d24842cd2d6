"""Hours captured together: the same chunks as hour by hour, and an hour that fails is alone with it."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from nats3_dagster.archive.captures import hour_windows
from nats3_dagster.archive.captures import plan as planning
from nats3_dagster.archive.captures.driver import Perform, capture_hours
from nats3_dagster.archive.captures.due import select_hours
from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.archive.captures.plan import CapturePlan
from nats3_dagster.archive.captures.task import CaptureTask
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.archive.source.windows import begin_of, hours_to_capture
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import EngineError, OperatorError, SourceError
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Archive, ArchiveSpec, ChunkMeta, SeqRange
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.catalog import chunk
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.nats, pytest.mark.needs_nats("2.15")]
MINUTE_NS = 60 * 10**9
START = hour_start(hour_of(time.time_ns() - 48 * HOUR_NS))
# Minutes from START, message by message; sequences that are deleted; subjects of the archive.
STREAMS: dict[str, tuple[list[int], list[int], tuple[str, ...]]] = {
    "quiet hours": ([0, 10, 100, 110, 230, 240], [], ()),
    "deleted at borders": (list(range(0, 240, 10)), [1, 6, 7, 12, 13, 14, 15, 16, 17, 18, 24], ()),
    "some subjects": (list(range(0, 240, 9)), [5], ("ev.2", "ev.3")),
    "back over the hour": ([50, 61, 62, 58, 59, 63, 64, 130], [], ()),
    "to and fro": ([10, 130, 20, 190, 30, 70, 5, 250, 260], [], ()),
    "to and fro in memory": ([10, 130, 20, 190, 30, 70, 5, 250, 260], [], ()),
    "ahead for one message": ([10, 200, 11, 12, 70], [], ()),
}


def make(workspace: Workspace, stream: str, minutes: Iterable[int], **config: Any) -> None:
    past = [
        Past(n, START + minute * MINUTE_NS, f"{stream.lower()}.{n % 4}", b"", b"%d" % n)
        for n, minute in enumerate(minutes, 1)
    ]
    restore_stream(workspace.settings.nats, stream, [f"{stream.lower()}.>"], past, **config)


def archive_of(workspace: Workspace, bucket: str, name: str, stream: str = "EV", **spec: Any) -> Archive:
    return create(workspace, ArchiveSpec(name=name, stream=stream, bucket=bucket, **spec))


def reading(workspace: Workspace, planned_hours: list[tuple[str, ...]] | None = None) -> Perform:
    """Runs the tasks of a plan in this process; `planned_hours` gets the hours of each."""

    def perform(planned: CapturePlan) -> Any:
        if planned_hours is not None:
            planned_hours.append(planned.hours)
        outcomes = [
            o for ranges in planned.tasks(2) for o in CaptureTask(planned.job, ranges, workspace.link).outcomes()
        ]
        return outcomes, None

    return perform


def capture(workspace: Workspace, archive: Archive, hours: Sequence[str], perform: Perform | None = None) -> HourRun:
    run = HourRun(hours)
    jobs = capture_hours(workspace, archive, run, perform or reading(workspace), lambda *_: None)
    done = [result.hour for job in jobs for result in job]
    assert sorted([*done, *run.errors]) == sorted(hours)
    return run


def held(workspace: Workspace, archive: Archive) -> tuple[list[Any], dict[str, set[int]]]:
    """The chunks, and the sequences of gaps by reason."""
    chunks = [
        (m.hour, m.covers, m.messages, m.deleted, m.absent_reason, m.first_ns, m.last_ns)
        for m in (c.meta for c in workspace.catalog.chunks.select(archive, with_deleted=True))
    ]
    gaps: dict[str, set[int]] = {}
    for gap in workspace.catalog.gaps.select(archive):
        gaps.setdefault(gap.reason, set()).update(s for r in gap.ranges for s in range(r.first, r.last + 1))
    return chunks, gaps


def test_hours_of_one_job_are_captured_as_each_alone(
    workspace: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "TASK_HOURS", 3)
    for number, (name, (minutes, deleted, subjects)) in enumerate(STREAMS.items()):
        stream = f"EV{number}"
        make(workspace, stream, minutes, storage="memory" if "memory" in name else "file")
        spec = {"stream": stream, "subjects": tuple(s.replace("ev", stream.lower()) for s in subjects)}
        alone, together = (archive_of(workspace, bucket, f"{n}_{stream.lower()}", **spec) for n in ("a", "t"))
        with Wire(workspace.settings.nats.servers[0]) as wire:
            for seq in deleted:
                wire.api(f"STREAM.MSG.DELETE.{stream}", seq=seq)
        hours = hours_to_capture(workspace, alone, stream_state(workspace.link, stream))
        for hour in hours:
            capture(workspace, alone, [hour])
        run = capture(workspace, together, hours)
        assert run.errors == {}
        assert held(workspace, together) == held(workspace, alone), name
        chunks, gaps = held(workspace, together)
        covered = [seq for chunk in chunks for seq in range(chunk[1].first, chunk[1].last + 1)]
        assert sorted([*covered, *(s for seqs in gaps.values() for s in seqs)]) == list(range(1, len(minutes) + 1))
        jobs: list[tuple[str, ...]] = []
        capture(workspace, together, hours, reading(workspace, jobs))
        assert jobs == [tuple(hours)]
        assert held(workspace, together)[0] == chunks, "captured again"


def test_an_hour_that_fails_is_alone_with_it(workspace: Workspace, bucket: str) -> None:
    make(workspace, "EV", range(0, 600, 20))
    hours = [hour_of(START + n * HOUR_NS) for n in range(10)]
    bad, expected = hours[6], [hour for hour in hours if hour != hours[6]]

    # An hour that kills its worker, each time.
    archive, jobs = archive_of(workspace, bucket, "worker"), list[tuple[str, ...]]()
    read = reading(workspace, jobs)

    def lost(planned: CapturePlan) -> Any:
        outcomes = read(planned)
        if bad in planned.hours:
            raise EngineError(f"Spark lost a task of capture {planned.hours[0]}", "")
        return outcomes

    run = capture(workspace, archive, hours, lost)
    assert list(run.errors) == [bad]
    assert [chunk[0] for chunk in held(workspace, archive)[0]] == expected
    assert [len(job) for job in jobs] == [10, 5, 5, 2, 1, 1, 3]

    # An object with other bytes, which the task finds; of the hours around it each is captured once.
    archive, jobs = archive_of(workspace, bucket, "objects"), []
    planned = plan_hours(workspace, archive, [bad])
    (chunk,) = CaptureTask(planned.job, planned.missing, workspace.link).outcomes()
    assert isinstance(chunk, ChunkMeta)
    workspace.bucket(bucket).put_again(chunk.key, b"foreign", hashlib.sha256(b"foreign").hexdigest())
    run = capture(workspace, archive, hours, reading(workspace, jobs))
    assert list(run.errors) == [bad]
    assert "with other bytes than are to be written" in run.errors[bad].what
    assert [chunk[0] for chunk in held(workspace, archive)[0]] == expected
    assert jobs == [tuple(hours)]
    workspace.bucket(bucket).delete(chunk.key)
    assert capture(workspace, archive, [bad]).errors == {}
    assert [chunk[0] for chunk in held(workspace, archive)[0]] == hours


def test_jobs_are_of_few_hours_where_hours_are_large(
    workspace: Workspace, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(workspace, "EV", [*range(120), *range(120, 600, 20)])
    hours = [hour_of(START + n * HOUR_NS) for n in range(10)]
    monkeypatch.setattr(hour_windows, "JOB_SEQS", 60)
    jobs: list[tuple[str, ...]] = []
    run = capture(workspace, archive_of(workspace, bucket, "events"), hours, reading(workspace, jobs))
    assert run.errors == {}
    assert [hour for job in jobs for hour in job] == hours
    assert [len(job) for job in jobs[:2]] == [1, 1]
    assert len(jobs) < 6


def test_another_capture_that_commits_first_makes_no_hour_fail(workspace: Workspace, bucket: str) -> None:
    make(workspace, "EV", range(0, 600, 20))
    hours = [hour_of(START + n * HOUR_NS) for n in range(10)]
    archive, read = archive_of(workspace, bucket, "events"), reading(workspace)
    others = iter([hours[4:5], hours[7:9]])

    def beside(planned: CapturePlan) -> Any:
        outcomes = read(planned)
        capture(workspace, archive, next(others, []))
        return outcomes

    run = capture(workspace, archive, hours, beside)
    assert run.errors == {}
    chunks, gaps = held(workspace, archive)
    assert ([chunk[0] for chunk in chunks], gaps) == (hours, {})


def test_what_is_wrong_with_the_stream_ends_the_run_at_the_second_hour(workspace: Workspace, bucket: str) -> None:
    make(workspace, "EV", range(0, 600, 20))
    hours = [hour_of(START + n * HOUR_NS) for n in range(10)]
    archive = archive_of(workspace, bucket, "events")
    tried: list[tuple[str, ...]] = []

    def down(planned: CapturePlan) -> Any:
        tried.append(planned.hours)
        return [], SourceError("NATS does not answer")

    run = HourRun(hours)
    assert [job for job in capture_hours(workspace, archive, run, down, lambda *_: None) if job] == []
    assert (list(run.errors), run.is_general, run.untried) == (hours[:2], True, 8)
    assert len(tried) < 8


def test_an_hour_that_is_deleted_between_plan_and_read_is_a_gap_of_its_own(
    workspace: Workspace, bucket: str, wire: Wire
) -> None:
    """No chunk of the next hour reaches into it."""
    make(workspace, "EV", range(0, 240, 10))
    archive = archive_of(workspace, bucket, "events")
    planned = plan_hours(workspace, archive, hours_to_capture(workspace, archive, stream_state(workspace.link, "EV")))
    for seq in range(7, 13):
        wire.api("STREAM.MSG.DELETE.EV", seq=seq)
    outcomes = [o for ranges in planned.tasks(1) for o in CaptureTask(planned.job, ranges, workspace.link).outcomes()]
    assert [(o.hour, o.covers) if isinstance(o, ChunkMeta) else (o.reason, *o.ranges) for o in outcomes] == [  # type: ignore[union-attr]
        (hour_of(START), SeqRange(1, 6)),
        ("deleted", SeqRange(7, 12)),
        (hour_of(START + 2 * HOUR_NS), SeqRange(13, 18)),
        (hour_of(START + 3 * HOUR_NS), SeqRange(19, 24)),
    ]


def test_hours_that_are_missing_up_to_a_sequence(workspace: Workspace, bucket: str) -> None:
    """Messages in the hours 0, 1, 3 and 4."""
    make(workspace, "EV", STREAMS["quiet hours"][0])
    archive, state = archive_of(workspace, bucket, "events"), stream_state(workspace.link, "EV")
    hours = [hour_of(START + n * HOUR_NS) for n in range(6)]

    def missing(before: int | None = None) -> list[int]:
        return [hours.index(hour) for hour in hours_to_capture(workspace, archive, state, before)]

    assert missing() == missing(7) == missing(99) == [0, 1, 2, 3, 4]
    assert [missing(before) for before in (1, 2, 3, 4, 5, 6)] == [[], [0], [0], [0, 1], [0, 1], [0, 1, 2, 3]]
    life = {"archive": "events", "incarnation": state.incarnation, "bucket": bucket}
    workspace.catalog.chunks.commit(archive, [chunk(1, 2, hour=hours[0], **life), chunk(5, 5, hour=hours[3], **life)])
    assert (missing(), missing(5), missing(3)) == ([1, 4], [1], [])
    workspace.catalog.chunks.commit(archive, [chunk(3, 4, hour=hours[1], **life)])
    assert missing() == [4]
    begins = [begin_of(workspace, archive, state.incarnation, hour_start(hour)) for hour in hours]
    assert begins == [1, 3, 5, 5, None, None]
    # A clock stepped: sequences of the hour 1 come after some of the hour 4.
    workspace.catalog.chunks.commit(archive, [chunk(6, 6, hour=hours[4], **life), chunk(7, 9, hour=hours[1], **life)])
    assert missing() == []
    begins = [begin_of(workspace, archive, state.incarnation, hour_start(hour)) for hour in hours]
    assert begins == [1, 3, None, None, None, None]


def test_hours_for_a_capture_by_hand(workspace: Workspace, bucket: str, wire: Wire) -> None:
    make(workspace, "EV", STREAMS["quiet hours"][0])
    archive = archive_of(workspace, bucket, "events")
    hours = [hour_of(START + n * HOUR_NS) for n in range(-1, 6)]

    def refused(*asked: str) -> OperatorError:
        with pytest.raises(OperatorError) as caught:
            select_hours(workspace, "events", asked)
        return caught.value

    assert select_hours(workspace, "events") == hours[1:6]
    assert select_hours(workspace, "events", [hours[5], hours[1], hours[3], hours[1]]) == [hours[1], hours[3], hours[5]]
    for outside in (hours[0], hours[6]):
        error = refused(hours[1], outside)
        assert (error.what, error.hint) == (
            f"Stream EV has nothing of the hour {outside}, nor has the archive",
            f"It holds {hours[1]} to {hours[5]}",
        )
    assert "hour" in refused("2026-11-21-7").what
    # What the archive has of the hour may be captured again.
    capture(workspace, archive, hours[1:3])
    wire.api("STREAM.PURGE.EV", seq=5)
    assert select_hours(workspace, "events", [hours[1], hours[4]]) == [hours[1], hours[4]]
    assert refused(hours[3]).hint == f"It holds {hours[4]} to {hours[5]}"
    wire.api("STREAM.PURGE.EV")
    assert refused(hours[5]).hint == "It is empty"
    assert select_hours(workspace, "events", [hours[2]]) == [hours[2]]
