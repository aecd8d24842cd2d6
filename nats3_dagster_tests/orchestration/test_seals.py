"""Sealing by the sensor: each closed hour, once it is complete, however many came between two ticks."""

from typing import Any

import pytest
from dagster import (
    AssetCheckKey,
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    RunRequest,
    SensorResult,
    SkipReason,
    asset,
)
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.catalog import Catalog
from nats3_dagster.chunks.manifest import decode_manifest
from nats3_dagster.defs.keys import SEAL_TAG
from nats3_dagster.defs.project.project import load
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import stream_state
from nats3_dagster.model import Gap, SeqRange
from nats3_dagster.objects import Bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.daemon import CHUNKS, SEALED
from nats3_dagster_tests.support.dagster.seal_ticks import asked, execute, failure, tick
from nats3_dagster_tests.support.dagster.stories import archive, captured, hold, past
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]


def asked_hours(request: RunRequest) -> tuple[str, str]:
    return request.tags["dagster/asset_partition_range_start"], request.tags["dagster/asset_partition_range_end"]


def why(said: SensorResult) -> str:
    assert said.skip_reason is not None
    return (said.skip_reason.skip_message if isinstance(said.skip_reason, SkipReason) else said.skip_reason) or ""


def test_two_hundred_hours_that_came_between_two_ticks(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    hours = past(settings, 200)
    archive(settings, bucket)
    assert why(tick(instance)) == "Every complete hour is sealed"
    hold(settings, bucket, hours)
    (request,) = asked(tick(instance))
    assert asked_hours(request) == (hours[0], hours[-1])
    assert [key.name for key in request.asset_check_keys or ()] == ["no_gaps", "chunks_intact"]
    assert execute(instance, request, checks=False).success
    assert instance.get_materialized_partitions(SEALED) == set(hours)
    said = tick(instance)
    assert why(said) == "Every complete hour is sealed"
    assert why(tick(instance, said.cursor)) == "Nothing changed since every complete hour was sealed"
    with Catalog.connect(settings.postgres) as catalog:
        seals = catalog.seals.select(catalog.archives.get("events"))
    assert [(s.hour, s.messages, s.valid) for s in seals] == [(hour, 1, True) for hour in hours]
    assert {s.dagster_run_id for s in seals} == {r.run_id for r in instance.get_runs()}


def test_an_archive_made_again_is_sealed_again(settings: Settings, bucket: str, instance: DagsterInstance) -> None:
    hours = captured(settings, bucket, 2)
    with Workspace(settings) as workspace:
        assert len(list(seal_hours(workspace, workspace.catalog.archives.get("events"), hours))) == 2
        cursor = tick(instance).cursor
        delete(workspace, "events", purge=True)
    archive(settings, bucket)
    hold(settings, bucket, hours)
    # As many changes, in the same hour, as those of the earlier archive when its sensor left off.
    (request,) = asked(tick(instance, cursor))
    assert asked_hours(request) == (hours[0], hours[-1])


def test_hours_captured_by_spark_are_sealed_with_their_checks(
    spark: Any, settings: Settings, s3: Any, bucket: str, instance: DagsterInstance
) -> None:
    hours = past(settings, 4, every=2)
    archive(settings, bucket)
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[2]}
    assert load().resolve_job_def("events_capture").execute_in_process(instance=instance, tags=tags).success
    (request,) = asked(tick(instance))
    done = execute(instance, request)
    assert done.success, failure(done)
    assert {e.check_name: e.passed for e in done.get_asset_check_evaluations()} == {
        "no_gaps": True,
        "chunks_intact": True,
    }
    # An hour without a message is known to be so: it does not look as if it lacked something.
    assert instance.get_materialized_partitions(SEALED) == set(hours)
    assert instance.get_materialized_partitions(CHUNKS) == set(hours)
    with Catalog.connect(settings.postgres) as catalog:
        seals = catalog.seals.select(catalog.archives.get("events"))
    manifests = [decode_manifest(bytes(Bucket(s3, bucket).get(s.key))) for s in seals]
    assert [m.messages for m in manifests] == [1, 0, 1, 0]
    (event,) = [r for r in instance.fetch_materializations(SEALED, limit=9).records if r.partition_key == hours[2]]
    assert event.asset_materialization is not None
    metadata = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert metadata["dagster/uri"] == f"s3://{bucket}/{seals[2].key}"
    assert (metadata["messages"], metadata["chunks"], metadata["seal"]) == (1, 1, 1)


