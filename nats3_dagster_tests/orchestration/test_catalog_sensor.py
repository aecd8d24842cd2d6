"""The catalog sensor: within a tick Dagster shows what the catalog has, whoever changed either of them."""

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    AssetMaterialization,
    AssetObservation,
    DagsterInstance,
)
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.keys import KEEPS_UP, NO_GAPS, PROJECT
from nats3_dagster.defs.project.project import load
from nats3_dagster.defs.sensors import catalog_sensor as sensor_module
from nats3_dagster.defs.sensors import dagster_partitions, tick
from nats3_dagster.defs.sensors import reconcile as reconcile_module
from nats3_dagster.defs.sensors.cursor import read, write
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.dev.process import free_port
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Selection
from nats3_dagster.settings import Settings
from nats3_dagster.tables import tables
from nats3_dagster.tables.tables import verify
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.dagster.daemon import CHUNKS, REPLAY, SEALED, Daemon
from nats3_dagster_tests.support.dagster.stories import archive, captured, hold, past, replayed, seal
from nats3_dagster_tests.support.tables import down, files
from nats3_dagster_tests.support.wire import Wire

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]
STREAM = AssetKey(["jetstream", "EV"])


@pytest.fixture
def daemon(kept: DagsterInstance) -> Daemon:
    return Daemon(kept)


def now() -> str:
    return hour_of(time.time_ns())


def retire(settings: Settings, hours: list[str]) -> None:
    """Delete the chunks of these hours, as `load create --delete-chunks` does."""
    with Catalog.connect(settings.postgres) as catalog:
        found = catalog.archives.get("events")
        catalog.chunks.retire(found, [chunk.id for chunk in catalog.chunks.select(found, hours=hours)])


