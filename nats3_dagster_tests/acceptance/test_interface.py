"""The whole public interface against a golden file: commands, options, definitions, run config, JSON and metadata keys.

Whoever changes a name on purpose writes the file anew: NATS3_WRITE_INTERFACE=1 python -m pytest <this file>.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetCheckEvaluation,
    AssetCheckKey,
    AssetKey,
    AssetSelection,
    DagsterInstance,
    ExecuteInProcessResult,
    JobDefinition,
    RunRequest,
    SensorResult,
    build_sensor_context,
)
from dagster._core.events import AssetObservationData, StepMaterializationData

from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.commands import Command, Ran, root_command
from nats3_dagster_tests.support.interface import (
    command_tree,
    compare,
    definitions_tree,
    load_definitions,
    merged,
    metadata_types,
    shape,
)
from nats3_dagster_tests.support.wire import Wire

HOUR_S = 3600
DAGSTER_URL = "http://127.0.0.1:1"  # nobody listens there
# Of these dicts in a command's JSON the keys are data.
MAPS = frozenset({"subjects", "losses"})


class Recorder:
    """Runs commands and merges the shapes of what each prints."""

    def __init__(self, nats3: Command) -> None:
        self.shapes: dict[str, Any] = {}
        self._nats3 = nats3

    def __call__(self, command: str, *words: str, label: str = "", status: int = 0) -> Any:
        ran: Ran = self._nats3(*command.split(), *words, "-o", "json")
        assert ran.status == status, ran.err
        label = label or command
        self.shapes[label] = merged(self.shapes.get(label, "null"), shape(ran.json, MAPS))
        return ran.json


def hour(ago: int) -> str:
    return datetime.fromtimestamp((time.time() // HOUR_S - ago) * HOUR_S, UTC).strftime("%Y-%m-%d-%H:00")


@pytest.fixture
def stream(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream EV of sequences 1 to 4 three hours ago and 6 to 9 an hour ago: 5 was deleted. The Dagster UI has an
    address."""
    monkeypatch.setenv("NATS3_DAGSTER_URL", DAGSTER_URL)
    start = (int(time.time()) // HOUR_S - 3) * HOUR_S * 10**9
    past = [Past(n, start + n // 5 * 2 * HOUR_S * 10**9 + n, "ev.a", b"", b"x" * n) for n in (1, 2, 3, 4, 6, 7, 8, 9)]
    restore_stream(settings.nats, "EV", ["ev.>"], past)


def lose_two(wire: Wire) -> None:
    """The first two messages are gone before they were captured: a gap."""
    wire.api("STREAM.PURGE.EV", seq=3)


def damage(s3_client: Any, bucket: str, key: str) -> None:
    data = bytearray(s3_client.get_object(Bucket=bucket, Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    s3_client.put_object(Bucket=bucket, Key=key, Body=bytes(data))


def test_commands_and_options() -> None:
    compare(command_line=command_tree(root_command()))


def test_definitions(settings: Settings, wire: Wire, nats3: Command, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    nats3.ok("store", "create", "--name", "events", "--stream", "EV", "--bucket", bucket)
    compare(definitions=definitions_tree(load_definitions()))


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(100)
def test_keys_of_json(
    spark: Any,
    settings: Settings,
    stream: None,
    wire: Wire,
    nats3: Command,
    bucket: str,
    s3_client: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Recorder(nats3)
    run("migrate")
    run("dev status")
    run("store create", "--name", "some", "--stream", "EV", "--bucket", bucket, "--subject", "ev.a", "--prefix", "a/b")
    run("store create", "--name", "events", "--stream", "EV", "--bucket", bucket)
    run("store pause", "events")
    run("store resume", "events")
    run("store get", "events")
    run("doctor")
    lose_two(wire)
    assert sum(len(captured["gaps"]) for captured in run("store run", "events")) == 1
    run("store seal", "events")
    run("store list")
    run("store get", "events")
    (first, _) = run("chunk list", "events")
    run("chunk fetch", "events", str(first["id"]), "--to", str(tmp_path))
    run("chunk verify", "events")
    keys = [item["Key"] for item in s3_client.list_objects_v2(Bucket=bucket)["Contents"]]
    s3_client.delete_object(Bucket=bucket, Key=next(key for key in keys if "manifest" in key))
    damage(s3_client, bucket, first["key"])
    assert len(run("chunk verify", "events", status=1)["bad"]) == 2
    assert run("chunk repair", "events")["repaired"] == 1

    to_back = ("--archive", "events", "--write-subject", "back.>", "--create-stream", "BACK")
    to_back = (*to_back, "--over-gaps")
    narrow = ("--hour", hour(1), "--from-time", hour(1), "--to-time", hour(0), "--sequences", "1-9", "--rate", "1e6")
    narrow = (*narrow, "--byte-rate", "1GB")
    run("load create", *to_back, "--dry-run", label="load create --dry-run")
    done = run("load create", *to_back, *narrow)
    run("load create", *to_back, "--dry-run", label="load create --dry-run")
    run("load list")
    run("load get", done["id"])
    replayed = [run("chunk get", "events", str(chunk["id"]))["replays"] for chunk in run("chunk list", "events")]
    assert [len(replays) for replays in replayed] == [0, 1]
    run("load delete", done["id"])
    detached = run("load create", *to_back, "--detach", label="load create --detach")
    os.kill(detached["pid"], signal.SIGKILL)  # before it can publish
    with suppress(ChildProcessError):  # a thread of ours may reap it first
        os.waitpid(detached["pid"], 0)
    run("load get", detached["id"])
    again = ("--archive", "events", "--write-subject", "again.>", "--create-stream", "AGAIN", "--over-gaps")
    again = (*again, "--speed", "1e9")
    done = run("load create", *again, "--delete-chunks", "--yes", label="load create --delete-chunks")
    run("load resume", done["id"], label="load resume (of a finished one with --delete-chunks)")
    run("load get", done["id"])
    run("load list")
    run("store get", "events")
    (tmp_path / "dagster.yaml").touch()
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    run("dev resync")
    run("store delete", "events", "--yes", "--purge")
    compare(json=run.shapes)


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(100)
def test_keys_of_metadata_and_tags(
    spark: Any, settings: Settings, stream: None, wire: Wire, nats3: Command, bucket: str, s3_client: Any
) -> None:
    wire.create_stream("BACK", "back.>")
    nats3.ok("store", "create", "--name", "events", "--stream", "EV", "--bucket", bucket)
    lose_two(wire)
    hours = {"dagster/asset_partition_range_start": hour(3), "dagster/asset_partition_range_end": hour(1)}
    target = {"read_subject": "ev.>", "write_subject": "back.>", "over_gaps": True}
    printed = Recorder(nats3)
    with DagsterInstance.ephemeral() as instance:
        run = Runs(instance)
        run.tick("events_capture_sensor", cursor="warn")
        run.job("events_capture", tags=hours)
        run.asked("seal", run.tick("events_seal_sensor"))
        run.job(
            "events_replay", tags=hours, label="events_replay (dry_run)", events__replay={**target, "dry_run": True}
        )
        run.job("events_replay", tags=hours, events__replay=target)
        run.job("replay", replay_window={**target, "archive": "events", "sequences": "2-3"})
        run.job("checks", events__checks={"sample": 0})
        (chunk, *_) = printed("chunk list", "events")
        printed("chunk get", "events", str(chunk["id"]))
        printed("load get", printed("load list")[0]["id"])
        damage(s3_client, bucket, chunk["key"])
        run.job("checks", label="checks (of a damaged chunk)", events__checks={"sample": 0})
    compare(metadata=run.seen, json_of_what_dagster_ran=printed.shapes)


class Runs:
    """Runs of Dagster in this process, and the tags and metadata that were seen of them."""

    def __init__(self, instance: DagsterInstance) -> None:
        self.seen: dict[str, Any] = {}
        self._instance, self._defs = instance, load_definitions()

    def tick(self, sensor: str, cursor: str | None = None) -> RunRequest:
        """The one run that the sensor asks for."""
        context = build_sensor_context(instance=self._instance, definitions=self._defs, cursor=cursor)
        evaluate: Any = self._defs.resolve_sensor_def(sensor)
        ticked = evaluate(context)
        assert isinstance(ticked, SensorResult), ticked
        (request,) = list(ticked.run_requests or ())
        self.seen[sensor] = {
            "run_tags": sorted(request.tags),
            "assets": names(request.asset_selection),
            "checks": names(request.asset_check_keys),
            "events": {f"check {e.check_name}": metadata_types(e.metadata) for e in evaluations(ticked)},
        }
        return request

    def job(self, name: str, *, tags: dict[str, str] | None = None, label: str = "", **config: Any) -> None:
        self._execute(label or name, self._defs.resolve_job_def(name), tags, config)

    def asked(self, label: str, request: RunRequest) -> None:
        """What a sensor asked for, as the daemon runs it."""
        graph, chosen = self._defs.resolve_asset_graph(), AssetSelection.assets(*(request.asset_selection or ()))
        chosen |= AssetSelection.checks(*(request.asset_check_keys or ()))
        job = self._defs.resolve_implicit_global_asset_job_def().get_subset(
            asset_selection=chosen.resolve(graph), asset_check_selection=chosen.resolve_checks(graph)
        )
        self._execute(label, job, request.tags, {})

    def _execute(self, label: str, job: JobDefinition, tags: Any, config: dict[str, Any]) -> None:
        ops = {"ops": {op: {"config": fields} for op, fields in config.items()}}
        result = job.execute_in_process(instance=self._instance, raise_on_error=False, tags=tags, run_config=ops)
        assert result.success, [e.message for e in result.all_events if e.is_failure]
        run = self._instance.get_run_by_id(result.run_id)
        assert run is not None
        assert label not in self.seen
        ours = sorted(tag for tag in run.tags if not tag.startswith(("dagster/", ".dagster/")))
        self.seen[label] = {"run_tags": ours, "events": events_of(result)}


def evaluations(ticked: SensorResult) -> list[AssetCheckEvaluation]:
    return [event for event in ticked.asset_events if isinstance(event, AssetCheckEvaluation)]


def names(keys: Iterable[AssetKey | AssetCheckKey] | None) -> list[str]:
    return sorted(key.to_user_string() for key in keys or ())


def events_of(result: ExecuteInProcessResult) -> dict[str, Any]:
    """Metadata keys and types by what the event is about; the union where several events are about the same."""
    found: dict[str, Any] = {}
    for event in result.all_events:
        match event.event_specific_data:
            case StepMaterializationData(materialization=made):
                about, metadata = f"materialization {made.asset_key.to_user_string()}", made.metadata
            case AssetObservationData(asset_observation=made):
                about, metadata = f"observation {made.asset_key.to_user_string()}", made.metadata
            case AssetCheckEvaluation() as made:
                about, metadata = f"check {made.asset_check_key.to_user_string()}", made.metadata
            case _:
                continue
        found[about] = merged(found.get(about, {}), metadata_types(metadata))
    return found