def test_every_hour_that_is_asked_for_is_materialized_in_its_run(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    """A backfill counts an hour without an event in a run of its own as failed, also where it was sealed before: by a
    shell, by another run, or by the backfill before it. A step after `sealed` in the same run is not skipped."""
    hours = captured(settings, bucket, 4)
    with Workspace(settings) as workspace:
        assert len(list(seal_hours(workspace, workspace.catalog.archives.get("events"), hours[:2]))) == 2
    wanted = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[3]}

    def events(result: Any) -> list[tuple[str, str]]:
        assert result.success, failure(result)
        found = [e for e in result.get_asset_materialization_events() if e.asset_key != CHUNKS]
        return [(e.asset_key.path[-1], e.partition) for e in found]

    request = RunRequest(asset_selection=[SEALED], tags=wanted)
    for _ in range(2):
        assert events(execute(instance, request, checks=False)) == [("sealed", hour) for hour in hours]
    # The sensor asks for what changed, and assets that depend on it are not asked to run for what did not.
    by_sensor = RunRequest(asset_selection=[SEALED], tags={**wanted, SEAL_TAG: "events"})
    assert events(execute(instance, by_sensor, checks=False)) == []

    partitions = load().resolve_asset_graph().get(SEALED).partitions_def

    @asset(deps=[SEALED], partitions_def=partitions)
    def counted() -> None: ...

    merged = Definitions.merge(load(), Definitions([counted]))
    job = merged.resolve_implicit_global_asset_job_def().get_subset(asset_selection={SEALED, counted.key})
    together = events(job.execute_in_process(instance=instance, raise_on_error=False, tags=wanted))
    assert {*together} == {(name, hour) for name in ("sealed", "counted") for hour in hours}


def test_an_hour_that_lacks_a_message_waits_and_one_that_changed_is_sealed_again(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    hours = past(settings, 6)
    archive(settings, bucket)
    hold(settings, bucket, hours[:2])
    hold(settings, bucket, hours[4:], first=5)
    assert [asked_hours(request) for request in asked(tick(instance))] == [(hours[0], hours[0]), (hours[5], hours[5])]
    # By hand, the hours that can be sealed are; the run says which cannot.
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[5]}
    by_hand = execute(instance, RunRequest(asset_selection=[SEALED], tags=tags), checks=False)
    assert not by_hand.success
    assert f"Archive events is not complete in {', '.join(hours[1:5])}" in failure(by_hand)
    assert instance.get_materialized_partitions(SEALED) == {hours[0], hours[5]}
    hold(settings, bucket, hours[2:4], first=3)
    (request,) = asked(tick(instance))
    assert asked_hours(request) == (hours[1], hours[4])


