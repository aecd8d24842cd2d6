"""What Dagster sees: names, partitions, config and metadata of the definitions, and what a load costs."""

import ast
import os
import subprocess
import sys
import time
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    DagsterInvalidConfigError,
    Definitions,
    FreshnessPolicy,
    HourlyPartitionsDefinition,
    build_sensor_context,
    validate_run_config,
)
from dagster._config.validate import validate_config
from dagster._utils.error import serializable_error_info_from_exc_info

from nats3_dagster.archive.health import settings_health
from nats3_dagster.catalog import Catalog
from nats3_dagster.chunks import SCHEMA
from nats3_dagster.defs.assets.assets import CAPTURE_HOURS
from nats3_dagster.defs.assets.columns import COLUMNS
from nats3_dagster.defs.instance.instance import examine
from nats3_dagster.defs.jobs.failures import CannotLoad, CannotTick
from nats3_dagster.defs.jobs.run_config import WindowConfig
from nats3_dagster.defs.project.project import load
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ArchiveSpec, Incarnation, SeqRange, StreamState
from nats3_dagster.settings import Settings

ROOT = Path(__file__).parents[2]


def add_archive(settings: Settings, name: str, stream: str, first_ns: int, messages: int = 5) -> None:
    state = StreamState(Incarnation(stream, first_ns), 1, messages, first_ns, first_ns + messages, messages, 100, {})
    with Catalog.connect(settings.postgres) as catalog:
        catalog.archives.create(ArchiveSpec(name, stream, "bucket"), state)


@pytest.fixture
def two_days_ago() -> int:
    return time.time_ns() - 48 * HOUR_NS


@pytest.fixture
def loaded(settings: Settings, two_days_ago: int) -> Definitions:
    add_archive(settings, "orders", "ORDERS", two_days_ago)
    add_archive(settings, "audit", "ORDERS", two_days_ago)
    add_archive(settings, "logs", "my-logs", two_days_ago)
    return load()


def test_names_of_assets_jobs_and_resources(loaded: Definitions) -> None:
    graph = loaded.resolve_asset_graph()
    nodes = [graph.get(key) for key in graph.get_all_asset_keys()]
    assert {n.key.to_user_string(): sorted(p.to_user_string() for p in n.parent_keys) for n in nodes} == {
        "jetstream/ORDERS": [],
        "jetstream/my-logs": [],
        "audit/chunks": ["jetstream/ORDERS"],
        "audit/replay": ["audit/chunks"],
        "audit/sealed": ["audit/chunks"],
        "logs/chunks": ["jetstream/my-logs"],
        "logs/replay": ["logs/chunks"],
        "logs/sealed": ["logs/chunks"],
        "orders/chunks": ["jetstream/ORDERS"],
        "orders/replay": ["orders/chunks"],
        "orders/sealed": ["orders/chunks"],
    }
    repository = loaded.get_repository_def()
    assert sorted(n for n in repository.job_names if not n.startswith("__")) == [
        "audit_capture",
        "audit_replay",
        "checks",
        "compact",
        "drill",
        "logs_capture",
        "logs_replay",
        "orders_capture",
        "orders_replay",
        "replay",
        "restore_stream",
        "resume_replay",
        "retention",
    ]
    assert sorted(key.to_user_string() for key in graph.asset_check_keys) == [
        f"{name}/chunks:{check}"
        for name in ("audit", "logs", "orders")
        for check in ("capture_keeps_up", "chunks_intact", "kept_as_promised", "no_gaps")
    ]
    capture = loaded.resolve_job_def("orders_capture").asset_layer.asset_graph
    # Its own step evaluates them.
    assert list(capture.asset_check_keys) == []
    assert sorted(s.name for s in repository.sensor_defs) == [
        "account_sensor",
        "audit_capture_sensor",
        "audit_seal_sensor",
        "catalog_sensor",
        "check_sensor",
        "compact_sensor",
        "copy_sensor",
        "expiry_sensor",
        "logs_capture_sensor",
        "logs_seal_sensor",
        "orders_capture_sensor",
        "orders_seal_sensor",
        "sweep_sensor",
    ]
    for name in ("orders_capture", "orders_replay", "replay", "__ASSET_JOB"):
        assert loaded.resolve_job_def(name).executor_def.name == "in_process"
    assert graph.get(AssetKey(["jetstream", "ORDERS"])).is_external


