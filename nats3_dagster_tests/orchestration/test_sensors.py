"""The capture sensor: what it asks for, what it says when it does not, and how it comes back after failures."""

import time
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    RunRequest,
    SensorResult,
    SkipReason,
    build_sensor_context,
)
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.test_utils import create_run_for_test
from dagster._utils.error import serializable_error_info_from_exc_info

from nats3_dagster.archive.captures.due import Due, due
from nats3_dagster.archive.source.backlog import Backlog
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.project.project import load
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import ArchiveSpec, Gap, Incarnation, SeqRange, StreamState
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.capture_ticks import result, tick, why
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

SPEC = ArchiveSpec("events", "EV", "bucket", max_messages=1000, max_bytes=5000, max_age_s=60)
HOUR = "2026-11-21-07:00"
A, B, C, E = ("2026-11-21-03:00", "2026-11-21-04:00", "2026-11-21-05:00", "2026-11-21-06:00")


@pytest.mark.parametrize(
    ("ended", "waiting", "hours", "why"),
    [
        ((), None, (), "Everything is captured"),
        ((), (999, 4999, 59.0), (), "999 messages wait, the oldest for 59 of 60 s"),
        ((), (1000, 1, 0.0), (HOUR,), "1,000 messages of 1,000"),
        ((), (1, 5000, 0.0), (HOUR,), "5,000 bytes of 5,000"),
        ((), (1, 1, 60.0), (HOUR,), "the oldest message is 60 s old, of 60"),
        ((E,), (1, 1, 1.0), (E,), "1 ended hour not complete"),
        ((E,), (1, 1, 61.0), (E, HOUR), "1 ended hour not complete; the oldest message is 61 s old, of 60"),
        ((A, B, C), None, (A, B), "3 ended hours not complete"),
        ((A, C), None, (A,), "2 ended hours not complete"),
    ],
)
def test_thresholds(
    ended: tuple[str, ...], waiting: tuple[int, int, float] | None, hours: tuple[str, ...], why: str
) -> None:
    """`waiting`: messages, bytes and age of what is not captured of the open hour."""
    messages, size, age_s = waiting or (0, 0, 0.0)
    state = StreamState(Incarnation("EV", 1), 1, 9, 1, 9, 9, 9, {})
    backlog = Backlog(state, ended, HOUR if waiting else None, messages, size, age_s)
    assert due(SPEC, backlog, limit=2) == Due(hours, why)


def cover(settings: Settings, hours_back: int = 0) -> None:
    """Account for all that the stream has now, but for messages younger than that."""
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        found, state = catalog.archives.get("events"), stream_state(link, "EV")
        gap = Gap(state.incarnation, (SeqRange(state.first_seq, state.last_seq - hours_back),), "unselected")
        catalog.chunks.commit(found, [], [gap])


def test_a_stream_is_captured_by_age_and_then_left_alone(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket, max_age_s=2)
    assert why(tick(instance)) == "Everything is captured"
    before = time.monotonic()
    wire.publish([("ev.a", b"", b"x")] * 7)
    said = tick(instance)
    if time.monotonic() - before < 2:
        assert "7 messages wait, the oldest for " in why(said)

    def run_asked_for() -> RunRequest | None:
        said = tick(instance)
        return said if isinstance(said, RunRequest) else None

    asked = eventually(run_asked_for, "a capture is due by age", 10)
    assert asked is not None
    assert time.monotonic() - before > 2
    assert asked.partition_key in (hour_of(time.time_ns()), hour_of(time.time_ns() - HOUR_NS))
    assert asked.run_key is None
    assert "the oldest message is" in asked.tags["nats3/why"] or "ended hour" in asked.tags["nats3/why"]
    cover(settings)
    assert why(tick(instance)) == "Everything is captured"


