"""Several tasks share the durable of an archive: on real servers, the tasks in threads, and once in Spark."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from nats3_dagster.archive.captures.commit import CaptureResult
from nats3_dagster.archive.source import durables
from nats3_dagster.archive.take import plan
from nats3_dagster.archive.take.driver import run_rounds
from nats3_dagster.archive.take.job import TakeJob
from nats3_dagster.archive.take.pulled import PreviousTasks, Uncaptured, uncaptured
from nats3_dagster.archive.take.take_capture import TakeCapture
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.errors import EngineError, Nats3Error, SourceError
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of
from nats3_dagster.jetstream.take import pull, turns
from nats3_dagster.jetstream.take.pull import Pulled
from nats3_dagster.jetstream.take.turns import Turn, Turns, new_subject
from nats3_dagster.model import Archive, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.objects import Bucket
from nats3_dagster.pipeline.capture_run import run_capture
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.taking import (
    INTEREST,
    acknowledged_one_by_one,
    content,
    covered,
    durable,
    gaps,
    left,
    make,
    numbers,
    queue,
)
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.nats

TASKS = 3
MINUTE_NS = 60 * SECOND_NS


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "TASK_MESSAGES", 100)
    acknowledged_one_by_one(monkeypatch)


def together(job: TakeJob) -> tuple[list[Any], Nats3Error | None]:
    """Perform the tasks of a job at the same time, as Spark does."""
    with ThreadPoolExecutor(job.tasks) as pool:
        return _merged(list(pool.map(lambda n: outcomes(job, n), range(job.tasks))))


def one_by_one(job: TakeJob, after: Callable[[int], None] = lambda _: None) -> tuple[list[Any], Nats3Error | None]:
    """Perform the tasks of a job one after the other, as Spark does with one slot."""
    done = []
    for n in range(job.tasks):
        done.append(outcomes(job, n))
        after(n)
    return _merged(done)


def outcomes(job: TakeJob, task: int) -> tuple[list[Any], Nats3Error | None]:
    done: list[Any] = []
    try:
        for outcome in TakeCapture(job, task).outcomes():
            done.append(outcome)
    except Nats3Error as error:
        return done, error
    return done, None


def _merged(done: list[tuple[list[Any], Nats3Error | None]]) -> tuple[list[Any], Nats3Error | None]:
    return [o for some, _ in done for o in some], next((error for _, error in done if error), None)


def run(workspace: Workspace, archive: Archive, perform: Any = together, **more: Any) -> CaptureResult:
    return run_rounds(workspace, archive, hour_of(time.time_ns()), perform, parallel=TASKS, **more)


def publish(wire: Wire, first: int, last: int, name: str = "nats3-jobs") -> None:
    """Publish these numbers, and wait until a durable of all subjects counts them: a server does so a moment later."""
    pending, _ = left(wire, name)
    wire.publish(numbers(first, last))
    while left(wire, name)[0] < pending + last - first + 1:
        pass


def covers(workspace: Workspace, archive: Archive) -> list[tuple[int, int]]:
    return [(c.meta.covers.first, c.meta.covers.last) for c in workspace.catalog.chunks.select(archive)]


@pytest.mark.parametrize("perform", [together, one_by_one])
def test_tasks_share_a_work_queue(workspace: Workspace, wire: Wire, bucket: str, perform: Any) -> None:
    queue(wire)
    archive = make(workspace, bucket)
    publish(wire, 1, 3100)
    assert run(workspace, archive, perform).messages == 3100
    assert covers(workspace, archive) == [(1, 1034), (1035, 2068), (2069, 3100)]
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 3101)]
    assert (left(wire), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert (covered(workspace, archive, 3100), gaps(workspace, archive)) == (True, [])


def lost(workspace: Workspace, archive: Archive) -> int:
    """How many messages count as lost, in chunks and gaps."""
    chunks = sum(chunk.meta.lost for chunk in workspace.catalog.chunks.select(archive))
    return chunks + sum(gap.size for gap in workspace.catalog.gaps.select(archive) if gap.is_loss)


def test_what_lies_between_two_pulls_is_accounted_for(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """Under a filter a chunk covers what is not the archive's; of all subjects, what somebody deleted is a loss."""
    queue(wire, **INTEREST)
    some, every = make(workspace, bucket, "some", subjects=("jobs.1",)), make(workspace, bucket, "every")
    publish(wire, 1, 1800, "nats3-every")
    for seq in (300, 601, 602, 1200):
        wire.api("STREAM.MSG.DELETE.JOBS", seq=seq)
    for archive in (some, every):
        while left(wire, f"nats3-{archive.name}")[0] not in (899, 1796):
            pass
        run(workspace, archive)
        assert covered(workspace, archive, 1800)
        assert left(wire, f"nats3-{archive.name}") == (0, 0)
    assert len(covers(workspace, some)) == TASKS
    chunks = covers(workspace, some)
    assert [first for first, _ in chunks[1:]] == [last + 1 for _, last in chunks[:-1]]
    assert [n for n, _ in content(workspace, every)] == [n for n in range(1, 1801) if n not in (300, 601, 602, 1200)]
    assert lost(workspace, every) == 4