def test_a_capture_in_a_shell_is_green_within_one_tick(
    settings: Settings, bucket: str, daemon: Daemon, nats3: Command, spark: Any
) -> None:
    start = hour_start(now()) - 3 * HOUR_NS
    restore_stream(
        settings.nats,
        "EV",
        ["ev.>"],
        [Past(n + 1, start + n // 5 * 2 * HOUR_NS + n, "ev.a", b"", b"x") for n in range(10)],
    )
    hours = [hour_of(start + n * HOUR_NS) for n in range(4)]
    archive(settings, bucket)
    assert daemon.tick() == []  # of the open hour a message might wait, and something does wait
    nats3.ok("store", "run", "events", "--all")
    # Hours with messages, and the open one, of which everything is captured: there is nothing.
    assert daemon.tick() == [("chunks", hours[n]) for n in (0, 2, 3)]
    assert [daemon.says(hour)["messages"] for hour in (hours[0], hours[2], hours[3])] == [5, 5, 0]
    assert daemon.says(hours[0])["from_catalog"] == "True"
    assert daemon.says(hours[0])["captured_by"] == "no run of Dagster"
    assert daemon.tick() == []
    nats3.ok("store", "seal", "events")
    # The hour without a message is complete as well.
    assert daemon.tick() == [("chunks", hours[1]), *(("sealed", hour) for hour in hours[:3])]
    daemon.tick_until_idle()
    graph = load().resolve_asset_graph()
    for key in (CHUNKS, SEALED):
        hours_of = graph.get(key).partitions_def
        assert hours_of is not None
        assert set(hours_of.get_partition_keys()) == daemon.partitions(key)
    # The command counts as Dagster does.
    view = nats3.ok("store", "get", "events", "-o", "json").json
    assert (view["hours"], view["hours_covered"]) == (2, len(daemon.partitions()))
    count = len(daemon.instance.fetch_materializations(CHUNKS, limit=100).records)
    assert daemon.tick() == []
    assert len(daemon.instance.fetch_materializations(CHUNKS, limit=100).records) == count == 4


def test_the_open_hour_is_green_when_nothing_waits(settings: Settings, wire: Wire, bucket: str, daemon: Daemon) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    assert daemon.tick() == [("chunks", now())]
    assert daemon.says(now())["messages"] == 0
    daemon.tick_until_idle()
    daemon.instance.wipe_assets([CHUNKS])
    wire.publish([("ev.a", b"", b"x")])
    assert daemon.tick() == []
    assert daemon.partitions() == set()
    hold(settings, bucket, [now()])
    assert daemon.tick() == [("chunks", now())]
    assert daemon.says(now())["messages"] == 1
    daemon.tick_until_idle()


def test_without_nats_the_rest_is_right(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = captured(settings, bucket, 3)
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
        assert daemon.tick() == [("chunks", hour) for hour in hours]
        assert daemon.tick() == []
    assert daemon.tick() == [("chunks", now())]
    daemon.tick_until_idle()
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
        # Whether a message of it waits is not known: it is not wiped, nor shown as complete.
        retire(settings, hours[2:])
        assert daemon.tick() == []
        assert daemon.partitions() == {*hours, now()}
    assert daemon.tick() == [("chunks", hours[2])]
    daemon.tick_until_idle()


def test_replays_of_a_shell_count_by_what_they_published_whole(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = captured(settings, bucket, 6)
    daemon.tick_until_idle()
    by_hours = replayed(settings, Selection(hours=(hours[0],)))
    assert daemon.tick() == [("replay", hours[0])]
    assert (daemon.says(hours[0], REPLAY)["replay"], daemon.says(hours[0], REPLAY)["messages"]) == (by_hours, 1)
    # Of the first hour a message was not selected.
    by_times = replayed(settings, Selection(from_ns=hour_start(hours[1])), cut=1)
    assert daemon.tick() == [("replay", hour) for hour in hours[2:]]
    daemon.tick_until_idle()
    # The newest one of an hour is shown.
    again = replayed(settings, Selection(hours=tuple(hours[3:5])))
    assert daemon.tick() == [("replay", hour) for hour in hours[3:5]]
    daemon.tick_until_idle()
    with Catalog.connect(settings.postgres) as catalog:
        catalog.replays.delete(by_times)
    assert {asset for asset, _ in daemon.tick()} == {"replay"}
    assert daemon.partitions(REPLAY) == {hours[0], *hours[3:5]}
    assert [daemon.says(hour, REPLAY)["replay"] for hour in hours[3:5]] == [again] * 2
    assert daemon.partitions() == {*hours, now()}
    daemon.tick_until_idle()


def test_chunks_that_were_deleted_leave_an_hour_without_messages(
    settings: Settings, bucket: str, daemon: Daemon
) -> None:
    hours = captured(settings, bucket, 4)
    assert seal(settings) == hours
    replay_id = replayed(settings, Selection(hours=(hours[1],)))
    daemon.tick_until_idle()
    retire(settings, [hours[1]])
    # Nothing of it waits to be captured: it stays green, and says what is left. What was replayed stays replayed.
    assert daemon.tick() == [("chunks", hours[1])]
    assert [(daemon.says(h)["messages"], daemon.says(h)["revision"]) for h in hours[:2]] == [(1, 1), (0, 0)]
    daemon.tick_until_idle()
    assert seal(settings) == [hours[1]]
    assert daemon.tick() == [("sealed", hours[1])]
    assert (daemon.says(hours[1], SEALED)["seal"], daemon.says(hours[1], SEALED)["messages"]) == (2, 0)
    daemon.tick_until_idle()
    assert daemon.partitions() == {*hours, now()}
    daemon.instance.wipe_assets([REPLAY])
    assert daemon.tick() == [("replay", hours[1])]
    assert (daemon.says(hours[1], REPLAY)["replay"], daemon.says(hours[1], REPLAY)["messages"]) == (replay_id, 1)


def test_chunks_that_were_deleted_and_sealed_between_two_ticks(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = captured(settings, bucket, 2)
    daemon.tick_until_idle()
    retire(settings, [hours[0]])
    seal(settings)
    assert daemon.tick() == [("chunks", hours[0]), ("sealed", hours[0]), ("sealed", hours[1])]
    assert daemon.says(hours[0])["messages"] == 0
    daemon.tick_until_idle()


def meanwhile(monkeypatch: pytest.MonkeyPatch, point: str, act: Callable[[], object]) -> None:
    """Act once, when a tick passes this fault point."""
    waiting = [act]

    def pass_point(name: str) -> None:
        if name == point and waiting:
            waiting.pop()()

    for module in (tick, reconcile_module):
        monkeypatch.setattr(module, "fault_point", pass_point)


@pytest.mark.parametrize("point", ["tick.seals_read", "tick.revisions_read"])
def test_an_hour_sealed_between_two_reads_of_a_tick_does_not_wipe_the_others(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    hours = captured(settings, bucket, 4)
    seal(settings)
    daemon.tick_until_idle()
    hold(settings, bucket, [hours[2]], first=5)  # its seal no longer holds
    meanwhile(monkeypatch, point, lambda: seal(settings))
    answer = daemon.evaluate()
    assert answer.skip_reason is not None
    assert "Wiped" not in str(answer.skip_reason.skip_message)
    daemon.tick_until_idle()
    assert daemon.partitions(SEALED) == set(hours)
    assert daemon.says(hours[2], SEALED)["messages"] == 2


def test_an_hour_whose_chunks_were_deleted_and_that_was_sealed_between_two_reads_of_a_tick(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = captured(settings, bucket, 4)
    seal(settings)
    daemon.tick_until_idle()
    retire(settings, [hours[2]])
    meanwhile(monkeypatch, "tick.revisions_read", lambda: seal(settings))
    answer = daemon.evaluate()
    assert answer.skip_reason is not None
    assert "Wiped" not in str(answer.skip_reason.skip_message)
    daemon.tick_until_idle()
    assert (daemon.partitions(SEALED), daemon.partitions()) == (set(hours), {*hours, now()})
    assert daemon.says(hours[2])["messages"] == 0


@pytest.mark.parametrize("point", ["tick.versions_read", "tick.former_read", "tick.seals_read"])
def test_an_archive_made_again_between_two_reads_of_a_tick_keeps_its_events(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """A run of the new archive has reported its hours before this tick writes what it decided."""
    hours = captured(settings, bucket, 3)
    with Workspace(settings) as workspace:
        delete(workspace, "events", purge=False)
    other = "tick.seals_read" if point == "tick.seals_read" else ""
    if other:
        archive(settings, bucket)

    def make_again() -> None:
        if other:
            with Workspace(settings) as workspace:
                delete(workspace, "events", purge=False)
        archive(settings, bucket)
        hold(settings, bucket, hours)
        with Catalog.connect(settings.postgres) as catalog:
            own = str(catalog.archives.get("events").id)
        for hour in hours:
            said = {"archive_id": own, "revision": 1, "messages": 1, "gaps": 0}
            daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hour, metadata=said))

    meanwhile(monkeypatch, point, make_again)
    daemon.evaluate()
    assert daemon.partitions() == set(hours)
    daemon.tick_until_idle()


def test_an_archive_that_is_deleted_between_two_reads_of_a_tick_fails_no_tick(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured(settings, bucket, 2)
    daemon.tick_until_idle()
    seal(settings)

    def remove() -> None:
        with Workspace(settings) as workspace:
            delete(workspace, "events", purge=False)

    meanwhile(monkeypatch, "tick.partitions_read", remove)
    assert "Not compared" not in str(daemon.evaluate().skip_reason)
    daemon.tick_until_idle()
    assert daemon.partitions() == set()


def test_an_archive_deleted_and_made_again_begins_anew(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = captured(settings, bucket, 3)
    seal(settings)
    replayed(settings, Selection(hours=(hours[0],)))
    daemon.tick_until_idle()
    assert daemon.partitions(SEALED) == set(hours)
    report_check(daemon, NO_GAPS, passed=False)
    with Workspace(settings) as workspace:
        delete(workspace, "events", purge=True)
    archive(settings, bucket)
    assert daemon.tick() == []
    assert [daemon.partitions(key) for key in (CHUNKS, SEALED, REPLAY)] == [set(), set(), set()]
    # What the checks said was said of the other archive.
    assert daemon.instance.get_latest_asset_check_evaluation_record(PROJECT.check_key("events", NO_GAPS)) is None
    hold(settings, bucket, hours[:2])
    assert daemon.tick() == [("chunks", hour) for hour in hours[:2]]
    daemon.tick_until_idle()


def test_a_deleted_archive_leaves_nothing(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = past(settings, 2)
    archive(settings, bucket)
    archive(settings, bucket, "other")
    hold(settings, bucket, hours)
    daemon.instance.report_runless_asset_event(AssetObservation(STREAM))
    daemon.tick_until_idle()
    foreign = AssetKey(["theirs", "chunks"])
    daemon.instance.report_runless_asset_event(AssetMaterialization(foreign))
    assert {CHUNKS, STREAM} < set(daemon.instance.get_asset_keys())
    with Workspace(settings) as workspace:
        delete(workspace, "events")
        daemon.tick()
        # The stream has another archive.
        assert {STREAM, foreign} == set(daemon.instance.get_asset_keys())
        delete(workspace, "other")
        daemon.tick_until_idle()
        assert set(daemon.instance.get_asset_keys()) == {foreign}
        # A run that was under way reports what it had captured.
        daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hours[0]))
        daemon.tick_until_idle()
        assert set(daemon.instance.get_asset_keys()) == {foreign}


def report_check(daemon: Daemon, check: str, *, passed: bool) -> None:
    daemon.instance.report_runless_asset_event(
        AssetCheckEvaluation(CHUNKS, check, passed, {"holes": 3}, description="3 sequences are in no chunk")
    )


def test_what_is_wiped_in_dagster_comes_back(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = captured(settings, bucket, 3)
    seal(settings)
    replayed(settings, Selection(hours=tuple(hours)))
    daemon.tick_until_idle()
    for key in (CHUNKS, SEALED, REPLAY):
        before = daemon.partitions(key)
        daemon.instance.wipe_assets([key])
        assert daemon.partitions(key) == set()
        assert [asset for asset, _ in daemon.tick()] == [key.path[-1]] * len(before)
        assert daemon.partitions(key) == before
    # It is noticed as well when an event came before the tick.
    daemon.instance.wipe_assets([CHUNKS])
    daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hours[2]))
    assert daemon.tick() == [("chunks", hour) for hour in (*hours, now())]
    daemon.tick_until_idle()


def test_hours_that_the_catalog_never_had_are_wiped_and_alarms_stay(
    settings: Settings, bucket: str, daemon: Daemon
) -> None:
    hours = past(settings, 3)
    archive(settings, bucket)
    hold(settings, bucket, hours[:2])
    daemon.tick_until_idle()
    report_check(daemon, NO_GAPS, passed=False)
    # The stream has a message of it that is not captured.
    daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hours[2]))
    daemon.instance.report_runless_asset_event(AssetMaterialization(SEALED, partition=hours[2]))
    answer = daemon.evaluate()
    assert answer.skip_reason is not None
    assert answer.skip_reason.skip_message == (
        "Reported 2 hours of events/chunks; Wiped what the catalog does not have: events/chunks, events/sealed"
    )
    assert daemon.tick() == [("chunks", hour) for hour in hours[:2]]
    assert (daemon.partitions(), daemon.partitions(SEALED)) == (set(hours[:2]), set())
    record = daemon.instance.get_latest_asset_check_evaluation_record(PROJECT.check_key("events", NO_GAPS))
    assert record is not None
    assert record.status.value == "FAILED"
    assert daemon.instance.get_latest_asset_check_evaluation_record(PROJECT.check_key("events", KEEPS_UP)) is None
    daemon.tick_until_idle()


def test_an_older_event_after_a_newer_one_is_put_right(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = past(settings, 4)
    archive(settings, bucket)
    hold(settings, bucket, hours[:2])
    daemon.tick_until_idle()
    assert daemon.says(hours[1])["revision"] == 1
    older = {name: daemon.says(hours[1])[name] for name in ("archive_id", "revision", "messages")}
    hold(settings, bucket, [hours[1]], first=3)
    assert daemon.tick() == [("chunks", hours[1])]
    daemon.tick_until_idle()
    # A run that ends now reports the hour as it had read it.
    daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hours[1], metadata=older))
    assert daemon.tick() == [("chunks", hours[1])]
    assert (daemon.says(hours[1])["revision"], daemon.says(hours[1])["messages"]) == (2, 2)
    daemon.tick_until_idle()


def test_an_event_that_becomes_visible_after_a_later_one(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = captured(settings, bucket, 2)
    daemon.tick_until_idle()
    with psycopg.connect(settings.postgres, autocommit=True) as connection:
        # Somebody takes an id, and commits after the next ones.
        (taken,) = connection.execute("select nextval('event_logs_id_seq')").fetchone() or (0,)
        daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hours[1]))
        daemon.tick_until_idle()
        daemon.instance.report_runless_asset_event(AssetMaterialization(CHUNKS, partition=hours[0]))
        (newest,) = connection.execute("select max(id) from event_logs").fetchone() or (0,)
        connection.execute("update event_logs set id = %s where id = %s", (taken, newest))
        moved = connection.execute(
            "update asset_keys set last_materialization = replace(last_materialization, %s, %s) "
            "where last_materialization like %s",
            (f'"storage_id": {newest}}}', f'"storage_id": {taken}}}', f'%"storage_id": {newest}}}'),
        )
        assert moved.rowcount == 1
    assert "messages" not in daemon.says(hours[0])
    assert daemon.tick() == [("chunks", hours[0])]
    daemon.tick_until_idle()


def test_events_that_were_lost_on_their_way_are_reported_again(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = captured(settings, bucket, 2)
    seal(settings)
    replayed(settings, Selection(hours=(hours[0],)))
    answer = daemon.evaluate()
    assert len(answer.asset_events) == 6
    # The daemon kept the cursor, and wrote none.
    daemon.cursor = answer.cursor
    assert len(daemon.tick()) == 6
    daemon.tick_until_idle()


def statuses(daemon: Daemon) -> tuple[set[str], set[str]]:
    """The hours of chunks that the UI shows as materialized and as failed."""
    hours = load().resolve_asset_graph().get(CHUNKS).partitions_def
    assert hours is not None
    cached = get_and_update_asset_status_cache_value(daemon.instance, CHUNKS, hours)
    assert cached is not None
    failed = set(cached.deserialize_failed_partition_subsets(hours).get_partition_keys())
    return set(cached.deserialize_materialized_partition_subsets(hours).get_partition_keys()) - failed, failed


def test_a_failed_hour_is_green_once_it_was_captured_and_not_before(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = past(settings, 3)
    archive(settings, bucket)
    hold(settings, bucket, hours[:1])
    daemon.tick_until_idle()
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[1]}
    with monkeypatch.context() as patch:
        patch.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
        job = load().resolve_job_def("events_capture")
        assert not job.execute_in_process(instance=daemon.instance, tags=tags, raise_on_error=False).success
    assert statuses(daemon) == (set(), set(hours[:2]))
    assert daemon.tick() == []
    hold(settings, bucket, [hours[1]], first=2)
    assert daemon.tick() == [("chunks", hours[1])]
    assert statuses(daemon) == ({hours[1]}, {hours[0]})
    daemon.tick_until_idle()


def test_a_long_tick_goes_on_in_the_next_one(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = captured(settings, bucket, 5)
    seal(settings)
    monkeypatch.setattr(tick, "EVENTS", 2)
    chunks, sealed = [("chunks", hour) for hour in (*hours, now())], [("sealed", hour) for hour in hours]
    # The rest of an archive's sealed hours waits for its chunks.
    expected = [chunks[:2], chunks[2:4], chunks[4:], sealed[:2], sealed[2:4], sealed[4:], []]
    assert [daemon.tick() for _ in expected] == expected
    daemon.instance.report_runless_asset_event(AssetMaterialization(SEALED, partition="2026-11-01-07:00"))
    # Wiped in one tick, and reported in the next ones.
    assert [daemon.tick() for _ in range(4)] == [sealed[:2], sealed[2:4], sealed[4:], []]
    daemon.instance.wipe_assets([SEALED])
    with monkeypatch.context() as patch:
        patch.setattr(tick, "BUDGET_S", -1.0)
        assert daemon.tick() == []
    assert daemon.tick() == sealed[:2]


def test_a_first_comparison_goes_on_in_the_next_tick(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = captured(settings, bucket, 5)
    seal(settings)
    replayed(settings, Selection(hours=tuple(hours)))
    daemon.tick_until_idle()
    monkeypatch.setattr(dagster_partitions, "COMPARED", 2)
    wrong = {"archive_id": "1", "revision": 0, "replay": "another"}
    for key in (CHUNKS, SEALED, REPLAY):
        daemon.instance.report_runless_asset_event(AssetMaterialization(key, partition=hours[4], metadata=wrong))
    daemon.cursor = None
    ticks = [daemon.tick() for _ in range(6)]
    # Of each asset two events a tick: the wrong one is its last one.
    asked = [("chunks", hours[4]), ("replay", hours[4]), ("sealed", hours[4])]
    assert sorted(event for tick in ticks for event in tick) == asked
    assert ticks[:2] == [[], []]
    daemon.tick_until_idle()


def test_a_cursor_of_another_release_compares_everything(settings: Settings, bucket: str, daemon: Daemon) -> None:
    captured(settings, bucket, 2)
    daemon.tick_until_idle()
    for cursor in ("ok", "[]", '{"1": 3}', '{"1": [1, 2]}', '{"1": {"revision": 1}}'):
        daemon.cursor = cursor
        assert read(cursor) == {}
        assert daemon.tick() == []
        assert list(read(daemon.cursor)) == [1]
    assert read(write(read(daemon.cursor))) == read(daemon.cursor)


def test_one_archive_does_not_stop_the_others(settings: Settings, bucket: str, daemon: Daemon) -> None:
    hours = past(settings, 2)
    archive(settings, bucket)
    archive(settings, bucket, "other")
    hold(settings, bucket, hours)
    hold(settings, bucket, hours, name="other")
    replayed(settings, Selection(hours=(hours[0],)))
    with psycopg.connect(settings.postgres, autocommit=True) as connection:
        connection.execute("update nats3.replay set spec = jsonb_set(spec, '{selection,hours}', '[\"dawn\"]')")
    answer = daemon.evaluate()
    daemon.tick()
    assert daemon.partitions(AssetKey(["other", "chunks"])) == {*hours, now()}
    assert answer.skip_reason is not None
    assert (answer.skip_reason.skip_message or "").endswith(
        "Not compared: 'dawn' is not an hour. Write it as YYYY-MM-DD-HH:00, in UTC"
    )
    with pytest.raises(CannotTick, match="'dawn' is not an hour"):
        daemon.tick_until_idle()


def test_a_tick_makes_a_table_equal_to_its_archive(
    settings: Settings, bucket: str, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody but the sensor follows what a replay deletes."""
    hours = captured(settings, bucket, 3)
    with Workspace(settings) as workspace:
        tables.create(workspace, "events")
        daemon.tick_until_idle()
        assert listed(workspace) == 3
        retire(settings, hours[:1])
        with monkeypatch.context() as patched:
            down(patched, "nats3", free_port())
            assert "The table of events is not synced: The Iceberg catalog nats3, or its store, failed" in (
                str(daemon.evaluate().skip_reason)
            )
            # It is left alone for a while, and hinders nothing meanwhile.
            assert "not synced" not in str(daemon.evaluate().skip_reason)
            assert daemon.tick()
        assert listed(workspace) == 3
        monkeypatch.setattr(sensor_module, "PAUSE_S", 0)
        daemon.tick()
        assert listed(workspace) == 2
        assert verify(workspace, tables.find(workspace, "events")).faults == ()


def listed(workspace: Workspace) -> int:
    """Files that the table of the archive lists."""
    return len(files(workspace, "events"))
