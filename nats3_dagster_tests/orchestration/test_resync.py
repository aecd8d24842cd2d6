"""Dagster's storage is lost: the catalog gives back which hours are captured, sealed and replayed."""

import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance

from nats3_dagster.defs.project.project import load
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.stories import archive
from nats3_dagster_tests.support.wire import Wire

ASSETS = [AssetKey(["events", name]) for name in ("chunks", "sealed", "replay")]


def known() -> list[set[str]]:
    with DagsterInstance.get() as instance:
        return [instance.get_materialized_partitions(key) for key in ASSETS]


def execute(job: str, first: str, last: str, **config: Any) -> str:
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    with DagsterInstance.get() as instance:
        defs = load()
        found = (
            defs.resolve_job_def(job)
            if job != "seal"
            else defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={ASSETS[1]})
        )
        done = found.execute_in_process(instance=instance, tags=tags, run_config=config or None)
        assert done.success
        return done.run_id


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(60)
def test_partition_status_is_right_again(
    spark: Any,
    settings: Settings,
    wire: Wire,
    bucket: str,
    dagster_home: Path,
    nats3: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = hour_start(hour_of(time.time_ns())) - 4 * HOUR_NS
    hours = [hour_of(start + n * HOUR_NS) for n in range(4)]
    past = [Past(n + 1, start + n // 5 * 2 * HOUR_NS + n, "ev.a", b"", b"x") for n in range(10)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)
    wire.create_stream("BACK", "back.>")
    archive(settings, bucket)
    captured = execute("events_capture", hours[0], hours[2])
    execute("seal", hours[0], hours[3])
    how = {"write_subject": "back.>"}
    replayed = execute("events_replay", hours[0], hours[2], ops={"events__replay": {"config": how}})
    before = known()
    assert before == [set(hours), set(hours), set(hours[:3])]

    monkeypatch.setenv("NATS3_DAGSTER_URL", "http://dagster.test")
    view = nats3.ok("chunk", "get", "events", "1", "-o", "json").json
    assert view["dagster_run_url"] == f"http://dagster.test/runs/{captured}"
    assert view["dagster_partition_url"].endswith(f"/assets/events/chunks?view=partitions&partition={hours[0]}")
    assert [r["dagster_run_url"] for r in view["replays"]] == [f"http://dagster.test/runs/{replayed}"]
    with DagsterInstance.get() as instance:
        records = instance.fetch_materializations(ASSETS[0], limit=9).records
        event = next(r.asset_materialization for r in records if r.partition_key == hours[0])
        assert event is not None
        assert event.metadata["in_the_shell"].value == f"nats3 chunk list events --hour {hours[0]}"
        assert event.metadata["captured_by"].value == f"[{captured[:8]}](/runs/{captured})"

    with psycopg.connect(settings.postgres, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    assert known() == [set(), set(), set()]
    # The open hour as well: everything that the stream has is captured.
    before[0].add(hour_of(time.time_ns()))
    lacking = {"archive": "events", "chunks": 5, "sealed": 4, "replay": 3, "exports": 0, "wiped": []}
    assert nats3.ok("dev", "resync", "-o", "json").json == [lacking]
    assert known() == before
    with DagsterInstance.get() as instance:
        for key in ASSETS:
            for event in instance.fetch_materializations(key, limit=9).records:
                assert event.asset_materialization is not None
                assert (event.asset_materialization.tags or {})["nats3/from_catalog"] == "True"
    assert nats3.ok("dev", "resync", "-o", "json").json == [{**lacking, "chunks": 0, "sealed": 0, "replay": 0}]


def test_what_dagster_believes_and_the_catalog_does_not_have_is_wiped(
    settings: Settings, wire: Wire, bucket: str, dagster_home: Path, nats3: Command
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    archive(settings, bucket, "gone")
    nats3.ok("store", "delete", "gone", "--yes")
    with DagsterInstance.get() as instance:
        for key in (ASSETS[0], AssetKey(["gone", "sealed"])):
            instance.report_runless_asset_event(AssetMaterialization(key, partition="2026-11-01-07:00"))
    ran = nats3.ok("dev", "resync", "-o", "json")
    assert ran.json == [
        {"archive": "events", "chunks": 1, "sealed": 0, "replay": 0, "exports": 0, "wiped": ["chunks"]},
        {"archive": "gone", "chunks": 0, "sealed": 0, "replay": 0, "exports": 0, "wiped": ["sealed"]},
    ]
    assert "Dagster had hours that the catalog does not have. It cannot forget single hours" in ran.err
    with DagsterInstance.get() as instance:
        assert instance.get_asset_keys() == [ASSETS[0]]
    # The open hour, of which there is nothing to capture.
    assert known() == [{hour_of(time.time_ns())}, set(), set()]