def test_an_archive_without_definitions_leaves_the_others_theirs_and_doctor_names_it(
    settings: Settings, two_days_ago: int, dagster_home: Path
) -> None:
    add_archive(settings, "orders", "orders:eu", two_days_ago)
    add_archive(settings, "resume", "Über=1+1", two_days_ago)  # its job would be the one that resumes replays
    loaded = load()
    graph = loaded.resolve_asset_graph()
    assert {"/".join(key.path) for key in graph.get_all_asset_keys()} == {
        "jetstream/orders_x3A_eu",
        *(f"orders/{name}" for name in ("chunks", "replay", "sealed")),
    }
    (text,) = [one.what for one in examine() if one.status == "fail"]
    assert text == (
        "Archive resume has no definitions in Dagster, and nothing captures it: Its job resume_replay has the name of "
        "another one"
    )
    sensor: Any = loaded.resolve_sensor_def("resume_capture_sensor")
    with pytest.raises(CannotTick, match=text):
        sensor(build_sensor_context())


@pytest.mark.s3
def test_hours_begin_with_the_oldest_message_and_hold_the_current_one(loaded: Definitions, two_days_ago: int) -> None:
    nodes = {name: loaded.resolve_asset_graph().get(AssetKey(["orders", name])) for name in ("chunks", "replay")}
    for node in nodes.values():
        hours = node.partitions_def
        assert isinstance(hours, HourlyPartitionsDefinition)
        assert hours.get_first_partition_key() == hour_of(two_days_ago)
        assert hours.get_last_partition_key() == hour_of(time.time_ns())
        assert hours.get_num_partitions() == 49
        assert hour_start(hours.get_partition_keys()[7]) == hour_start(hour_of(two_days_ago)) + 7 * HOUR_NS
    policies = {name: node.backfill_policy for name, node in nodes.items()}
    for name in ("chunks", "sealed"):
        node = loaded.resolve_asset_graph().get(AssetKey(["orders", name]))
        # By the archive's max_age of 30 s.
        assert node.freshness_policy == FreshnessPolicy.time_window(timedelta(seconds=90930), timedelta(seconds=4530))
        assert node.metadata["dagster/column_schema"] == COLUMNS
        assert node.tags["dagster/storage_kind"] == "s3"
    most = {name: p.max_partitions_per_run for name, p in policies.items() if p}
    assert most == {"chunks": CAPTURE_HOURS, "replay": None}
    pools = {name: loaded.resolve_assets_def(node.key).op.pool for name, node in nodes.items()}
    assert pools == {"chunks": "jetstream", "replay": "replay"}