def test_what_comes_again_in_the_range_of_another_task_is_given_back(
    workspace: Workspace, wire: Wire, bucket: str
) -> None:
    """A client that pulls and dies while the tasks are under way."""
    queue(wire)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    publish(wire, 1, 2000, "mine")
    rounds: list[TakeJob] = []

    def perform(job: TakeJob) -> tuple[list[Any], Nats3Error | None]:
        rounds.append(job)
        if len(rounds) > 1:
            return together(job)
        stolen = [wire.next("JOBS", "mine") for _ in range(4)]

        def after(task: int) -> None:
            if task == 0:
                for reply in stolen[1:]:
                    wire.send(reply, b"-NAK")
            elif task == 1:
                wire.send(stolen[0], b"-NAK")

        return one_by_one(job, after)

    run(workspace, archive, perform)
    assert [job.tasks for job in rounds] == [TASKS, 1]
    assert [n for n, _ in content(workspace, archive)] == list(range(1, 2001))
    assert (left(wire, "mine"), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert (covered(workspace, archive, 2000), gaps(workspace, archive)) == (True, [])
    assert len(covers(workspace, archive)) == TASKS + 1


def test_what_a_dead_run_had_pulled_is_taken_by_one_task(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    durable(wire, "mine")
    archive = make(workspace, bucket, durable="mine")
    publish(wire, 1, 1000, "mine")
    dead = [wire.next("JOBS", "mine") for _ in range(5)]
    for reply in (dead[3], dead[0], dead[4]):
        wire.send(reply, b"-NAK")
    wire.acknowledge(dead[1])
    wire.acknowledge(dead[2])
    tasks: list[int] = []
    run(workspace, archive, lambda job: (tasks.append(job.tasks), together(job))[1])
    assert tasks[0] == 1
    assert [n for n, _ in content(workspace, archive)] == [n for n in range(1, 1001) if n not in (2, 3)]
    assert lost(workspace, archive) == 2
    publish(wire, 1001, 2000, "mine")
    run(workspace, archive)
    assert len(covers(workspace, archive)) >= 1 + TASKS
    assert (left(wire, "mine"), covered(workspace, archive, 2000)) == ((0, 0), True)


@pytest.mark.parametrize("task", range(TASKS))
@pytest.mark.parametrize("step", ["pulling", "writing"])
def test_a_task_that_fails_gives_its_messages_back(
    task: int, step: str, workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(wire)
    archive = make(workspace, bucket)
    publish(wire, 1, 1500)
    owner, name = (turns.Turn, "__exit__") if step == "pulling" else (Bucket, "put_new")
    was, calls = getattr(owner, name), iter(range(99))

    def fail(*args: Any) -> Any:
        if next(calls) == task:
            if step == "pulling":
                args[0].next = None
                was(*args)
            raise SourceError("broken")
        return was(*args)

    with monkeypatch.context() as patch, pytest.raises(SourceError, match="broken"):
        patch.setattr(owner, name, fail)
        run(workspace, archive)
    archived = len(list(content(workspace, archive)))
    assert wire.state("JOBS")["messages"] == 1500 - archived
    if step == "pulling":
        assert archived == 500 * task
    else:  # what it gives back may come to a task that has still to pull, which gives it back as well
        assert archived < 1500
    publish(wire, 1501, 2000)
    run(workspace, archive)
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 2001)]
    assert (left(wire), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert (covered(workspace, archive, 2000), gaps(workspace, archive)) == (True, [])


@pytest.mark.needs_nats("2.15")
def test_hours_tile_the_sequences_of_several_pulls(workspace: Workspace, wire: Wire, bucket: str) -> None:
    """A clock that steps back between two tasks' messages: the hour of the first task goes on."""
    # Tasks of 100 messages: the clock steps back with the first message of the second one.
    minutes = [*range(100), *range(30, 130), *range(100, 200)]
    start = (time.time_ns() // HOUR_NS - 48) * HOUR_NS
    messages = [Past(n, start + at * MINUTE_NS, "jobs.1", b"", b"%d" % n) for n, at in enumerate(minutes, 1)]
    restore_stream(workspace.settings.nats, "JOBS", ["jobs.>"], messages, retention="workqueue")
    archive = make(workspace, bucket)
    while left(wire)[0] < len(messages):
        pass
    run(workspace, archive)
    latest, expected = start, []
    for message in messages:
        latest = max(latest, message.time_ns)
        expected.append(hour_of(latest))
    chunks = workspace.catalog.chunks.select(archive)
    hours = [(c.meta.hour, c.meta.covers) for c in chunks]
    assert [hour for hour, r in hours for _ in range(r.size)] == expected
    assert {100, 200} <= {r.last for _, r in hours}
    assert covered(workspace, archive, len(messages))


def test_a_durable_that_allows_few_messages_is_shared_by_fewer_tasks(
    workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durables, "LEAST_OUTSTANDING", 250)
    monkeypatch.setattr(plan, "TASK_MESSAGES", 150)
    # The server answers no request for more than the durable allows before it expires.
    monkeypatch.setattr(pull, "EXPIRES_S", 30.0)
    began = time.monotonic()
    queue(wire)
    durable(wire, "mine", max_ack_pending=250)
    archive = make(workspace, bucket, durable="mine")
    publish(wire, 1, 1000, "mine")
    run(workspace, archive)
    assert covers(workspace, archive)[:3] == [(1, 150), (151, 250), (251, 400)]
    assert [n for n, _ in content(workspace, archive)] == list(range(1, 1001))
    assert left(wire, "mine") == (0, 0)
    assert time.monotonic() - began < 30


def test_our_own_durable_allows_a_pull_of_each_task(workspace: Workspace, wire: Wire, bucket: str) -> None:
    queue(wire)
    make(workspace, bucket, max_messages=50)
    config = wire.api("CONSUMER.INFO.JOBS.nats3-jobs")["config"]
    assert config["max_ack_pending"] == durables.CLAIMS * durables.LEAST_OUTSTANDING


def test_a_turn_is_handed_on_once(workspace: Workspace) -> None:
    """A task that Spark starts again: before it handed on it gets the turn again, and afterwards none."""
    options, subject = workspace.settings.nats, new_subject()
    with Turns(workspace.link, subject):
        first = Turn(options, subject, 0)
        assert first.__enter__().state == {}
        first.next = {"held": 1}
        with Turn(options, subject, 0) as again:
            assert again.state == {}
            again.next = {"held": 2}
            with pytest.raises(SourceError, match="Another attempt of task 0"):
                first.__exit__(None, None, None)
        with Turn(options, subject, 0) as late:
            assert (late.state, late.was_given) == (None, True)
        with Turn(options, subject, 1) as after:
            assert after.state == {"held": 2}
        with Turn(options, subject, 2) as none:
            assert (none.state, none.was_given) == (None, False)


def test_a_task_whose_driver_is_gone_pulls_nothing(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "SILENCE_S", 0.5)
    with pytest.raises(SourceError, match="The driver gives no turns"), Turn(workspace.settings.nats, "gone", 0):
        pass


@st.composite
def pulls(draw: st.DrawFn) -> tuple[Pulled, tuple[SeqRange, ...], list[int]]:
    """Messages as one pull has them, what is covered, and where the pulls of several tasks end."""
    seqs = np.array(sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=40))))
    times = draw(st.lists(st.integers(0, 5), min_size=len(seqs), max_size=len(seqs)))
    steps = draw(st.lists(st.integers(1, 2), min_size=len(seqs), max_size=len(seqs)))
    again = draw(st.lists(st.booleans(), min_size=len(seqs), max_size=len(seqs)))
    ranges = sorted(draw(st.sets(st.integers(0, 11), max_size=4)))
    known = tuple(SeqRange(5 * n + 1, 5 * n + 3) for n in ranges)
    deliveries = np.where(again, -1, np.cumsum(steps))
    pulled = pull_of(seqs, np.array(times) * HOUR_NS, deliveries)
    return pulled, known, sorted(draw(st.lists(st.integers(0, len(seqs)), max_size=3)))


