"""Archives of a rule share sensors and runs: one run captures all that have a little, and none stops the others."""

import json
import time
from typing import Any

import psycopg
import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetKey,
    DagsterEventType,
    DagsterInstance,
    DagsterRunStatus,
    JobExecutionResult,
)
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.account.follow import follow
from nats3_dagster.archive.captures import due_archives
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.internals import IMPLICIT_ASSET_JOB_NAME
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.jobs.shared_steps import Notes
from nats3_dagster.defs.keys import ACCOUNT_TAG, CAPTURES, NOTES_TAG, PROJECT
from nats3_dagster.defs.project.archive_definitions import Defined
from nats3_dagster.defs.project.component import build_archive_definitions
from nats3_dagster.defs.project.platform import Platform
from nats3_dagster.defs.project.project import definitions_of, load
from nats3_dagster.defs.sensors import account_seals, backoff
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.account_ticks import SEALS, archives, begin, execute, requests, tick, why
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

STREAMS = ("S0", "S1", "S2", "S3")
# The other connections of clients.
_OTHERS = """
select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""


def streams(wire: Wire, names: tuple[str, ...] = STREAMS, messages: int = 3) -> None:
    for name in names:
        wire.create_stream(name, f"{name}.>")
        wire.publish([(f"{name}.a", b"", b"x")] * messages)


def make_rule(settings: Settings, bucket: str, **options: Any) -> None:
    with Workspace(settings) as workspace:
        rules.create(workspace, AccountRule("all", bucket, **options))
        follow(workspace)


def failed_steps(done: JobExecutionResult) -> set[str]:
    return {str(e.step_key) for e in done.all_events if e.event_type == DagsterEventType.STEP_FAILURE}


def notes(instance: DagsterInstance, done: JobExecutionResult) -> Notes:
    run = instance.get_run_by_id(done.run_id)
    assert run is not None
    found = Notes.of(run)
    assert found is not None
    return found


def chunks(name: str) -> AssetKey:
    return AssetKey([name, "chunks"])


@pytest.mark.steady_hour(60)
def test_one_run_captures_all_archives_that_are_due(
    spark: Any, settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance
) -> None:
    streams(wire)
    make_rule(settings, bucket, max_messages=3)
    (request,) = requests(tick(instance))
    assert archives(request) == [*STREAMS]
    assert request.tags["nats3/why"].startswith("4 archives. S0: 3 messages of 3; S1: 3 messages of 3; ")
    assert request.asset_check_keys == []
    assert execute(instance, request).success
    assert {name: archived(settings, name) for name in STREAMS} == dict.fromkeys(STREAMS, 3)
    for name in STREAMS:
        assert instance.get_materialized_partitions(chunks(name)) == {hour_of(time.time_ns())}
        check = instance.get_latest_asset_check_evaluation_record(PROJECT.check_key(name, "no_gaps"))
        assert check is not None
        assert isinstance(check.evaluation, AssetCheckEvaluation)
        assert check.evaluation.passed
    assert why(tick(instance)) == "Everything is captured"
    wire.publish([("S2.a", b"", b"x")])
    assert why(tick(instance)) == "1 archives have messages that no threshold takes yet"
    wire.publish([("S2.a", b"", b"x")] * 2)
    (request,) = requests(tick(instance))
    assert archives(request) == ["S2"]


@pytest.mark.steady_hour(60)
def test_one_that_fails_stops_no_other_and_waits_by_itself(
    spark: Any,
    settings: Settings,
    bucket: str,
    wire: Wire,
    instance: DagsterInstance,
    s3_client: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams(wire)
    make_rule(settings, bucket, max_messages=1)
    owner = s3_client.get_object(Bucket=bucket, Key="archive=S1/_owner.json")["Body"].read()
    other = s3_client.get_object(Bucket=bucket, Key="archive=S2/_owner.json")["Body"].read()
    s3_client.put_object(Bucket=bucket, Key="archive=S1/_owner.json", Body=other)
    (request,) = requests(tick(instance))
    done = execute(instance, request)
    assert not done.success
    assert failed_steps(done) == {"S1__chunks"}
    assert {name: archived(settings, name) for name in STREAMS} == {"S0": 3, "S1": 0, "S2": 3, "S3": 3}
    now = request.tags["dagster/partition"]
    assert notes(instance, done).failed == {"S1": [now]}

    said = why(tick(instance))
    assert f"{now} of S1 failed once; next try in " in said
    assert "has another owner of the folder of archive S1" in said
    wire.publish([("S0.a", b"", b"x"), ("S1.a", b"", b"x")])
    (request,) = requests(tick(instance))
    assert archives(request) == ["S0"]  # nobody waits for S1
    assert execute(instance, request).success
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0)
    (request,) = requests(tick(instance))
    assert archives(request) == ["S1"]
    assert not execute(instance, request).success
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 30)
    assert f"{now} of S1 failed 2 times in a row; next try in " in why(tick(instance))
    s3_client.put_object(Bucket=bucket, Key="archive=S1/_owner.json", Body=owner)
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0)
    (request,) = requests(tick(instance))
    assert execute(instance, request).success
    assert archived(settings, "S1") == 4


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(60)
def test_an_hour_that_fails_is_held_back_alone(
    spark: Any, settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance, s3_client: Any
) -> None:
    start = hour_start(hour_of(time.time_ns() - 4 * HOUR_NS))
    hours = [hour_of(start + n * HOUR_NS) for n in range(2)]
    for name in ("S0", "S1"):
        past = [Past(n + 1, start + n * HOUR_NS, f"{name}.a", b"", b"x") for n in range(2)]
        restore_stream(settings.nats, name, [f"{name}.>"], past)
    make_rule(settings, bucket)
    (request,) = requests(tick(instance))
    assert archives(request) == ["S0", "S1"]
    assert (request.tags["dagster/asset_partition_range_start"], request.tags["dagster/asset_partition_range_end"]) == (
        hours[0],
        hours[1],
    )
    assert execute(instance, request).success
    assert instance.get_materialized_partitions(chunks("S1")) == {*hours}
    run = create_run_for_test(
        instance,
        job_name=IMPLICIT_ASSET_JOB_NAME,
        status=DagsterRunStatus.FAILURE,
        asset_selection=frozenset({chunks("S0"), chunks("S1")}),
        tags={ACCOUNT_TAG: CAPTURES},
    )
    now = hour_of(time.time_ns())
    instance.add_run_tags(run.run_id, {NOTES_TAG: json.dumps({"run_id": run.run_id, "failed": {"S1": [now]}})})
    wire.publish([(f"{name}.a", b"", b"x") for name in ("S0", "S1")])
    with Workspace(settings) as workspace:
        every, _ = due_archives.look_at(workspace, workspace.catalog.archives.all(), 10, {"S1": {now}})
    due = {one.archive.name: one.due for one in every}
    assert due["S1"] is not None
    assert due["S0"] is not None
    assert due["S1"].hours == ()


def test_the_archive_that_ended_a_process_is_alone_the_next_time(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams(wire)
    make_rule(settings, bucket, max_messages=1)
    selection = frozenset(chunks(name) for name in STREAMS)

    def failed(**said: Any) -> None:
        run = create_run_for_test(
            instance,
            job_name=IMPLICIT_ASSET_JOB_NAME,
            status=DagsterRunStatus.FAILURE,
            asset_selection=selection,
            tags={ACCOUNT_TAG: CAPTURES},
        )
        if said:
            instance.add_run_tags(run.run_id, {NOTES_TAG: json.dumps({"run_id": run.run_id, **said})})

    failed(at="S2")
    (request,) = requests(tick(instance))
    assert archives(request) == ["S0", "S1", "S3"]
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0)
    assert [archives(one) for one in requests(tick(instance))] == [["S0", "S1", "S3"], ["S2"]]
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 30)
    failed()  # before its first step: nothing says which one it was
    assert requests(tick(instance)) == []


def test_no_archive_is_captured_twice_at_a_time(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance
) -> None:
    streams(wire)
    make_rule(settings, bucket, max_messages=1)

    def begun(status: DagsterRunStatus, *names: str, tags: dict[str, str]) -> str:
        return create_run_for_test(
            instance,
            job_name=IMPLICIT_ASSET_JOB_NAME,
            status=status,
            asset_selection=frozenset(map(chunks, names)),
            tags=tags,
        ).run_id

    begun(DagsterRunStatus.STARTED, "S0", tags={})  # by hand
    begun(DagsterRunStatus.STARTED, "S1", tags={ACCOUNT_TAG: CAPTURES})
    (request,) = requests(tick(instance))
    assert archives(request) == ["S2", "S3"]
    waiting = begun(DagsterRunStatus.NOT_STARTED, "S2", tags={ACCOUNT_TAG: CAPTURES})
    said = tick(instance)
    assert requests(said) == []  # what is due meanwhile goes together with the next run
    assert "A run of several archives waits to begin" in why(said)
    instance.delete_run(waiting)
    assert len(requests(tick(instance))) == 1


def test_one_with_much_to_capture_has_a_run_of_its_own(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_archives, "SHARED_MESSAGES", 5)
    streams(wire)
    wire.publish([("S1.a", b"", b"x")] * 5)
    make_rule(settings, bucket, max_messages=1)
    assert [archives(one) for one in requests(tick(instance))] == [["S0", "S2", "S3"], ["S1"]]
    monkeypatch.setattr(due_archives, "ARCHIVES_AT_ONCE", 2)
    assert [archives(one) for one in requests(tick(instance))] == [["S0", "S2"], ["S3"], ["S1"]]


@pytest.mark.steady_hour(60)
def test_what_cannot_start_fails_once_for_all(
    spark: Any, settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams(wire)
    make_rule(settings, bucket, max_messages=1)
    (request,) = requests(tick(instance))
    with monkeypatch.context() as away:
        away.setenv("NATS3_NATS_URL", "nats://127.0.0.1:1")
        done = execute(instance, request)
    assert failed_steps(done) == {f"{name}__chunks" for name in STREAMS}
    noted = notes(instance, done)
    assert (noted.at, noted.failed) == ("", {name: [] for name in STREAMS})
    assert noted.stopped is not None
    assert requests(tick(instance)) == []
    # NATS is there again, and no later step of that run tries it.
    run = begin(instance, request)
    instance.add_run_tags(run.run_id, {NOTES_TAG: json.dumps({"run_id": run.run_id, "stopped": noted.stopped})})
    done = execute(instance, request, run)
    assert failed_steps(done) == {f"{name}__chunks" for name in STREAMS}
    # A run that repeats that one has its tags, and is another one.
    repeated = begin(instance, request)
    instance.add_run_tags(repeated.run_id, {NOTES_TAG: json.dumps({"run_id": run.run_id, "stopped": noted.stopped})})
    assert execute(instance, request, repeated).success


def test_a_stream_that_is_another_one_fails_the_tick_only_where_nothing_else_is_due(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance
) -> None:
    streams(wire)
    make_rule(settings, bucket, max_messages=1, remade="ask")
    wire.api("STREAM.DELETE.S1")
    wire.create_stream("S1", "S1.>")
    (request,) = requests(tick(instance))
    assert archives(request) == ["S0", "S2", "S3"]
    for name in ("S0", "S2", "S3"):
        wire.api(f"STREAM.PURGE.{name}")
        with Workspace(settings) as workspace:
            workspace.catalog.archives.change(found := workspace.catalog.archives.get(name), found.spec, paused=True)
    said = tick(instance)
    levels = {event.asset_key.path[0] for event in said.asset_events if isinstance(event, AssetCheckEvaluation)}
    assert levels == {"S0", "S2", "S3"}
    with pytest.raises(CannotTick, match="S1 was deleted and made again"):
        tick(instance, said.cursor)


def test_a_tick_asks_nothing_of_streams_without_news(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance
) -> None:
    with psycopg.connect(settings.postgres, autocommit=True) as watcher:

        def transactions() -> int:
            eventually(lambda: watcher.execute(_OTHERS).fetchone() == (0,), "all connections are closed", 60)
            found = watcher.execute(
                "select xact_commit from pg_stat_database where datname = current_database()"
            ).fetchone()
            assert found is not None
            return found[0]

        def asked() -> tuple[int, int]:
            """The requests of a tick to NATS, and its transactions in the catalog."""
            tick(instance)
            requests_before, before = wire.api("INFO")["api"]["total"], transactions()
            tick(instance)
            return wire.api("INFO")["api"]["total"] - requests_before, transactions() - before

        streams(wire, ("S0",), messages=0)
        make_rule(settings, bucket)
        one = asked()
        streams(wire, tuple(f"T{n}" for n in range(30)), messages=0)
        with Workspace(settings) as workspace:
            follow(workspace)
        many = asked()
    assert many[0] == one[0]
    assert many[1] < one[1] + 20  # the watcher's own are among them


def test_a_new_archive_is_in_the_next_load(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance
) -> None:
    streams(wire, ("S0",))
    make_rule(settings, bucket, max_messages=1)
    (request,) = requests(tick(instance))
    assert archives(request) == ["S0"]
    streams(wire, ("S1",))
    with Workspace(settings) as workspace:
        follow(workspace)
    (request,) = requests(tick(instance))
    assert archives(request) == ["S0", "S1"]


def test_archives_of_no_rule_keep_their_jobs_and_sensors(settings: Settings, bucket: str, wire: Wire) -> None:
    streams(wire, ("S0", "S1"))
    archive(settings, bucket, "own", "S0")
    make_rule(settings, bucket)
    repository = load().get_repository_def()
    own = {"own_capture", "own_replay"}
    assert {name for name in repository.job_names if name.startswith(("own", "S1"))} == own
    sensors = {one.name for one in repository.sensor_defs}
    assert {"own_capture_sensor", "own_seal_sensor", "account_captures_sensor", "account_seals_sensor"} <= sensors
    assert not {name for name in sensors if name.startswith("S1")}
    with Workspace(settings) as workspace:
        rules.end(workspace, "all")
    # What it made are archives like any other.
    repository = load().get_repository_def()
    assert {"S1_capture", "S1_replay"} <= {*repository.job_names}
    assert not {one.name for one in repository.sensor_defs} & {"account_captures_sensor", "account_seals_sensor"}


def test_jobs_and_sensors_do_not_grow_with_the_archives() -> None:
    counts: set[tuple[int, int]] = set()
    began = time.monotonic()
    for number in (1, 1000):
        begins = time.time_ns() - 48 * HOUR_NS
        every = [
            Defined(ArchiveSpec(f"s{n:04}", f"S{n:04}", "bucket"), begins, n + 1, is_shared=True) for n in range(number)
        ]
        repository = definitions_of(every, PROJECT, Platform(), executor=run_executor).get_repository_def()
        counts.add((len(repository.job_names), len(repository.sensor_defs)))
        assert len(repository.asset_graph.get_all_asset_keys()) == 4 * number
    assert len(counts) == 1
    assert time.monotonic() - began < 60


def test_another_project_gives_each_archive_jobs_and_sensors(settings: Settings, bucket: str, wire: Wire) -> None:
    streams(wire, ("S0",))
    make_rule(settings, bucket)
    repository = build_archive_definitions(key_prefix="acme").get_repository_def()
    assert {"acme_S0_capture", "acme_S0_replay"} <= {*repository.job_names}
    assert not [one.name for one in repository.sensor_defs if "account_captures" in one.name]


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(60)
def test_one_run_seals_the_hours_of_many_and_one_that_fails_stops_no_other(
    settings: Settings,
    bucket: str,
    wire: Wire,
    instance: DagsterInstance,
    s3_client: Any,
    monkeypatch: pytest.MonkeyPatch,
    spark: Any,
) -> None:
    start = hour_start(hour_of(time.time_ns() - 3 * HOUR_NS))
    hour = hour_of(start)
    for name in STREAMS:
        restore_stream(settings.nats, name, [f"{name}.>"], [Past(1, start, f"{name}.a", b"", b"x")])
    make_rule(settings, bucket)
    (request,) = requests(tick(instance))
    assert execute(instance, request).success
    owner = s3_client.get_object(Bucket=bucket, Key="archive=S1/_owner.json")["Body"].read()
    other = s3_client.get_object(Bucket=bucket, Key="archive=S2/_owner.json")["Body"].read()
    s3_client.put_object(Bucket=bucket, Key="archive=S1/_owner.json", Body=other)
    said = tick(instance, sensor=SEALS)
    (request,) = requests(said)
    assert {*archives(request)} == {*STREAMS}
    assert len(request.asset_check_keys or ()) == 2 * len(STREAMS)
    with monkeypatch.context() as small:
        small.setattr(account_seals, "ARCHIVES_AT_ONCE", 1)
        # Two runs at a time; the others are left.
        assert [len(archives(one)) for one in requests(tick(instance, sensor=SEALS))] == [1, 1]
        begun = [
            create_run_for_test(instance, job_name=IMPLICIT_ASSET_JOB_NAME, status=status, tags={ACCOUNT_TAG: "seals"})
            for status in (DagsterRunStatus.STARTED, DagsterRunStatus.STARTED)
        ]
        assert requests(tick(instance, sensor=SEALS)) == []
        instance.delete_run(begun[0].run_id)
        assert len(requests(tick(instance, sensor=SEALS))) == 2
        instance.delete_run(begun[1].run_id)
    done = execute(instance, request)
    assert failed_steps(done) == {"S1__sealed"}
    with Catalog.connect(settings.postgres) as catalog:
        sealed = {
            name: [one.hour for one in catalog.seals.select(catalog.archives.get(name)) if one.valid]
            for name in STREAMS
        }
    assert {name: hour in hours for name, hours in sealed.items()} == {"S0": True, "S1": False, "S2": True, "S3": True}
    said = tick(instance, said.cursor, SEALS)
    assert requests(said) == []
    assert "Sealing S1 failed once; next try in " in why(said)
    s3_client.put_object(Bucket=bucket, Key="archive=S1/_owner.json", Body=owner)
    monkeypatch.setattr(backoff, "FIRST_WAIT_S", 0)
    said = tick(instance, said.cursor, SEALS)
    (request,) = requests(said)
    assert archives(request) == ["S1"]
    assert execute(instance, request).success
    said = tick(instance, said.cursor, SEALS)
    assert why(said) == "Every complete hour is sealed"
    (at,) = json.loads(said.cursor or "{}").values()
    assert len(at) == len(STREAMS)