@pytest.mark.needs_nats("2.15")
def test_a_past_is_captured_by_one_run(settings: Settings, bucket: str, instance: DagsterInstance) -> None:
    start = hour_start(hour_of(time.time_ns() - 48 * HOUR_NS))
    past = [Past(n + 1, start + n * HOUR_NS // 4, "ev.a", b"", b"x") for n in range(160)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    asked = tick(instance)
    assert isinstance(asked, RunRequest)
    assert asked.tags["dagster/asset_partition_range_start"] == hour_of(start)
    assert asked.tags["dagster/asset_partition_range_end"] == hour_of(start + 39 * HOUR_NS)
    assert asked.tags["nats3/why"] == "40 ended hours not complete"
    cover(settings, hours_back=8)
    asked = tick(instance)
    assert isinstance(asked, RunRequest)
    assert asked.tags["dagster/asset_partition_range_start"] == hour_of(start + 38 * HOUR_NS)
    assert asked.tags["dagster/asset_partition_range_end"] == hour_of(start + 39 * HOUR_NS)


def test_a_run_under_way_a_pause_and_failures_hold_it_back_and_say_so(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 5)
    archive(settings, bucket, max_messages=1)
    assert isinstance(tick(instance), RunRequest)

    # Of this code location, or of another one with a prefix.
    for job in ("events_capture", "acme_events_capture"):
        under_way = create_run_for_test(
            instance, job_name=job, status=DagsterRunStatus.STARTING, tags={"nats3/archive": "events"}
        )
        assert why(tick(instance)) == f"Run {under_way.run_id} (starting) captures this archive"
        instance.delete_run(under_way.run_id)
    chunks = frozenset([AssetKey(["events", "chunks"])])
    by_hand = create_run_for_test(
        instance, job_name="__ASSET_JOB", status=DagsterRunStatus.STARTED, asset_selection=chunks
    )
    assert why(tick(instance)) == f"Run {by_hand.run_id} (started) captures this archive"
    instance.delete_run(by_hand.run_id)

    failed = (
        load()
        .resolve_job_def("events_capture")
        .execute_in_process(instance=instance, raise_on_error=False, tags={"dagster/partition": "2001-01-01-00:00"})
    )
    said = why(tick(instance))
    assert said.startswith("Capture failed once; next try in ")
    assert "Archive events has no hour '2001-01-01-00:00'." in said
    for _ in range(2):
        create_run_for_test(instance, job_name="events_capture", status=DagsterRunStatus.FAILURE)
    said = why(tick(instance))
    assert said.startswith("Capture failed 3 times in a row; next try in 1")
    assert failed.run_id not in said
    create_run_for_test(instance, job_name="events_capture", status=DagsterRunStatus.SUCCESS)
    assert isinstance(tick(instance), RunRequest)

    with Catalog.connect(settings.postgres) as catalog:
        catalog.archives.pause("events")
    assert (
        why(tick(instance)) == "Archive events is paused. Resume archive events, in a shell: nats3 store resume events"
    )


def test_a_stream_that_was_made_again_or_is_gone_fails_the_tick(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    wire.api("STREAM.DELETE.EV")
    for number in range(6):
        wire.create_stream(f"other-{number}", f"other.{number}")
    shown = told(instance)
    assert shown.startswith("There is no stream EV at NATS 127.0.0.1:")
    assert ". There is other-0, other-1, other-2, other-3, other-4 and 1 more. Restore the stream" in shown
    assert shown.endswith("delete archive events, in a shell: nats3 store delete events")
    wire.create_stream("EV", "ev.>")
    assert told(instance).startswith("Stream EV was deleted and made again at ")


def test_a_stream_that_forgot_messages_and_a_server_that_is_down_fail_the_tick(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 5)
    archive(settings, bucket)
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        gap = Gap(stream_state(link, "EV").incarnation, (SeqRange(1, 9),), "missing")
        catalog.chunks.commit(catalog.archives.get("events"), [], [gap])
    assert told(instance).startswith("Stream EV ends at sequence 5, and archive events holds it up to 9: ")
    monkeypatch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
    assert told(instance).startswith("Nothing listens for NATS at 127.0.0.1:1. ")


def told(instance: DagsterInstance) -> str:
    """What a failed tick shows: one line, and no frame of ours or of Dagster."""
    with pytest.raises(CannotTick) as error:
        tick(instance)
    shown = serializable_error_info_from_exc_info((error.type, error.value, error.tb))
    assert (shown.stack, shown.cause, shown.message.count("\n")) == ([], None, 0)
    return shown.message


@pytest.mark.parametrize("status", NOT_FINISHED_STATUSES)
@pytest.mark.parametrize("job", ["events_capture", "__ASSET_JOB"])
def test_no_run_beside_one_that_is_not_over(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, job: str, status: DagsterRunStatus
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 5)
    archive(settings, bucket, max_messages=1)
    selected = frozenset([AssetKey(["events", "chunks"])])
    other = frozenset([AssetKey(["other", "chunks"])])
    create_run_for_test(instance, job_name="__ASSET_JOB", status=DagsterRunStatus.STARTED, asset_selection=other)
    for other_job, archive_tag in (("other_capture", "other"), ("events_replay", "events")):
        tags = {"nats3/archive": archive_tag}
        create_run_for_test(instance, job_name=other_job, status=DagsterRunStatus.STARTED, tags=tags)
    assert isinstance(tick(instance), RunRequest)
    # What is queued must say where its code is.
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("nats3"), "__repository__"), job)
    mine = create_run_for_test(
        instance,
        job_name=job,
        status=status,
        asset_selection=selected,
        remote_job_origin=origin,
        tags={"nats3/archive": "events"} if job == "events_capture" else None,
    )
    assert why(tick(instance)) == f"Run {mine.run_id} ({status.value.lower()}) captures this archive"


@pytest.mark.filterwarnings("ignore:Function `AssetSelection.sources`:DeprecationWarning")  # Dagster's own call
def test_no_run_while_a_backfill_goes_on(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 5)
    archive(settings, bucket, max_messages=1)

    def backfill(name: str, asset: str, status: BulkActionStatus) -> PartitionBackfill:
        return PartitionBackfill.from_asset_partitions(
            asset_graph=load().resolve_asset_graph(),
            backfill_id=name,
            tags={},
            backfill_timestamp=time.time(),
            asset_selection=[AssetKey(["events", asset])],
            partition_names=[hour_of(time.time_ns())],
            dynamic_partitions_store=instance,
            all_partitions=False,
            title=None,
            description=None,
            run_config=None,
        ).with_status(status)

    instance.add_backfill(backfill("over", "chunks", BulkActionStatus.COMPLETED_SUCCESS))
    instance.add_backfill(backfill("replays", "replay", BulkActionStatus.REQUESTED))
    assert isinstance(tick(instance), RunRequest)
    instance.add_backfill(backfill("captures", "chunks", BulkActionStatus.REQUESTED))
    assert why(tick(instance)) == "Backfill captures captures this archive"


def test_a_run_that_was_canceled_does_not_come_back_at_once(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"x")] * 5)
    archive(settings, bucket, max_messages=1)
    canceled = create_run_for_test(instance, job_name="events_capture", status=DagsterRunStatus.CANCELED)
    said = why(tick(instance))
    assert said.startswith("Capture failed once; next try in ")
    assert said.endswith(
        f"Run {canceled.run_id} was canceled. To have no more of them, switch this sensor off, or pause the archive "
        "in a shell: nats3 store pause events"
    )


