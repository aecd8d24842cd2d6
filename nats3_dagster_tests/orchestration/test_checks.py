"""Checks of an archive: they answer what the command line does, because they ask the same functions."""

from typing import Any

import psycopg
import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckSeverity,
    AssetMaterialization,
    DagsterInstance,
    SensorResult,
    build_sensor_context,
)

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.checks import check_sensor
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.defs.project.project import load
from nats3_dagster.hours import hour_of, parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Gap, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire


def check(instance: DagsterInstance, **config: Any) -> dict[str, AssetCheckEvaluation]:
    """The evaluations of the job `checks`."""
    run_config = {"ops": {"events__checks": {"config": config}}}
    done = load().resolve_job_def("checks").execute_in_process(instance=instance, run_config=run_config)
    return {e.check_name: e for e in done.get_asset_check_evaluations()}


def tick(instance: DagsterInstance) -> SensorResult:
    """A tick of the capture sensor, the last of which found nothing near to loss."""
    defs = load()
    sensor: Any = defs.resolve_sensor_def("events_capture_sensor")
    result = sensor(build_sensor_context(instance=instance, definitions=defs, cursor="ok"))
    assert isinstance(result, SensorResult)
    return result


def test_checks_older_than_the_hours_are_asked_for_once_an_hour(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    archive(settings, bucket, "other")
    defs = load()
    sensor: Any = defs.resolve_sensor_def("check_sensor")

    def asked(cursor: str | None) -> tuple[set[str], str]:
        """The checks that a tick asks for, and its cursor."""
        result = sensor(build_sensor_context(instance=instance, definitions=defs, cursor=cursor))
        assert isinstance(result, SensorResult)
        keys = [key for request in result.run_requests or () for key in request.asset_check_keys or ()]
        return {key.to_user_string() for key in keys}, result.cursor or cursor or ""

    every = {f"events/chunks:{name}" for name in ("no_gaps", "chunks_intact", "capture_keeps_up", "kept_as_promised")}
    # Nothing was ever materialized; then hours are, and may still be followed by others.
    assert asked(None) == (set(), "")
    instance.report_runless_asset_event(AssetMaterialization(["events", "chunks"], partition="2026-11-21-07:00"))
    assert asked(None) == (set(), "")
    monkeypatch.setattr(check_sensor, "QUIET_S", 0.0)
    wanted, cursor = asked(None)
    assert wanted == every
    assert asked(cursor) == (set(), cursor)
    # In the next hour again, unless they were evaluated.
    assert asked('{"events": "2026-11-21-07:00"}')[0] == every
    check(instance)
    assert asked(None) == (set(), "")

    # A run that is to evaluate them, of one archive, keeps no other archive from being looked at.
    instance.report_runless_asset_event(AssetMaterialization(["events", "chunks"], partition="2026-11-21-08:00"))
    instance.report_runless_asset_event(AssetMaterialization(["other", "chunks"], partition="2026-11-21-07:00"))
    planned = instance.create_run_for_job(defs.resolve_job_def("checks"), op_selection=["events__checks"])
    (record,) = [
        instance.get_latest_asset_check_evaluation_record(PROJECT.check_key("events", name)) for name in ("no_gaps",)
    ]
    assert record is not None
    assert record.run_id == planned.run_id
    others = {key.replace("events/", "other/") for key in every}
    assert asked(None)[0] == others
    instance.report_run_canceled(planned)
    assert asked(None)[0] == every | others


def test_a_stream_that_refuses_what_is_new_deletes_nothing(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    """950 of 1,000 messages wait, and the stream discards new ones: no limit of it deletes an old one."""
    wire.create_stream("EV", "ev.>", max_msgs=1000, discard="new")
    archive(settings, bucket)
    wire.publish([("ev.a", b"", b"x")] * 950)
    ticked = tick(instance)
    assert (ticked.cursor, ticked.asset_events) == ("ok", [])
    evaluation = check(instance)["capture_keeps_up"]
    assert (evaluation.passed, evaluation.description) == (True, "No limit of the stream deletes messages")
    assert evaluation.metadata["limit"].value == "none"


def test_one_message_at_the_head_of_a_full_stream_is_the_next_to_be_lost(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>", max_msgs=100)
    archive(settings, bucket)
    wire.publish([("ev.a", b"", b"x")] * 100)
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        gap = Gap(stream_state(link, "EV").incarnation, (SeqRange(2, 100),), "unselected")
        catalog.chunks.commit(catalog.archives.get("events"), [], [gap])
    text = "The oldest uncaptured message has gone 100% of its way to deletion by max_msgs"
    ticked = tick(instance)
    (event,) = ticked.asset_events
    assert isinstance(event, AssetCheckEvaluation)
    evaluation = check(instance)["capture_keeps_up"]
    for seen in (event, evaluation):
        assert (seen.passed, seen.severity, seen.description) == (False, AssetCheckSeverity.ERROR, text)
        assert {name: value.value for name, value in seen.metadata.items()} == {
            "used": 1.0,
            "limit": "max_msgs",
            "sequences_gone": 0,
            "waits_hours": 0.0,
            # By the archive's max_age of 30 s.
            "warns_after_s": 4530,
            "fails_after_s": 90930,
        }
    assert ticked.cursor == "error"


def test_the_job_says_of_a_paused_archive_what_the_sensor_says(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>", max_msgs=100)
    archive(settings, bucket)
    for messages, severity in ((10, AssetCheckSeverity.WARN), (85, AssetCheckSeverity.ERROR)):
        wire.publish([("ev.a", b"", b"x")] * messages)
        with Catalog.connect(settings.postgres) as catalog:
            catalog.archives.pause("events")
        (event,) = tick(instance).asset_events
        assert isinstance(event, AssetCheckEvaluation)
        evaluation = check(instance)["capture_keeps_up"]
        assert (evaluation.passed, evaluation.severity) == (event.passed, event.severity) == (False, severity)
        assert evaluation.description == event.description
        assert evaluation.metadata == event.metadata
    with Catalog.connect(settings.postgres) as catalog:
        catalog.archives.resume("events")
    assert not (check(instance)["capture_keeps_up"].description or "").startswith("Paused")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        # The same sum in other minutes: what Postgres checks by itself holds.
        ("update nats3.chunk set minutes = minutes[2:] || minutes[1]", "minutes"),
        ("update nats3.chunk_subject set subject = 'ev.b'", "subjects"),
    ],
)
def test_a_chunk_of_which_the_catalog_counts_something_else_is_damaged(
    spark: Any, settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, change: str, field: str
) -> None:
    """As `nats3 chunk verify` says: the object is whole, and what is kept of it is not what it holds."""
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(100)])
    archive(settings, bucket)
    tags = {"dagster/partition": hour_of(parse_time(wire.state("EV")["last_ts"]))}
    assert load().resolve_job_def("events_capture").execute_in_process(instance=instance, tags=tags).success
    assert check(instance, sample=0)["chunks_intact"].passed
    with psycopg.connect(settings.postgres) as connection:
        connection.execute("alter table nats3.chunk disable trigger user")
        connection.execute(change.encode())
    for sample in (0, 1):
        evaluation = check(instance, sample=sample)["chunks_intact"]
        assert (evaluation.passed, evaluation.metadata["damaged"].value) == (False, 1)
        assert f"The catalog has other {field} for " in str(evaluation.metadata["damages"].value)