def pull_of(seqs: Any, times: Any, deliveries: Any) -> Pulled:
    columns = {name: pa.nulls(len(seqs), MESSAGES.field(name).type) for name in MESSAGES.names}
    columns |= {"seq": pa.array(seqs, pa.int64()), "time_ns": pa.array(times, pa.int64())}
    table = pa.table(list(columns.values()), schema=MESSAGES)
    replies, counts = pa.array([b"r"] * len(seqs), pa.binary()), np.where(deliveries < 0, 2, 1)
    return Pulled(table, replies, deliveries, counts, full=True, elsewhere=0, consumer_seq=0)


@given(pulls())
def test_several_pulls_are_cut_as_one(given: tuple[Pulled, tuple[SeqRange, ...], list[int]]) -> None:
    pulled, known, ends = given
    spans = tuple((f"1970-01-01-0{min(r.first // 12, 5)}:00", r) for r in known)
    whole = uncaptured(pulled, known, spans, PreviousTasks())
    seqs, times = (pulled.messages.column(name).to_numpy() for name in ("seq", "time_ns"))
    parts: list[Uncaptured] = []
    ahead = PreviousTasks()
    for first, end in zip([0, *ends], [*ends, len(seqs)], strict=True):
        part = pull_of(seqs[first:end], times[first:end], pulled.deliveries[first:end])
        parts.append(uncaptured(part, known, spans, ahead))
        ahead = parts[-1].ahead

    def joined(values: Callable[[Uncaptured, int], Iterable[Any]]) -> list[Any]:
        found, before = [], 0
        for part in parts:
            found += values(part, before)
            before += len(part.seqs)
        return found

    assert joined(lambda part, _: part.seqs.tolist()) == whole.seqs.tolist()
    assert joined(lambda part, _: part.hours.tolist()) == whole.hours.tolist()
    assert joined(lambda part, n: [at + n for at in sorted(part.barriers)]) == sorted(whole.barriers)
    holes = joined(lambda part, n: [(hole.at + n, hole.seqs, hole.proven) for hole in part.holes])
    assert holes == [(hole.at, hole.seqs, hole.proven) for hole in whole.holes]
    assert not any(part.late.any() for part in parts)
    assert ahead.held == len(seqs)