def test_owners_come_from_the_settings_and_wrong_ones_are_told(
    settings: Settings, two_days_ago: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    add_archive(settings, "orders", "ORDERS", two_days_ago)
    monkeypatch.setenv("NATS3_OWNERS", "team:platform, ops@example.com")
    owners = load().resolve_asset_graph().get(AssetKey(["orders", "chunks"])).owners
    assert list(owners) == ["team:platform", "ops@example.com"]
    assert not caplog.records
    # A wrong one stops no capture.
    monkeypatch.setenv("NATS3_OWNERS", "platform, ops@example.com, team:")
    owners = load().resolve_asset_graph().get(AssetKey(["orders", "chunks"])).owners
    assert list(owners) == ["ops@example.com"]
    text = "NATS3_OWNERS names no owner at place 1, 3: the assets in Dagster do without it"
    assert text in caplog.text
    assert [one.what for one in settings_health.check(Settings.load()) if one.status == "fail"] == [text]


def test_column_schema_is_that_of_the_chunk_format() -> None:
    columns = [(c.name, c.type, c.constraints.nullable) for c in COLUMNS.columns]
    assert columns == [(field.name, str(field.type), field.nullable) for field in SCHEMA]


def test_every_field_of_the_run_config_is_described(loaded: Definitions) -> None:
    steps = {"orders_replay": "orders__replay", "orders_capture": "orders__chunks", "replay": "replay_window"}
    for job, step in steps.items():
        schema: Any = loaded.resolve_job_def(job).run_config_schema.config_type
        fields = schema.fields["ops"].config_type.fields[step].config_type.fields["config"].config_type.fields
        assert len(fields) >= 1
        assert all(f.description and len(f.description) > 20 for f in fields.values()), job
        required = {"replay": {"write_subject", "archive"}, "orders_replay": {"write_subject"}}.get(job, set())
        assert {n for n, f in fields.items() if f.is_required} == required


@pytest.mark.parametrize(
    ("job", "run_config", "lacks"),
    [
        # Of an asset that needs a config the UI would offer no backfill: a run without one fails at its start.
        ("__ASSET_JOB", {}, None),
        ("__ASSET_JOB", {"ops": {"orders__replay": {"config": {"rate": 5.0}}}}, '"write_subject"'),
        ("orders_replay", {"ops": {"orders__replay": {"config": {}}}}, '"write_subject"'),
        ("orders_replay", {"ops": {"orders__replay": {"config": {"write_subject": "back.>"}}}}, None),
        ("replay", {}, '"ops"'),
    ],
)
def test_the_editor_says_that_a_replay_needs_a_target(
    loaded: Definitions, job: str, run_config: dict[str, Any], lacks: str | None
) -> None:
    schema: Any = loaded.resolve_job_def(job).run_config_schema.config_type
    errors = [error.message for error in validate_config(schema, run_config).errors or ()]
    assert [f"Missing required config entry {lacks}" in message for message in errors] == ([True] if lacks else [])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"rate": -5.0}, "rate is -5.0. A pace must be above 0; leave it out for no limit"),
        ({"rate": 5.0, "speed": 2.0}, "The original timing cannot be kept under a limit"),
        ({"read_subject": "ev..a"}, "ev..a"),
        ({"write_subject": ""}, "subject"),
        ({"write_subject": "{{foo(1)}}"}, "{{foo(1)}} is not a transform function we know"),
        ({"create_stream": "a.b"}, "a.b"),
        ({"marks": False}, "Only a live replay may leave out the headers"),
    ],
)
@pytest.mark.parametrize(("job", "step"), [("orders_replay", "orders__replay"), ("replay", "replay_window")])
def test_run_config_that_the_command_line_refuses_begins_no_run(
    loaded: Definitions, job: str, step: str, fields: dict[str, Any], says: str
) -> None:
    config = {"write_subject": "back.>"} | ({"archive": "orders"} if job == "replay" else {})
    definition = loaded.resolve_job_def(job)
    validate_run_config(definition, {"ops": {step: {"config": config}}})
    with pytest.raises(DagsterInvalidConfigError) as refused:
        validate_run_config(definition, {"ops": {step: {"config": config | fields}}})
    # After Dagster's own sentence, which repeats the config, ours and no frame.
    assert says in str(refused.value).rpartition("failed:")[2]
    assert "File " not in str(refused.value)


def test_a_window_of_a_wrong_time_begins_no_run(loaded: Definitions) -> None:
    config = {"write_subject": "back.>", "archive": "orders", "from_time": "yesterday"}
    with pytest.raises(DagsterInvalidConfigError, match="'yesterday' is not a time"):
        validate_run_config(loaded.resolve_job_def("replay"), {"ops": {"replay_window": {"config": config}}})


def test_the_ui_offers_backfills_of_replays(loaded: Definitions) -> None:
    """What its page asks: whether the config of the asset is required."""
    op = loaded.resolve_assets_def(AssetKey(["orders", "replay"])).op
    assert not op.config_schema.as_field().is_required


@pytest.mark.parametrize(("text", "first", "last"), [("1000-1999", 1000, 1999), ("1000", 1000, 1000), (" 7 ", 7, 7)])
def test_a_window_takes_sequences_as_the_command_line_does(text: str, first: int, last: int) -> None:
    window = WindowConfig(archive="orders", write_subject="back.>", sequences=text).window()
    assert window.selection.sequences == SeqRange(first, last)


@pytest.mark.parametrize("text", ["", "-5", "1000-", "a-b", "1 2"])
def test_a_window_of_sequences_that_are_none_is_refused(text: str) -> None:
    with pytest.raises(OperatorError, match="is not a sequence range"):
        WindowConfig(archive="orders", write_subject="back.>", sequences=text).window()


