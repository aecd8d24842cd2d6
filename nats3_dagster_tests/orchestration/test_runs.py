"""Runs in process: what a capture and a replay do to the archive, the target and Dagster's asset events."""

import time
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetRecordsFilter,
    DagsterEventType,
    DagsterInstance,
    DagsterRun,
    ReexecutionOptions,
    execute_job,
)
from dagster._core.definitions.reconstruct import ReconstructableRepository

from nats3_dagster.archive.status import contents
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.assets.marks import MARKS
from nats3_dagster.defs.keys import REPLAY_TAG
from nats3_dagster.defs.project.project import load
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, parse_time
from nats3_dagster.model import Gap, SeqRange
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.daemon import Daemon
from nats3_dagster_tests.support.dagster.runs import hour_range, materialized, run
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
CHUNKS, REPLAY = AssetKey(["events", "chunks"]), AssetKey(["events", "replay"])


@pytest.mark.s3
def test_capture_of_several_hours_materializes_each(
    spark: Any, settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([(f"ev.{n % 3}", b"", b'{"n": %d}' % n) for n in range(500)])
    archive(settings, bucket)
    first = hour_of(parse_time(wire.state("EV")["first_ts"]))
    before = hour_of(parse_time(first) - HOUR_NS)
    # The hour before the stream's first message is no partition of the archive.
    refused = run(instance, "events_capture", check=False, tags={"dagster/partition": before})
    assert not refused.success
    (failure,) = [e for e in refused.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    assert failure.step_failure_data.user_failure_data is not None
    assert f"Archive events has no hour '{before}'." in str(failure.step_failure_data.user_failure_data.description)

    last = hour_of(time.time_ns())
    done = materialized(run(instance, "events_capture", tags=hour_range(first, last)), CHUNKS)
    assert sorted(done) == sorted({first, last})
    said = done[first]
    assert sum(m["messages"] for m in done.values()) == 500
    assert said["dagster/partition_row_count"] == said["messages"] == said["messages_added"]
    assert said["chunks"] >= 1
    assert said["gaps"] == said["sequences_lost"] == 0
    assert said["first_sequence"] == 1
    assert said["dagster/uri"] == f"s3://{bucket}/archive=events/date={first[:10]}/hour={first[11:13]}/"
    assert said["chunk_table"].records[0].data["sequences"].startswith("1-")
    assert said["last_time"] >= said["first_time"] > parse_time(first) / 1e9
    assert said["plot"].startswith("![messages per minute](data:image/svg+xml;base64,")
    assert said["ratio"] > 1
    assert said["messages_per_s"] > 0

    again = materialized(run(instance, "events_capture", tags={"dagster/partition": first}), CHUNKS)
    assert again[first]["messages"] == said["messages"]
    assert again[first]["messages_added"] == 0
    # By its marks the catalog sensor knows that Dagster has all of it; they are not among what people read.
    assert {*done[first], *again[first]}.isdisjoint(MARKS)
    assert Daemon(instance).tick() == []
    # The second capture found nothing, and the version is that of the catalog.
    chosen = AssetRecordsFilter(CHUNKS, asset_partitions=[first])
    events = [record.asset_materialization for record in instance.fetch_materializations(chosen, limit=9).records]
    with Workspace(settings) as workspace:
        version = contents(workspace, workspace.catalog.archives.get("events"), [first])[first]
    assert [event and (event.tags or {}).get("dagster/data_version") for event in events] == [version] * 2
    observed = instance.fetch_observations(AssetKey(["jetstream", "EV"]), limit=1).records[0].asset_observation
    assert observed is not None
    assert observed.metadata["messages"].value == 500
    assert observed.metadata["events_behind"].value == 0


def config(step: str, **fields: Any) -> dict[str, Any]:
    return {"ops": {step: {"config": fields}}}


def test_a_replay_without_a_target_fails_before_it_starts_anything(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the UI launches it when nobody gave a config."""
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    # Before Spark NATS is tried: it is not even that far.
    monkeypatch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
    job = load().resolve_job_def("__ASSET_JOB")
    tags = {"dagster/partition": hour_of(time.time_ns())}
    ran = job.execute_in_process(instance=instance, raise_on_error=False, tags=tags, asset_selection=[REPLAY])
    (failure,) = [e for e in ran.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    assert failure.step_failure_data.error is not None
    assert failure.step_failure_data.error.message == (
        'This replay has no write_subject: nothing says where to publish. Give the run a config ("Add config" '
        'where its hours are chosen): ops: {events__replay: {config: {write_subject: "replay.>"}}}'
    )


@pytest.mark.needs_nats("2.15")
def test_hours_are_replayed_as_one_replay_in_order_and_a_dry_run_materializes_nothing(
    spark: Any, settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    first_ns = parse_time(hour_of(time.time_ns() - 4 * HOUR_NS))
    past = [Past(n + 1, first_ns + n * HOUR_NS // 100, f"ev.{n % 4}", b"", b"%d" % n) for n in range(500)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    archive(settings, bucket)
    hours = [hour_of(first_ns + n * HOUR_NS) for n in range(5)]
    captured = materialized(run(instance, "events_capture", tags=hour_range(hours[0], hours[4])), CHUNKS)
    assert [captured[h]["messages"] for h in hours] == [100] * 5
    assert [captured[h]["first_sequence"] for h in hours] == [1, 101, 201, 301, 401]

    tags = hour_range(hours[1], hours[4])
    wanted = {"read_subject": "ev.*", "write_subject": "back.{{wildcard(1)}}"}
    refused = run(instance, "events_replay", tags=tags, run_config=config("events__replay", **wanted), check=False)
    assert [str(e.message) for e in refused.all_events if e.event_type == DagsterEventType.STEP_FAILURE]
    assert "No stream listens on back.*" in str(refused.failure_data_for_node("events__replay"))

    wire.create_stream("BACK", "back.>")
    dry = run(instance, "events_replay", tags=tags, run_config=config("events__replay", **wanted, dry_run=True))
    assert materialized(dry, REPLAY) == {}
    seen = instance.fetch_observations(REPLAY, limit=1).records[0].asset_observation
    assert seen is not None
    assert "| messages | 400 |" in str(seen.metadata["plan"].value)
    assert wire.state("BACK")["messages"] == 0
    # A backfill would end as failed, and its run as a success.
    backfill = {**tags, "dagster/backfill": "abcdefgh"}
    asked = config("events__replay", **wanted, dry_run=True)
    refused = run(instance, "__ASSET_JOB", tags=backfill, run_config=asked, check=False, asset_selection=[REPLAY])
    assert "A dry run materializes nothing, and Dagster counts the hours of a backfill as failed then. " in str(
        refused.failure_data_for_node("events__replay")
    )

    done = materialized(
        run(instance, "events_replay", tags=tags, run_config=config("events__replay", **wanted)), REPLAY
    )
    counts = {h: (m["messages"], m["published"], m["found_in_target"]) for h, m in done.items()}
    assert counts == dict.fromkeys(hours[1:], (100, 100, 0))
    assert len({m["replay"] for m in done.values()}) == 1
    back = list(wire.messages("BACK"))
    assert [(m.subject, m.data) for m in back] == [(f"back.{n % 4}", b"%d" % n) for n in range(100, 500)]

    window = {"from_time": hours[0], "to_time": hours[1], "sequences": "50-59", "archive": "events"}
    run(instance, "replay", run_config=config("replay_window", **wanted, **window))
    assert [m.data for m in wire.messages("BACK")][400:] == [b"%d" % n for n in range(49, 59)]
    (latest,) = instance.fetch_observations(REPLAY, limit=1).records
    assert latest.asset_observation is not None
    assert latest.asset_observation.metadata["published"].value == 10


def test_a_run_that_is_re_executed_continues_its_replay(
    spark: Any, settings: Settings, wire: Wire, bucket: str, tmp_path: Path
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(300)])
    archive(settings, bucket)
    full = {"name": "BACK", "subjects": ["back.a"], "storage": "file", "discard": "new"}
    wire.api("STREAM.CREATE.BACK", **full, max_msgs=120)
    wire.create_stream("OTHER", "back.other")  # with two targets the plan does not know what each of them takes
    first, last = (hour_of(parse_time(wire.state("EV")[end])) for end in ("first_ts", "last_ts"))
    chosen = config("events__replay", read_subject="ev.>", write_subject="back.>")
    with DagsterInstance.local_temp(str(tmp_path)) as instance:
        repository = ReconstructableRepository.for_module("nats3_dagster.definitions", "defs", str(ROOT))

        hours = hour_range(first, last)

        def replay(again: DagsterRun | None = None) -> DagsterRun:
            job = repository.get_reconstructable_job("events_replay")
            options = ReexecutionOptions(again.run_id) if again else None
            with execute_job(job, instance, run_config=chosen, tags=hours, reexecution_options=options) as done:
                run = instance.get_run_by_id(done.run_id)
                assert run is not None
                return run

        run(instance, "events_capture", tags=hours)
        stopped = replay()
        assert stopped.is_failure
        assert wire.state("BACK")["messages"] == 120

        wire.api("STREAM.UPDATE.BACK", **full, max_msgs=-1)
        continued = replay(stopped)
        assert continued.is_success
        assert [m.data for m in wire.messages("BACK")] == [b"%d" % n for n in range(300)]
        assert continued.tags[REPLAY_TAG] == stopped.tags[REPLAY_TAG]
        with Catalog.connect(settings.postgres) as catalog:
            (record,) = catalog.replays.select()
            assert (record.id, record.state, record.attempt) == (continued.tags[REPLAY_TAG], "succeeded", 2)
            assert record.run_ids == (stopped.run_id, continued.run_id)
            assert (record.published, record.found) == (180, 120)

        # The failed run again: nothing is left to publish. The one that succeeded again: somebody wants it once more.
        assert replay(stopped).is_success
        assert wire.state("BACK")["messages"] == 300
        assert replay(continued).is_success
        assert wire.state("BACK")["messages"] == 600


def test_checks_see_a_hole_and_a_damaged_chunk(
    spark: Any, settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, s3_client: Any
) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(100)])
    archive(settings, bucket)
    tags = hour_range(*(hour_of(parse_time(wire.state("EV")[end])) for end in ("first_ts", "last_ts")))
    captured = run(instance, "events_capture", tags=tags)
    checked = {e.check_name: e.passed for e in captured.get_asset_check_evaluations()}
    assert checked == {"no_gaps": True, "capture_keeps_up": True}

    def check(sample: int) -> dict[str, AssetCheckEvaluation]:
        done = run(instance, "checks", run_config=config("events__checks", sample=sample))
        return {e.check_name: e for e in done.get_asset_check_evaluations()}

    assert all(e.passed for e in check(0).values())
    with Catalog.connect(settings.postgres) as catalog:
        found = catalog.archives.get("events")
        key = catalog.chunks.select(found)[0].meta.key
        body = bytearray(s3_client.get_object(Bucket=bucket, Key=key)["Body"].read())
        body[len(body) // 2] ^= 1
        s3_client.put_object(Bucket=bucket, Key=key, Body=bytes(body))
        # The stream goes on past the hole, or it would be one that forgot what the archive holds.
        wire.publish([("ev.a", b"", b"later")] * 30)
        (coverage,) = catalog.coverage.all(found)
        beyond = SeqRange(coverage.last + 10, coverage.last + 20)
        catalog.chunks.commit(found, [], [Gap(coverage.incarnation, (beyond,), "expired")])
    seen = check(1)
    assert {name: e.passed for name, e in seen.items()} == {
        "no_gaps": False,
        "capture_keeps_up": True,
        "chunks_intact": False,
        "kept_as_promised": True,
    }
    assert seen["no_gaps"].description == "9 sequences are in no chunk and no gap"
    assert seen["no_gaps"].metadata["sequences_expired"].value == 11
    assert "should have" in str(seen["chunks_intact"].metadata["damages"].value)
    assert seen["chunks_intact"].description == "1 of 1 chunks verified are damaged"