@pytest.mark.timeout(120)
def test_tasks_of_spark_share_a_durable_and_may_be_killed(
    spark: SparkSession, workspace: Workspace, wire: Wire, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durables, "LEAST_ACK_WAIT_S", 1)
    monkeypatch.setattr("nats3_dagster.pipeline.capture_run.parallelism", lambda *_: TASKS)
    queue(wire)
    durable(wire, "mine", ack_wait=SECOND_NS)
    archive = make(workspace, bucket, durable="mine")
    publish(wire, 1, 1500, "mine")
    hour = hour_of(time.time_ns())
    with monkeypatch.context() as patch:
        patch.setitem(spark.sparkContext.environment, "NATS3_FAULT", "take.claimed:kill")
        with pytest.raises(EngineError, match="Spark lost a task"):
            run_capture(spark, workspace.settings, archive.name, hour)
    assert (covers(workspace, archive), wire.state("JOBS")["messages"]) == ([], 1500)
    assert run_capture(spark, workspace.settings, archive.name, hour).messages == 1500
    publish(wire, 1501, 3000, "mine")
    # More tasks than the session has slots.
    assert run_capture(spark, workspace.settings, archive.name, hour).messages == 1500
    assert list(content(workspace, archive)) == [(n, b"%d" % n) for n in range(1, 3001)]
    assert len(covers(workspace, archive)) >= 1 + TASKS
    assert (left(wire, "mine"), wire.state("JOBS")["messages"]) == ((0, 0), 0)
    assert (covered(workspace, archive, 3000), gaps(workspace, archive)) == (True, [])
