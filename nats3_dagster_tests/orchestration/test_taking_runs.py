"""An archive of the mode `consumer` in Dagster: its sensor, a run of its asset, partitions, checks and seals."""

import time
from typing import Any

from dagster import DagsterInstance, RunRequest, build_sensor_context

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.project.project import load
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.daemon import CHUNKS, SEALED
from nats3_dagster_tests.support.dagster.seal_ticks import asked, execute, failure, tick
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.wire import Wire


def queue(settings: Settings) -> list[str]:
    """A work queue EV with 10 messages in the hour three hours ago and in the one before the current hour; the hours
    from then to now."""
    start = hour_start(hour_of(time.time_ns())) - 3 * HOUR_NS
    times = [start + hour * HOUR_NS + n for hour in (0, 2) for n in range(10)]
    messages = [Past(seq, at, "ev.a", b"", b"%d" % seq) for seq, at in enumerate(times, 1)]
    restore_stream(settings.nats, "EV", ["ev.>"], messages, retention="workqueue")
    return [hour_of(start + n * HOUR_NS) for n in range(4)]


def capture_tick(instance: DagsterInstance) -> list[RunRequest]:
    defs = load()
    sensor: Any = defs.resolve_sensor_def("events_capture_sensor")
    return asked(sensor(build_sensor_context(instance=instance, definitions=defs)))


def catalog_tick(instance: DagsterInstance) -> None:
    """Let the sensor of the catalog tell Dagster what changed."""
    defs = load()
    sensor: Any = defs.resolve_sensor_def("catalog_sensor")
    said = sensor(build_sensor_context(instance=instance, definitions=defs))
    for event in getattr(said, "asset_events", ()):
        instance.report_runless_asset_event(event)


def metadata(instance: DagsterInstance, hour: str) -> dict[str, Any]:
    (event,) = [r for r in instance.fetch_materializations(CHUNKS, limit=20).records if r.partition_key == hour][:1]
    assert event.asset_materialization
    return {name: value.value for name, value in event.asset_materialization.metadata.items()}


def test_what_a_work_queue_has_is_taken_shown_checked_and_sealed(
    spark: Any, settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance, nats3: Command
) -> None:
    hours = queue(settings)
    archive(settings, bucket, mode="consumer", max_messages=5)
    assert nats3.ok("store", "get", "events", "-o", "json").json["lag"] == 20
    (request,) = capture_tick(instance)
    assert request.partition_key == hours[0]
    taken = (
        load()
        .resolve_job_def("events_capture")
        .execute_in_process(
            instance=instance, raise_on_error=False, tags=request.tags, partition_key=request.partition_key
        )
    )
    assert taken.success, failure(taken)
    assert {e.check_name: e.passed for e in taken.get_asset_check_evaluations()} == {
        "no_gaps": True,
        "capture_keeps_up": True,
    }
    assert (archived(settings), wire.state("EV")["messages"]) == (20, 0)
    view = nats3.ok("store", "get", "events", "-o", "json").json
    assert (view["lag"], view["messages"], view["losses"], view["hours"]) == (0, 20, {}, 2)
    assert capture_tick(instance) == []
    catalog_tick(instance)
    for first, hour in ((1, hours[0]), (11, hours[2])):
        shown = metadata(instance, hour)
        assert (shown["messages"], shown["gaps"], shown["first_sequence"], shown["chunks"]) == (10, 0, first, 1)
    assert metadata(instance, hours[0])["messages_added"] == 20  # by the run, of whatever hour
    (sealing,) = asked(tick(instance))
    done = execute(instance, sealing)
    assert done.success, failure(done)
    assert {e.check_name: e.passed for e in done.get_asset_check_evaluations()} == {
        "no_gaps": True,
        "chunks_intact": True,
    }
    assert instance.get_materialized_partitions(SEALED) == set(hours[:3])
    # The open one as well: nothing waits.
    assert instance.get_materialized_partitions(CHUNKS) == set(hours)
    with Catalog.connect(settings.postgres) as catalog:
        seals = catalog.seals.select(catalog.archives.get("events"))
    assert [(s.hour, s.messages) for s in seals] == [(hours[0], 10), (hours[1], 0), (hours[2], 10)]
    wire.publish([("ev.a", b"", b"x")] * 7)
    (request,) = capture_tick(instance)
    assert (request.partition_key, request.tags["nats3/why"]) == (hours[3], "7 messages of 5")