@pytest.mark.filterwarnings("ignore:.*environment_vars")  # Dagster reads its own deprecated property
@pytest.mark.s3
def test_no_secret_is_in_what_dagster_stores_of_the_definitions(loaded: Definitions, settings: Settings) -> None:
    from dagster._core.remote_representation.external_data import RepositorySnap
    from dagster_shared.serdes import serialize_value

    text = serialize_value(RepositorySnap.from_def(loaded.get_repository_def()))
    store = settings.store
    assert len(text) > 1000
    assert store.secret_access_key
    for secret in (store.secret_access_key, store.access_key_id, settings.postgres):
        assert str(secret) not in text


def test_loading_200_archives_is_fast_and_imports_neither_spark_nor_nats(settings: Settings, two_days_ago: int) -> None:
    for n in range(200):
        add_archive(settings, f"archive_{n:03d}", f"STREAM{n % 50}", two_days_ago)
    # Processor time, as a multiple of what Dagster itself takes to import: a wall clock would measure what else the
    # machine does, and seconds how fast it is.
    code = """
import sys, time
import dagster
imported = time.process_time()
import nats3_dagster.definitions as d
d.defs.get_repository_def()
heavy = [m for m in ("pyspark", "py4j", "nats", "boto3", "pyarrow") if m in sys.modules]
print([time.process_time() / imported, len(d.defs.resolve_asset_graph().get_all_asset_keys()), heavy])
"""
    run = partial(subprocess.run, [sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
    ran = [ast.literal_eval(run().stdout.decode()) for _ in range(2)]
    assert ran[0][1:] == [650, []]
    assert min(times for times, *_ in ran) < 6, ran


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://nobody:sesame@127.0.0.1:1/nats3", "Postgres at 127.0.0.1:1/nats3 is not reachable"),
        ("", "The address of Postgres is not set"),
    ],
)
def test_without_the_catalog_a_shell_gets_one_clear_line(settings: Settings, url: str, says: str) -> None:
    environment = {**os.environ, "NATS3_POSTGRES_URL": url}
    if not url:
        del environment["NATS3_POSTGRES_URL"]
    command = [Path(sys.executable).with_name("dagster"), "job", "execute", "-m", "nats3_dagster.definitions"]
    ran = subprocess.run([*command, "-j", "a_capture"], capture_output=True, text=True, cwd=ROOT, env=environment)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith(f"Error: {says}")
    assert "Traceback" not in ran.stderr
    assert "sesame" not in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("dagster", "definitions", "validate", "-w", "workspace.yaml"),
        ("dagster-daemon", "run", "-w", "workspace.yaml"),
        ("dagster-webserver", "-w", "workspace.yaml", "-p", "0"),
    ],
    ids=lambda command: command[0],
)
def test_without_the_catalog_every_process_of_dagster_ends_with_one_clear_line(
    settings: Settings, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    url = "postgresql://nobody:sesame@127.0.0.1:1/nats3"
    environment = {**os.environ, "NATS3_POSTGRES_URL": url, "DAGSTER_HOME": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    program = Path(sys.executable).with_name(command[0])
    ran = subprocess.run([program, *command[1:]], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=90)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].startswith("Error: Postgres at 127.0.0.1:1/nats3 is not reachable")
    assert "Traceback" not in ran.stdout + ran.stderr
    assert "sesame" not in ran.stdout + ran.stderr


def test_what_the_ui_shows_of_a_load_without_the_catalog_is_one_line(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", "postgresql://nobody:sesame@127.0.0.1:1/nats3")
    with pytest.raises(CannotLoad) as error:
        load()
    shown = serializable_error_info_from_exc_info((error.type, error.value, error.tb))
    assert (shown.stack, shown.cause, shown.message.count("\n")) == ([], None, 0)
    assert shown.message.startswith("Postgres at 127.0.0.1:1/nats3 is not reachable")


def test_without_the_schema_the_load_says_what_to_run(
    settings: Settings, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", empty_postgres_url)
    with pytest.raises(CannotLoad, match="nats3 migrate"):
        load()