def test_a_hole_that_can_no_longer_be_filled_stops_the_seal(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    """Until a capture has recorded it as lost: a blocking check, in the same run."""
    hours = past(settings, 3)
    archive(settings, bucket)
    hold(settings, bucket, hours[:1])
    hold(settings, bucket, hours[2:], first=3)
    wire.api("STREAM.PURGE.EV", seq=3)
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        catalog.coverage.observe(catalog.archives.get("events"), stream_state(link, "EV"))
        assert asked(tick(instance)) == []
        blocked = RunRequest(
            asset_selection=[SEALED],
            asset_check_keys=[AssetCheckKey(CHUNKS, "no_gaps")],
            tags={"dagster/partition": hours[0]},
        )
        done = execute(instance, blocked)
        assert not done.success
        assert "no_gaps" in failure(done)
        assert catalog.seals.select(catalog.archives.get("events")) == ()
        assert catalog.coverage.missing(
            catalog.archives.get("events"),
            catalog.coverage.incarnations(catalog.archives.get("events"))[0],
            SeqRange(1, 3),
        ) == (SeqRange(2, 2),)


def metadata(instance: DagsterInstance, key: AssetKey) -> dict[str | None, dict[str, Any]]:
    """Of the materializations, by partition."""
    found: dict[str | None, dict[str, Any]] = {}
    for record in instance.fetch_materializations(key, limit=20).records:
        assert record.asset_materialization is not None
        found[record.partition_key] = {n: value.value for n, value in record.asset_materialization.metadata.items()}
    return found


def test_hours_that_may_have_lost_something_show_it(settings: Settings, bucket: str, instance: DagsterInstance) -> None:
    hours = past(settings, 4)
    archive(settings, bucket)
    hold(settings, bucket, hours[:1])
    hold(settings, bucket, hours[3:], first=4)
    with Catalog.connect(settings.postgres) as catalog, Link(settings.nats) as link:
        gap = Gap(stream_state(link, "EV").incarnation, (SeqRange(2, 3),), "expired")
        catalog.chunks.commit(catalog.archives.get("events"), [], [gap])
    (request,) = asked(tick(instance))
    # Without the other check: these chunks have no objects.
    checked = [AssetCheckKey(CHUNKS, "no_gaps")]
    done = execute(instance, RunRequest(asset_selection=[SEALED], asset_check_keys=checked, tags=request.tags))
    assert done.success, failure(done)
    (check,) = done.get_asset_check_evaluations()
    assert check.description == "Every sequence is accounted for: not in the archive are 2 expired"
    assert {hour: said["missing_in_gaps"] for hour, said in metadata(instance, SEALED).items()} == dict.fromkeys(
        hours, 2
    )
    # Those that Dagster did not have: an hour of chunks comes before its seal.
    assert {hour: said["gaps"] for hour, said in metadata(instance, CHUNKS).items()} == dict.fromkeys(hours, 2)


def test_one_bad_hour_stops_neither_the_others_nor_the_command(
    settings: Settings, bucket: str, instance: DagsterInstance, s3_client: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    hours = captured(settings, bucket, 3)
    with Workspace(settings) as workspace:
        _, bad, _ = seal_hours(workspace, workspace.catalog.archives.get("events"), hours)
        delete(workspace, "events")
    # The archive is made again, and somebody has put another object where the manifest of an hour goes.
    archive(settings, bucket)
    hold(settings, bucket, hours)
    s3_client.put_object(Bucket=bucket, Key=bad.key, Body=b"other")
    (request,) = asked(tick(instance))
    done = execute(instance, request, checks=False)
    assert not done.success
    assert f"Hour {hours[1]} of archive events was not sealed: {bad.key} is in the bucket" in failure(done)
    assert instance.get_materialized_partitions(SEALED) == {hours[0], hours[2]}
    ran = Command(capfd)("store", "seal", "events", "-o", "json")
    assert (ran.status, ran.json["sealed"], ran.json["not_sealed"]) == (1, 2, 1)
    assert ran.error.startswith(f"Error: Hour {hours[1]} of archive events was not sealed: ")


def test_one_at_a_time_and_not_at_once_after_a_failure(
    settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    captured(settings, bucket, 2)
    tags = {SEAL_TAG: "events"}
    run = create_run_for_test(instance, job_name="__ASSET_JOB", tags=tags, status=DagsterRunStatus.STARTED)
    assert why(tick(instance)) == f"Run {run.run_id} seals hours of this archive"
    instance.report_run_failed(run)
    assert "Sealing failed once; next try in " in why(tick(instance))
    instance.delete_run(run.run_id)
    assert len(asked(tick(instance))) == 1


def test_while_the_stream_does_not_answer_only_what_is_certain_is_sealed(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    hours = captured(settings, bucket, 3)
    wire.api("STREAM.DELETE.EV")
    (request,) = asked(tick(instance))
    assert asked_hours(request) == (hours[0], hours[1])
    with Workspace(settings) as workspace:
        list(seal_hours(workspace, workspace.catalog.archives.get("events"), hours[:2]))
    said = tick(instance)
    assert "There is no stream EV" in why(said)
    assert said.cursor is None
