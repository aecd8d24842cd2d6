"""Runs in process: what a capture and a replay do to the archive, the target and Dagster's asset events."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from dagster import AssetKey, DagsterEventType, DagsterInstance, ExecuteInProcessResult

from nats3_dagster.defs.project import load
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.hours import HOUR_NS, hour_of, parse_time
from nats3_dagster.settings import Settings
from nats3_dagster_tests.orchestration.stories import archive
from nats3_dagster_tests.wire import Wire

CHUNKS, REPLAY = AssetKey(["events", "chunks"]), AssetKey(["events", "replay"])


@pytest.fixture
def wire(nats: NatsServer) -> Iterator[Wire]:
    with Wire(nats.url) as client:
        yield client


@pytest.fixture
def instance() -> Iterator[DagsterInstance]:
    with DagsterInstance.ephemeral() as made:
        yield made


def run(instance: DagsterInstance, job: str, *, check: bool = True, **how: Any) -> ExecuteInProcessResult:
    result = load().resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False, **how)
    assert result.success or not check, [e.message for e in result.all_events if e.is_failure]
    return result


def hour_range(first: str, last: str) -> dict[str, str]:
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


def materialized(result: ExecuteInProcessResult, key: AssetKey) -> dict[str, dict[str, Any]]:
    """Metadata of the materializations of `key`, by hour."""
    events = result.asset_materializations_for_node(key.to_python_identifier())
    found = {str(e.partition): {n: v.value for n, v in e.metadata.items()} for e in events if e.asset_key == key}
    assert len(found) == len(events)
    return found


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
    assert "| 1-" in said["chunk_table"]
    assert said["ratio"] > 1
    assert said["messages_per_s"] > 0

    again = materialized(run(instance, "events_capture", tags={"dagster/partition": first}), CHUNKS)
    assert again[first]["messages"] == said["messages"]
    assert again[first]["messages_added"] == 0
    observed = instance.fetch_observations(AssetKey(["jetstream", "EV"]), limit=1).records[0].asset_observation
    assert observed is not None
    assert observed.metadata["messages"].value == 500
    assert observed.metadata["events_behind"].value == 0
