"""An hour that cannot be captured: the others are, each face says which one failed and why, and the sensor goes on."""

import time
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, DagsterRunStatus, RunRequest
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.sensors import backoff
from nats3_dagster.defs.sensors.backoff import FAILED_HOURS_TAG
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ChunkMeta
from nats3_dagster.pipeline.worker import capture_task
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.captures import plan_hours
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.capture_ticks import tick, why
from nats3_dagster_tests.support.dagster.runs import hour_range, materialized, run
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.needs_nats("2.15")
CHUNKS = AssetKey(["events", "chunks"])


@pytest.fixture
def hours(settings: Settings, bucket: str, s3_client: Any) -> list[str]:
    """Three hours that have ended, with messages. The object of the second one is there, with other bytes."""
    start = hour_start(hour_of(time.time_ns() - 4 * HOUR_NS))
    past = [Past(n + 1, start + n * HOUR_NS // 10, "ev.a", b"", b"%d" % n) for n in range(30)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket, max_messages=1)
    hours = [hour_of(start + n * HOUR_NS) for n in range(3)]
    with Workspace(settings) as workspace:
        planned = plan_hours(workspace, workspace.catalog.archives.get("events"), [hours[1]])
        (chunk,) = [o for seqs in planned.tasks(1) for o in capture_task((planned.job, seqs))]
    assert isinstance(chunk, ChunkMeta)
    s3_client.put_object(Bucket=bucket, Key=chunk.key, Body=b"foreign")
    return hours


def test_a_run_goes_on_and_the_sensor_goes_behind_it(
    spark: Any, settings: Settings, wire: Wire, hours: list[str], instance: DagsterInstance
) -> None:
    failed = run(instance, "events_capture", check=False, tags=hour_range(hours[0], hours[-1]))
    assert not failed.success
    assert sorted(materialized(failed, CHUNKS)) == [hours[0], hours[2]]
    error = failed.failure_data_for_node("events__chunks")
    assert error is not None
    assert error.error is not None
    assert f"1 of 3 hours failed. {hours[1]}: archive=events/" in error.error.message
    assert "with other bytes than are to be written. Nothing was changed; move that object away" in error.error.message
    made = instance.get_run_by_id(failed.run_id)
    assert made is not None
    assert made.tags[FAILED_HOURS_TAG] == hours[1]

    said = why(tick(instance))
    assert said.startswith(f"1 ended hour not complete; held back: {hours[1]}. {hours[1]} failed once; next try in ")
    assert "with other bytes than are to be written" in said
    wire.publish([("ev.a", b"", b"now")])
    asked = tick(instance)
    assert isinstance(asked, RunRequest)
    assert asked.partition_key == hour_of(time.time_ns())
    assert f"held back: {hours[1]}" in asked.tags["nats3/why"]


def test_each_failing_hour_waits_by_itself(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = hour_start(hour_of(time.time_ns() - 4 * HOUR_NS))
    past = [Past(n + 1, start + n * HOUR_NS, "ev.a", b"", b"%d" % n) for n in range(3)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    one, two, three = (hour_of(start + n * HOUR_NS) for n in range(3))

    def failed(tags: dict[str, str]) -> None:
        create_run_for_test(instance, job_name="events_capture", status=DagsterRunStatus.FAILURE, tags=tags)

    failed({FAILED_HOURS_TAG: f"{one},{two}"})
    failed({FAILED_HOURS_TAG: one})
    asked = tick(instance)
    assert isinstance(asked, RunRequest)
    assert asked.partition_key == three
    assert asked.tags["nats3/why"] == f"3 ended hours not complete; held back: {one}; held back: {two}"
    failed({FAILED_HOURS_TAG: three})
    said = why(tick(instance))
    assert f"{one} failed 2 times in a row; next try in " in said
    assert f"{two} failed once; next try in " in said
    create_run_for_test(instance, job_name="events_capture", status=DagsterRunStatus.SUCCESS)
    assert "held back" in why(tick(instance)), "what another run achieved says nothing of this hour"
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0)
    asked = tick(instance)
    assert isinstance(asked, RunRequest)
    assert asked.tags["dagster/asset_partition_range_start"] == one


def test_the_command_line_goes_on(spark: Any, settings: Settings, hours: list[str], nats3: Command) -> None:
    done = nats3("store", "run", "events", "-o", "json")
    assert done.status == 1
    assert [row["hour"] for row in done.json] == [hours[0], hours[2]]
    assert f"1 of 3 hours failed. {hours[1]}: archive=events/" in done.err
    with Catalog.connect(settings.postgres) as catalog:
        found = catalog.archives.get("events")
        assert [h.hour for h in catalog.hours.select(found)] == [hours[0], hours[2]]
