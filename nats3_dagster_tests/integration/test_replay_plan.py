"""What a replay would do is what it then does; and its life in the catalog, without Spark."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nats3_dagster.errors import Conflict, EngineError, ObjectMissing, OperatorError, WrongState
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import (
    ArchiveSpec,
    ChunkMeta,
    ChunkResult,
    ExportSpec,
    Pace,
    ReplaySpec,
    Seal,
    Selection,
    SeqRange,
)
from nats3_dagster.model.export import Made
from nats3_dagster.replay import attempt, control, launch, status
from nats3_dagster.replay.begin import begin
from nats3_dagster.replay.job_request import JobSource
from nats3_dagster.replay.planning.creation import Creation, check_creation
from nats3_dagster.replay.planning.plan import ReplayPlan, plan
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import dry_run
from nats3_dagster_tests.support.wire import Wire

HOURS = ("2026-11-21-10:00", "2026-11-21-11:00")
TO_BACK = ReplaySpec("ev", "back.>", Selection(subjects=("ev.>",)))
TO_NEW = ReplaySpec("ev", "back.>", Selection(subjects=("ev.>",)), create_stream="NEW")


@pytest.fixture
def ws(settings: Settings, wire: Wire) -> Iterator[Workspace]:
    """The archive `ev` of the stream EV on `ev.>`."""
    wire.create_stream("EV", "ev.>")
    with Workspace(settings) as workspace:
        yield workspace


def archive(ws: Workspace, s3_client: Any, bucket: str, largest_bytes: int = 10) -> None:
    """A chunk of 100 messages in each of two hours. What their objects hold does not matter to a plan."""
    state = stream_state(ws.link, "EV")
    made = ws.catalog.archives.create(ArchiveSpec(name="ev", stream="EV", bucket=bucket), state)
    for number, hour in enumerate(HOURS):
        covers, key = SeqRange(100 * number + 1, 100 * number + 100), f"chunk-{number}"
        s3_client.put_object(Bucket=bucket, Key=key, Body=b"x")
        meta = ChunkMeta(
            archive="ev",
            incarnation=state.incarnation,
            hour=hour,
            covers=covers,
            messages=100,
            first_ns=number,
            last_ns=number,
            payload_bytes=1000,
            largest_bytes=largest_bytes,
            stored_bytes=1,
            sha256=f"{number:064x}",
            key=key,
            bucket=bucket,
            deleted=(),
            subjects={"ev.a": 60, "ev.b": 40},
        )
        ws.catalog.chunks.commit(made, [meta])


def test_the_same_replay_begun_while_somebody_is_asked_is_refused(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str
) -> None:
    """Or both would publish all of it."""
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    begun: list[str] = []
    with pytest.raises(OperatorError, match="of the same selection to back.> is planned"):
        begin(ws, TO_BACK, agree=lambda planned: begun.append(begin(ws, TO_BACK)[0].id))
    assert [replay.id for replay in ws.catalog.replays.select(ws.catalog.archives.get("ev"))] == begun


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"retention": "workqueue"}, "its retention is workqueue"),
        ({"retention": "interest"}, "its retention is interest"),
        ({"max_msgs_per_subject": 3}, "its limit max_msgs_per_subject is 3"),
    ],
)
def test_a_target_that_removes_messages_gets_one_publisher(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str, config: dict[str, Any], why: str
) -> None:
    """What is no chain must be asked for message by message."""
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.a", **config)
    to_one = replace(TO_BACK, write_subject="back.a", selection=Selection(subjects=("ev.a",)))
    if config.get("retention") != "interest":
        assert plan(ws, to_one)
    for order in ("subject", "none"):
        with pytest.raises(OperatorError, match=f"Stream BACK removes messages .{why}.: with the order {order}"):
            plan(ws, replace(to_one, order=order))  # type: ignore[arg-type]
    wire.create_stream("MORE", "back.b")
    with pytest.raises(OperatorError, match=f"Stream BACK removes messages .{why}.: into 2 streams"):
        plan(ws, TO_BACK)


def streams(wire: Wire) -> list[str]:
    return sorted(wire.api("STREAM.NAMES")["streams"])


def test_a_dry_run_of_a_stream_to_be_created_creates_none(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str
) -> None:
    archive(ws, s3_client, bucket)
    shown = dry_run(ws, TO_NEW)
    assert (shown["targets"], shown["creates_stream"], shown["messages"], shown["chunks"]) == ([], "NEW", 200, 2)
    assert streams(wire) == ["EV"]
    _, planned = begin(ws, TO_NEW)
    assert [t.incarnation.stream for t in planned.targets] == ["NEW"]
    assert shown["mode"] == ("batch" if planned.batched else "window")


def test_no_stream_is_created_where_one_listens(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    shown = dry_run(ws, TO_NEW)
    assert (shown["targets"], shown["creates_stream"]) == (["BACK"], None)
    _, planned = begin(ws, TO_NEW)
    assert [t.incarnation.stream for t in planned.targets] == ["BACK"]
    assert streams(wire) == ["BACK", "EV"]


def test_a_stream_that_takes_a_part_is_not_enough(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.a")
    for refused in (dry_run, begin):
        with pytest.raises(OperatorError, match=r"No stream listens on back\.b, to which ev\.b would go") as caught:
            refused(ws, TO_NEW)
        assert "Stream NEW cannot be created, because BACK captures a part of back.>" in str(caught.value)
        with pytest.raises(OperatorError, match=r"Create a stream that captures it first"):
            refused(ws, TO_BACK)


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (TO_NEW, "Stream NEW exists with another configuration. Use it as it is, or another name"),
        (replace(TO_NEW, create_stream="EV"), "Stream EV exists with another configuration"),
        (
            ReplaySpec("ev", "$JS.x.>", Selection(subjects=("ev.>",)), create_stream="OTHER"),
            "Stream OTHER cannot be created on $JS.x.>: these subjects are, or include, JetStream's own",
        ),
    ],
)
def test_a_stream_that_cannot_be_created_is_refused_by_the_dry_run_too(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str, spec: ReplaySpec, error: str
) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("NEW", "other.>")
    for refused in (dry_run, begin):
        with pytest.raises(OperatorError) as caught:
            refused(ws, spec)
        assert str(caught.value).startswith(error)
    assert (streams(wire), status.statuses(ws)) == (["EV", "NEW"], ())


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a>", "x" * 256])
def test_a_name_that_no_stream_can_have_is_refused_when_it_is_given(name: str) -> None:
    with pytest.raises(OperatorError, match="is not a stream name"):
        replace(TO_NEW, create_stream=name)


@pytest.mark.needs_nats("2.15")  # 2.9 takes all of them, and a stream on > then answers for JetStream
@pytest.mark.parametrize("subjects", [">", "*", "*.a", "*.>", "$JS.API.x", "$JSC.x", "$NRG.x", "a.>"])
def test_the_subjects_that_are_refused_are_those_that_the_server_refuses(link: Link, wire: Wire, subjects: str) -> None:
    if "error" not in wire.try_api("STREAM.CREATE.X", name="X", subjects=[subjects]):
        check_creation(Creation({"name": "Y", "subjects": [subjects]}), is_name_taken=False)
        return
    with pytest.raises(OperatorError, match="JetStream's own"):
        check_creation(Creation({"name": "Y", "subjects": [subjects]}), is_name_taken=False)


def test_a_selection_counts_as_itself(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    selection = Selection(subjects=("ev.>",), sequences=SeqRange(98, 105))
    spec = replace(TO_BACK, selection=selection, delete_chunks=True)
    shown = dry_run(ws, spec)
    assert (shown["messages"], shown["messages_exact"], shown["first_seq"], shown["last_seq"]) == (8, True, 98, 105)
    # The chunks' messages have the numbers 0 and 1 as their times, and are cut on both sides.
    assert (shown["first_time"], shown["last_time"], shown["deletes_chunks"]) == (None, None, 0)
    whole = dry_run(ws, replace(spec, selection=replace(selection, sequences=SeqRange(1, 100))))
    assert (whole["deletes_chunks"], whole["deletes_messages"], whole["payload_bytes"]) == (1, 100, 1000)
    assert whole["first_time"] == whole["last_time"] == "1970-01-01T00:00:00.000000000Z"
    of_a = dry_run(ws, replace(spec, selection=Selection(subjects=("ev.a",)), write_subject="back.a"))
    assert (of_a["messages"], of_a["messages_exact"], of_a["payload_bytes_exact"]) == (120, True, False)
    assert of_a["deletes_chunks"] == 0


def test_progress_counts_to_what_is_selected(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    """And not to all messages of the chunks that have a part of it."""
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    replay, _ = begin(ws, replace(TO_BACK, selection=Selection(subjects=("ev.>",), sequences=SeqRange(98, 105))))
    assert attempt.start(ws, replay.id).messages == 8


def test_a_step_of_the_clock_shows_in_the_time_that_the_original_timing_takes(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str
) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    assert dry_run(ws, TO_BACK)["timing_seconds"] is None
    # The chunks' messages have the times 0 and 1 ns.
    assert dry_run(ws, replace(TO_BACK, pace=Pace(speed=1e-9)))["timing_seconds"] == 1.0


def test_a_plan_that_is_not_agreed_to_leaves_nothing(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    plans: list[ReplayPlan] = []

    def refuse(planned: ReplayPlan) -> None:
        plans.append(planned)
        raise OperatorError("no")

    with pytest.raises(OperatorError, match="no"):
        begin(ws, replace(TO_NEW, delete_chunks=True), agree=refuse)
    assert [planned.deletes_chunks for planned in plans] == [2]
    assert (streams(wire), status.statuses(ws)) == (["EV"], ())


def test_the_source_as_a_target_needs_to_be_asked_for(ws: Workspace, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    with pytest.raises(OperatorError, match="captured by EV, the stream that archive ev archives"):
        plan(ws, ReplaySpec("ev"))
    assert plan(ws, ReplaySpec("ev", into_own_stream=True)).extent.messages == 200


def test_an_object_that_is_gone_or_cut_is_noticed(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    s3_client.put_object(Bucket=bucket, Key="chunk-1", Body=b"")
    with pytest.raises(ObjectMissing, match="chunk-1 has 0 bytes and not 1"):
        begin(ws, TO_BACK)
    s3_client.delete_object(Bucket=bucket, Key="chunk-1")
    with pytest.raises(ObjectMissing, match="chunk-1"):
        begin(ws, TO_BACK)
    assert status.statuses(ws) == ()


def test_from_its_begin_to_its_end(ws: Workspace, wire: Wire, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    replay_id = "ab" * 8
    assert status.find(ws, replay_id) is None
    begun, _ = begin(ws, TO_BACK, replay_id=replay_id)
    assert (begun.id, begun.spec) == (replay_id, TO_BACK)
    assert status.find(ws, replay_id) == begun
    assert status.statuses(ws, "ev") == (status.status(ws, replay_id),)
    assert status.status(ws, replay_id).state == "planned"
    assert {one.hour: one.chunks for one in ws.catalog.replay_chunks.hours(begun.id)} == dict.fromkeys(HOURS, 1)
    assert control.pause(ws, replay_id, "enough").state == "paused"
    with pytest.raises(OperatorError, match="does not run: it is paused"):
        control.pause(ws, replay_id, "enough")
    with pytest.raises(Conflict, match="is paused"):
        ws.catalog.replays.start_attempt(replay_id)
    assert launch.reserve(ws, status.status(ws, replay_id).replay) == 2  # a pause is 1: what was started may not begin

    number = ws.catalog.replays.start_attempt(replay_id)
    assert status.status(ws, replay_id).state == "interrupted"
    with ws.catalog.replays.lock(replay_id):
        assert status.status(ws, replay_id).state == "running"
        with pytest.raises(Conflict):
            control.delete(ws, replay_id)
    # The first chunk was published whole, of the second some messages were not selected.
    first, second = (c.chunk_id for c in ws.catalog.replay_chunks.last(replay_id, 1))
    results = [ChunkResult(first, 100, 100, 0, 0), ChunkResult(second, 60, 60, 0, 0)]
    ws.catalog.replay_chunks.record(replay_id, number, results)
    assert control.delete_chunks(ws, replay_id) == 0
    ws.catalog.replays.finish(replay_id, number, "succeeded")
    assert control.delete_chunks(ws, replay_id) == 1
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 2  # until they are swept
    assert [one.hour for one in ws.catalog.replay_chunks.hours(begun.id)] == [*HOURS]
    control.delete(ws, replay_id)
    assert ws.catalog.replays.select(ws.catalog.archives.get("ev")) == ()


def test_chunks_that_an_export_lacks_are_deleted_only_when_that_is_asked_for(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str
) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    row = ws.catalog.archives.get("ev")
    export = ws.catalog.exports.create(row, ExportSpec("files", "s3://lake/files"))
    spec = replace(TO_BACK, delete_chunks=True)
    with pytest.raises(WrongState, match=r"whose messages export files has not exported 2 hours \(2026-11-21-10:00, 2"):
        begin(ws, spec)
    with pytest.raises(WrongState, match="before their hour has ended, and export files takes whole hours"):
        plan(ws, replace(spec, poll_interval_s=1.0, create_stream=None))
    assert status.statuses(ws) == ()
    planned = plan(ws, replace(spec, delete_unexported=True))
    assert [note for note in planned.notes if "although export files has not exported 2 hours" in note]
    assert plan(ws, TO_BACK).notes == ()

    def exported(*hours: str) -> None:
        for hour in hours:
            now, _ = ws.catalog.seals.next(row, hour)
            seal = Seal(
                hour, now.number, now.revision, now.chunks, 0, now.losses, 0, "0" * 16, bucket, hour, "0" * 64, 1
            )
            ws.catalog.seals.add(row, seal, begun=datetime.now(UTC))
            done = Made(now.revision, now.chunks, 1, 1, 100, 0, 0, 9, "0" * 16, "m", datetime.now(UTC))
            ws.catalog.exports.record(row, export, hour, done)

    exported(*HOURS)
    begun, _ = begin(ws, spec)
    # An export that is declared while it runs.
    other = ws.catalog.exports.create(row, ExportSpec("other", "s3://lake/other"))
    number = ws.catalog.replays.start_attempt(begun.id)
    results = [ChunkResult(c.chunk_id, 100, 100, 0, 0) for c in ws.catalog.replay_chunks.last(begun.id, 1)]
    ws.catalog.replay_chunks.record(begun.id, number, results)
    ws.catalog.replays.finish(begun.id, number, "succeeded")
    export = other
    exported(HOURS[0])
    assert control.delete_chunks(ws, begun.id) == 1
    assert [(kept.export, kept.hours) for kept in control.kept_for(ws, begun.id)] == [("other", HOURS[1:])]
    exported(HOURS[1])
    assert control.delete_chunks(ws, begun.id) == 1
    assert control.kept_for(ws, begun.id) == ()


class Terminated(BaseException):
    """As Dagster's interrupt: no Exception, and no KeyboardInterrupt."""


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (KeyboardInterrupt(), ("canceled", None)),
        (Terminated(), ("canceled", None)),
        (EngineError("Spark is gone", "Start it"), ("failed", "Spark is gone. Start it")),
    ],
)
def test_an_attempt_that_is_interrupted_is_canceled_and_not_failed(
    ws: Workspace, wire: Wire, s3_client: Any, bucket: str, error: BaseException, ended: tuple[str, str | None]
) -> None:
    archive(ws, s3_client, bucket)
    wire.create_stream("BACK", "back.>")
    begun, _ = begin(ws, TO_BACK)
    with ws.catalog.replays.lock(begun.id):
        attempt.abandon(ws, attempt.start(ws, begun.id).job, error)
    now = status.status(ws, begun.id)
    assert (now.state, now.replay.error) == ended
    assert attempt.start(ws, begun.id).job.attempt == 2


def test_which_archive_is_meant(ws: Workspace, s3_client: Any, bucket: str) -> None:
    archive(ws, s3_client, bucket)
    assert JobSource(None, bucket, "EV").find(ws, Selection(hours=HOURS[::-1])).name == "ev"
    assert JobSource("ev").find(ws, Selection()).name == "ev"
    for source, said in {
        JobSource(None, bucket): "No archive is named",
        JobSource(None, bucket, "OTHER"): "No archive of stream OTHER is in bucket .*There is ev",
        JobSource("ev", "other"): "No archive of stream of any name is in bucket other",
    }.items():
        with pytest.raises(OperatorError, match=said):
            source.find(ws, Selection())
    with pytest.raises(OperatorError, match="has nothing of the hour 2026-11-21-12:00. See the hours of archive ev"):
        JobSource("ev").find(ws, Selection(hours=(HOURS[0], "2026-11-21-12:00")))