def test_a_stream_that_is_about_to_delete_what_waits_fails_a_check_once(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>", max_msgs=100)
    archive(settings, bucket)
    wire.publish([("ev.a", b"", b"x")] * 49)
    seen = result(instance)
    assert isinstance(seen, SensorResult)
    # The first tick shows that it was looked at; then a change alone is shown.
    assert (seen.cursor, [event.passed for event in evaluations(seen)]) == ("ok", [True])
    assert evaluations(result(instance, cursor="ok")) == []
    steps = [(6, "warn", AssetCheckSeverity.WARN, "55%"), (40, "error", AssetCheckSeverity.ERROR, "95%")]
    for more, level, severity, share in steps:
        wire.publish([("ev.a", b"", b"x")] * more)
        seen = result(instance, cursor=seen.cursor)
        assert isinstance(seen, SensorResult)
        (event,) = seen.asset_events
        assert isinstance(event, AssetCheckEvaluation)
        assert (event.check_name, event.passed, event.severity) == ("capture_keeps_up", False, severity)
        assert event.description == f"The oldest uncaptured message has gone {share} of its way to deletion by max_msgs"
        assert seen.cursor == level
        again = result(instance, cursor=level)
        assert isinstance(again, SensorResult)
        assert again.asset_events == []
    cover(settings)
    seen = result(instance, cursor=seen.cursor)
    assert isinstance(seen, SensorResult)
    (event,) = seen.asset_events
    assert isinstance(event, AssetCheckEvaluation)
    assert event.passed


def evaluations(seen: SensorResult | SkipReason) -> list[AssetCheckEvaluation]:
    assert isinstance(seen, SensorResult)
    return [event for event in seen.asset_events if isinstance(event, AssetCheckEvaluation)]


def checked(seen: SensorResult | SkipReason) -> tuple[bool, AssetCheckSeverity, str] | None:
    """What a tick reported as the check `capture_keeps_up`; None if it reported nothing."""
    assert isinstance(seen, SensorResult)
    if not seen.asset_events:
        return None
    (event,) = seen.asset_events
    assert isinstance(event, AssetCheckEvaluation)
    assert event.check_name == "capture_keeps_up"
    return event.passed, event.severity, event.description or ""


def pause(settings: Settings, *, paused: bool) -> None:
    with Catalog.connect(settings.postgres) as catalog:
        (catalog.archives.pause if paused else catalog.archives.resume)("events")


def test_a_paused_archive_is_a_warning_once_and_an_error_when_it_is_near_to_loss(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>", max_msgs=100)
    archive(settings, bucket)
    to_go_on = "Resume archive events, in a shell: nats3 store resume events"

    def text(share: str) -> str:
        gone = f"The oldest uncaptured message has gone {share} of its way to deletion by max_msgs"
        return f"Paused: nothing is captured. {gone}. {to_go_on}"

    cursor: str | None = None
    warned, failed = AssetCheckSeverity.WARN, AssetCheckSeverity.ERROR
    for messages, paused, shown in [
        # The first look, so that the check is evaluated.
        (10, False, (True, warned, text("10%").removeprefix("Paused: nothing is captured. ").split(". ")[0])),
        (0, True, (False, warned, text("10%"))),
        (50, True, None),
        (35, True, (False, failed, text("95%"))),
        (0, True, None),
        # The same share, and another text.
        (0, False, (False, failed, text("95%").removeprefix("Paused: nothing is captured. ").split(". ")[0])),
        (0, True, (False, failed, text("95%"))),
    ]:
        pause(settings, paused=paused)
        wire.publish([("ev.a", b"", b"x")] * messages)
        seen = result(instance, cursor)
        assert checked(seen) == shown
        assert isinstance(seen, SensorResult)
        if paused:
            assert seen.run_requests == []
            assert "Archive events is paused. " + to_go_on in str(seen.skip_reason)
        cursor = seen.cursor
    cover(settings)
    pause(settings, paused=False)
    seen = checked(result(instance, cursor))
    assert seen is not None
    assert seen[0]


def test_a_paused_archive_whose_server_is_down_is_a_warning_too(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    pause(settings, paused=True)
    with monkeypatch.context() as down:
        down.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
        seen = result(instance, "ok")
        passed, severity, text = checked(seen) or (True, None, "")
        assert (passed, severity) == (False, AssetCheckSeverity.WARN)
        assert text.startswith("Paused: nothing is captured, and how near that is to loss is unknown. Nothing listens ")
        assert isinstance(seen, SensorResult)
        assert "is unknown: Nothing listens for NATS at 127.0.0.1:1. " in str(seen.skip_reason)
        assert checked(result(instance, seen.cursor)) is None
    # Then it is known, and shown once.
    seen = result(instance, seen.cursor)
    assert "No limit of the stream deletes messages" in (checked(seen) or ("", "", ""))[2]
    assert isinstance(seen, SensorResult)
    assert checked(result(instance, seen.cursor)) is None


def test_a_sensor_that_has_outlived_its_archive_says_so(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    """Between `store delete` and the reload."""
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    defs = load()
    with Catalog.connect(settings.postgres) as catalog:
        catalog.archives.delete("events")
    for name in ("events_capture_sensor", "events_seal_sensor"):
        sensor: Any = defs.resolve_sensor_def(name)
        said = sensor(build_sensor_context(instance=instance, definitions=defs))
        assert why(said) == "Archive events was deleted: reload the code location, and this sensor is gone"


@pytest.mark.needs_nats("2.15")
def test_a_message_of_1970_does_not_hold_up_the_others(
    spark: Any, settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    """A device stored it before its clock was set: Dagster gets no half a million partitions for it, and no failure."""
    now = time.time_ns()
    past = [Past(n + 1, time_ns, "ev.a", b"", b"x") for n, time_ns in enumerate([600 * 10**9, now - 2 * HOUR_NS, now])]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket, max_age_s=1)
    asked: list[tuple[str | None, str | None]] = []
    for _ in range(4):
        said = tick(instance)
        if isinstance(said, SkipReason):
            break
        asked.append((said.partition_key, said.tags.get("nats3/earlier")))
        job = load().resolve_job_def("events_capture")
        partition = {"dagster/partition": said.partition_key} if said.partition_key else {}
        assert job.execute_in_process(instance=instance, tags={**said.tags, **partition}).success
    # With the first partition, which is the hour in which the archive was created.
    assert asked[:2] == [(hour_of(now), "1970-01-01-00:00"), (hour_of(now), hour_of(now - 2 * HOUR_NS))]
    with Catalog.connect(settings.postgres) as catalog:
        found = catalog.archives.get("events")
        assert sum(c.meta.messages for c in catalog.chunks.select(found)) == 3
        # Once captured, an hour of before the archive was created is a partition like any other.
        (totals,) = catalog.archives.totals()
    assert hour_of(totals.begins_ns) == hour_of(now - 2 * HOUR_NS)
    assert why(tick(instance)) == "Everything is captured"
