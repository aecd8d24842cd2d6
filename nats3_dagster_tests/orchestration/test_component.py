"""Archives in another Dagster project: the component and the function, beside the project's own code location."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from dagster import (
    AssetKey,
    AssetObservation,
    DagsterInstance,
    Definitions,
    SensorResult,
    build_sensor_context,
)

import nats3_dagster
from nats3_dagster import AccountRuleDeclaration, ArchiveComponent, ArchiveDeclaration, build_archive_definitions
from nats3_dagster.archive.account import rules
from nats3_dagster.archive.lifecycle.remove import delete
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.jobs.failures import CannotLoad, CannotTick
from nats3_dagster.defs.project.project import load
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster.daemon import Daemon
from nats3_dagster_tests.support.dagster.stories import archive, captured, hold
from nats3_dagster_tests.support.wire import Wire

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "dagster-project"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the metadata that an installed package of this checkout has: `dg` finds the component by it."""
    folder = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        importlib.import_module("hatchling.build").prepare_metadata_for_build_wheel(str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "acme-data"))


class Dg:
    """The command `dg` in the project."""

    def __init__(self, project: Path, installed: Path) -> None:
        self.project = project
        path = os.pathsep.join([str(project / "src"), str(installed), str(ROOT)])
        none = str(project / "none.toml")
        self.environment = {**os.environ, "PYTHONPATH": path, "DG_CLI_CONFIG": none, "COLUMNS": "200"}

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [Path(sys.executable).with_name("dg"), *arguments],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture
def dg(project: Path, installed: Path, settings: Settings) -> Dg:
    return Dg(project, installed)


def templated(dg: Dg, age: str) -> None:
    """Have the archive of the example take a field from the environment, where it is `age`."""
    file = dg.project / "src/acme_data/defs/archives/defs.yaml"
    file.write_text(file.read_text().replace("max_age_s: 30", "max_age_s: '{{ env.AGE }}'"))
    dg.environment["AGE"] = age


def test_dg_loads_the_example(dg: Dg) -> None:
    templated(dg, "45")
    checked = dg("check", "defs")
    assert "All component YAML validated successfully" in checked.stdout, checked.stderr
    assert "All definitions loaded successfully" in checked.stdout
    assert checked.returncode == 0
    listed = json.loads(dg("list", "defs", "--json").stdout)
    assert {one["asset_key"] for one in listed["assets"]} >= {
        "acme/orders/chunks",
        "acme/orders/sealed",
        "acme/orders/replay",
        "acme/orders_by_subject",
    }
    assert {one["name"] for one in listed["jobs"]} == {
        "acme_orders_capture",
        "acme_orders_replay",
        "acme_replay",
        "acme_restore_stream",
        "acme_resume_replay",
        "acme_checks",
        "acme_compact",
        "acme_retention",
    }
    # Loading created nothing.
    with Workspace(Settings.load()) as workspace:
        assert workspace.catalog.archives.totals() == ()


def test_dg_scaffolds_the_component(dg: Dg) -> None:
    made = dg("scaffold", "defs", "nats3_dagster.ArchiveComponent", "more")
    assert made.returncode == 0, made.stderr
    written = yaml.safe_load((dg.project / "src/acme_data/defs/more/defs.yaml").read_text())
    assert written == {"type": "nats3_dagster.ArchiveComponent", "attributes": {}}
    component = ArchiveComponent.from_attributes_dict(attributes=written["attributes"])
    assert component == ArchiveComponent()


def test_dg_names_bad_fields_and_wrong_values_at_their_lines(dg: Dg) -> None:
    wrong = {
        "age: 30": "Additional properties are not allowed ('age' was unexpected)",
        "postgres_url: x": "attributes.postgres_url Additional properties are not allowed",
        "max_age_s: fast": "'fast' is not of type 'integer'",
        "max_bytes: -1": "-1 is less than the minimum of 1",
        "name: or-ders": "'or-ders' does not match",
        "mode: pull": "'pull' is not one of ['stream', 'consumer'",
        "exports: [{name: Files, to: 's3://a'}]": "'Files' does not match",
        "assets: {chunks: {pool: a b}}": "'a b' does not match",
        "retry_policy: {max_retries: often}": "'often' is not of type 'integer'",
    }
    file = dg.project / "src/acme_data/defs/archives/defs.yaml"
    written = file.read_text().replace("name: orders", "name: or-ders")
    lines = "\n      ".join(line for line in wrong if not line.startswith(("name", "postgres_url")))
    file.write_text(written := written.replace("max_age_s: 30", f"{lines}\n  postgres_url: x"))
    ran = dg("check", "yaml")
    assert ran.returncode == 1
    for line, says in wrong.items():
        at = written[: written.index(line)].count("\n") + 1
        assert any(f"defs.yaml:{at} " in said and says in said for said in ran.stdout.splitlines()), (line, ran.stdout)


def test_a_wrong_value_of_a_template_is_said_in_one_line(dg: Dg) -> None:
    templated(dg, "secret-like")
    ran = dg("check", "defs")
    assert ran.returncode == 1
    assert "All component YAML validated successfully" in ran.stdout
    assert "max_age_s of orders: Input should be a valid integer" in ran.stdout + ran.stderr
    assert "secret-like" not in ran.stdout + ran.stderr
    assert "pydantic" not in ran.stdout + ran.stderr


def test_every_field_is_documented_in_the_schema() -> None:
    schema = ArchiveComponent.model().model_json_schema()
    declaration = schema["$defs"]["ArchiveDeclarationModel"]["properties"]
    rule = schema["$defs"]["AccountRuleDeclarationModel"]["properties"]
    for field in (*schema["properties"].values(), *declaration.values(), *rule.values()):
        assert len(field["description"]) > 10
    assert {*rule} == {one.key for one in settings_of(AccountRule)} | {"create_bucket"}
    page = (ROOT / "docs" / "components.md").read_text()
    settings = {one.key for one in settings_of(ArchiveSpec) if one.name not in DAGSTER_SETTINGS}
    assert settings < {*declaration}  # test_archive_settings.py looks for these
    for name in {*schema["properties"], *declaration} - settings:
        assert f"| `{name}` |" in page, name
    validator = jsonschema.Draft202012Validator(schema)
    assert list(validator.iter_errors({"archives": ["a", {"name": "b", "max_age_s": "{{ env.AGE }}"}]})) == []
    (error,) = validator.iter_errors({"archives": ["a", {"name": "b", "bukket": "x"}]})
    assert (list(error.absolute_path), "'bukket' was unexpected" in error.message) == (["archives", 1], True)
    rule_of = {"name": "all", "bucket": "archive", "match": ["KV_*"], "max_age_s": "{{ env.AGE }}"}
    assert list(validator.iter_errors({"accounts": [rule_of]})) == []
    for wrong, says in ({"exlude": ["a"]}, "'exlude' was unexpected"), ({"zstd_level": 23}, "23 is greater than"):
        (error,) = validator.iter_errors({"accounts": [rule_of | wrong]})
        assert says in error.message


def test_the_page_has_the_files_of_the_example() -> None:
    page = (ROOT / "docs" / "components.md").read_text()
    for file in ("defs/archives/defs.yaml", "defs/orders_by_subject.py"):
        assert (EXAMPLE / "src" / "acme_data" / file).read_text() in page


def test_the_package_imports_dagster_for_the_component_alone() -> None:
    code = "import sys, nats3_dagster; print('dagster' in sys.modules, hasattr(nats3_dagster, 'Nothing'))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.stdout.split() == ["False", "False"]
    assert {"ArchiveComponent", "build_archive_definitions"} < set(dir(nats3_dagster))


def contents(definitions: Definitions, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    """What the definitions have, without the prefix."""
    graph, repository = definitions.resolve_asset_graph(), definitions.get_repository_def()
    names = "_".join([*prefix, ""])

    def key(of: AssetKey) -> str:
        assert tuple(of.path[: len(prefix)]) == prefix
        return "/".join(of.path[len(prefix) :])

    def name(of: str) -> str:
        assert of.startswith(names)
        return of.removeprefix(names)

    jobs = {
        name(job.name): sorted(map(key, job.asset_layer.executable_asset_keys)) if job.asset_layer else []
        for job in repository.get_all_jobs()
        if not job.name.startswith("__")
    }
    nodes = [graph.get(one) for one in graph.get_all_asset_keys()]
    return {
        "assets": {key(n.key): (sorted(map(key, n.parent_keys)), str(n.partitions_def), n.kinds) for n in nodes},
        "checks": sorted(f"{key(one.asset_key)}:{one.name}" for one in graph.asset_check_keys),
        "jobs": jobs,
        "sensors": {name(s.name): (s.minimum_interval_seconds, s.default_status) for s in repository.sensor_defs},
        "resources": sorted(repository.get_top_level_resources()),
    }


@pytest.mark.parametrize("prefix", [("acme",), ("acme", "raw-nats")])
def test_function_and_component_define_what_the_catalog_has(
    settings: Settings, wire: Wire, bucket: str, prefix: tuple[str, ...]
) -> None:
    wire.create_stream("EV", "ev.>")
    archive(settings, bucket)
    archive(settings, bucket, "other")
    attributes = {
        "key_prefix": list(prefix),
        "group_name": "nats/raw",
        "owners": ["team:data-eng"],
        "tags": {"tier": "bronze"},
    }
    component = ArchiveComponent.from_attributes_dict(attributes=attributes)
    by_component = component.build_defs(None)  # type: ignore[arg-type]
    by_function = build_archive_definitions(**attributes)  # type: ignore[arg-type]
    # A name of a job has no hyphen.
    wanted = contents(load())
    assert len(wanted["assets"]) == 7
    for made in (by_component, by_function):
        found = contents(made, prefix) if prefix == ("acme",) else None
        assert found in (None, wanted)
        graph = made.resolve_asset_graph()
        assert {node.group_name for node in graph.asset_nodes} == {"nats/raw"}
        assert {node.tags["tier"] for node in graph.asset_nodes} == {"bronze"}
        chunks = graph.get(AssetKey([*prefix, "events", "chunks"]))
        assert list(chunks.owners) == ["team:data-eng"]
        jobs = {job.name for job in made.get_repository_def().get_all_jobs()}
        assert f"{'_'.join(prefix).replace('-', '_')}_events_capture" in jobs
        # Whatever is materialized by hand has the executor of the project.
        assert made.executor is None
        assert made.resolve_assets_def(chunks.key).op.pool == "jetstream"
    more = build_archive_definitions(key_prefix="more")
    both = Definitions.merge(by_function, more, Definitions(resources={"s3": 1}))
    assert len(both.resolve_asset_graph().get_all_asset_keys()) == 14


def tick(instance: DagsterInstance, definitions: Definitions, name: str) -> SensorResult:
    sensor: Any = definitions.resolve_sensor_def(name)
    return sensor(build_sensor_context(instance=instance, definitions=definitions))


RULE: Mapping[str, Any] = {"name": "all", "bucket": "acme-archive", "create_bucket": True}
DECLARED: Mapping[str, Any] = {"name": "orders", "stream": "ORDERS", "bucket": "acme-archive", "create_bucket": True}


def user(**more: Any) -> Definitions:
    """The code location of somebody who declares an archive."""
    return build_archive_definitions(archives=[ArchiveDeclaration(**{**DECLARED, **more})], key_prefix="acme")


def test_a_tick_creates_what_is_declared_and_compares_it_ever_after(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    mine = {"bucket": bucket, "subjects": ["orders.>"], "max_age_s": 30}
    definitions = user(**mine)
    with pytest.raises(CannotTick, match="ORDERS"):
        tick(instance, definitions, "acme_orders_capture_sensor")
    wire.create_stream("ORDERS", "orders.>")
    with Workspace(settings) as workspace:
        assert workspace.catalog.archives.find("orders") is None
        answer = tick(instance, definitions, "acme_orders_capture_sensor")
        assert answer.skip_reason is not None
        created = workspace.catalog.archives.get("orders")
        assert created.spec == ArchiveSpec("orders", "ORDERS", bucket, subjects=("orders.>",), max_age_s=30)
        # What is not declared may be whatever it is.
        tick(instance, user(bucket=bucket), "acme_orders_capture_sensor")
        with pytest.raises(CannotTick) as refused:
            tick(instance, user(**mine, max_bytes=5, prefix="x"), "acme_orders_capture_sensor")
        assert str(refused.value) == (
            "Archive orders is not as declared: max_bytes is 67108864, and 5 is declared; prefix is empty, and x is "
            "declared. Declare what the archive has, or change archive orders to what is "
            "declared, in a shell: nats3 store set orders"
        )
        delete(workspace, "orders")
        with pytest.raises(CannotTick) as refused:
            tick(instance, definitions, "acme_orders_capture_sensor")
        assert str(refused.value) == (
            "Archive orders is declared, and was deleted. Take orders out of the declaration, or create it again, in a "
            "shell: nats3 store create"
        )
        assert workspace.catalog.archives.find("orders") is None


def test_a_tick_creates_a_declared_rule_and_compares_it_ever_after(
    settings: Settings, wire: Wire, bucket: str, instance: DagsterInstance
) -> None:
    """The example of docs/account.md."""
    wire.create_stream("EV", "ev.>")
    wire.create_stream("tmp1", "tmp.>")
    page = (ROOT / "docs" / "account.md").read_text()
    text = page[page.index("type: nats3_dagster.ArchiveComponent") :].split("```")[0]
    attributes = yaml.safe_load(text.replace("bucket: archive", f"bucket: {bucket}"))["attributes"]

    def loaded(**more: Any) -> Definitions:
        rule = attributes["accounts"][0] | more
        component = ArchiveComponent.from_attributes_dict(attributes=attributes | {"accounts": [rule]})
        return component.build_defs(None)  # type: ignore[arg-type]

    with Workspace(settings) as workspace:
        definitions = loaded()
        assert workspace.catalog.accounts.rules() == ()
        assert AssetKey(["jetstream", "account", "all"]) in definitions.resolve_asset_graph().get_all_asset_keys()
        assert "created: EV" in str(tick(instance, definitions, "account_sensor").skip_reason)
        (kept,) = workspace.catalog.accounts.rules()
        assert kept.rule == AccountRule("all", bucket, exclude=("tmp*",), max_age_s=300)
        assert [one.name for one in workspace.catalog.archives.all()] == ["EV"]
        assert AssetKey(["EV", "chunks"]) in loaded().resolve_asset_graph().get_all_asset_keys()
        # What is not declared may be whatever it is. What is declared is compared, and never changed.
        rules.change(workspace, "all", {"take_queues": True})
        tick(instance, loaded(), "account_sensor")
        other = loaded(max_age_s=5)
        wire.create_stream("LATE", "late.>")
        answer = tick(instance, other, "account_sensor")
        assert "created: LATE; not as declared: all" in str(answer.skip_reason)
        said = (
            "Rule all is not as declared: max_age_s is 300, and 5 is declared. Declare what the rule has, or change "
            "rule all to what is declared, in a shell: nats3 account set all"
        )
        sensor: Any = other.resolve_sensor_def("account_sensor")
        with pytest.raises(CannotTick) as refused:
            sensor(build_sensor_context(instance=instance, definitions=other, cursor=answer.cursor))
        assert str(refused.value) == said
        assert workspace.catalog.accounts.get("all").rule.max_age_s == 300
        # A rule that was ended is not made again, until a person does.
        rules.end(workspace, "all")
        with pytest.raises(CannotTick) as refused:
            tick(instance, loaded(), "account_sensor")
        assert str(refused.value) == (
            "Rule all is declared, and was ended. Take all out of the declaration, or create it again, in a shell: "
            "nats3 account create all"
        )
        assert workspace.catalog.accounts.rules() == ()
        rules.create(workspace, kept.rule)
        tick(instance, loaded(), "account_sensor")
        rules.end(workspace, "all")
        assert workspace.catalog.accounts.ended_names() == {"all"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"archives": ["events"]}, "There is no archive 'events'. Create it in a shell, nats3 store create, or write"),
        ({"archives": ["a", "a"]}, "Archive a is twice among the archives"),
        ({"archives": [ArchiveDeclaration(name="a", bucket="b")]}, "Archive a is declared without stream."),
        ({"archives": [ArchiveDeclaration(**{**DECLARED, "zstd_level": 0})]}, "zstd_level is 0"),
        ({"key_prefix": "a b"}, "The key_prefix has the part 'a b'. A part has letters, digits, _ . and - only"),
        ({"group_name": "a-b"}, "The group_name is 'a-b'. Use letters, digits and _"),
        ({"owners": ["platform"]}, "'platform' in owners is no owner"),
        ({"accounts": [AccountRuleDeclaration(**RULE)] * 2}, "Rule all is twice among the accounts"),
        ({"accounts": [AccountRuleDeclaration(**RULE, match=["a.b"])]}, "'a.b' is not a pattern of stream names"),
        ({"accounts": [AccountRuleDeclaration(**RULE)], "archives": []}, "There are accounts and archives"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(settings: Settings, given: dict[str, Any], says: str) -> None:
    with pytest.raises(CannotLoad) as refused:
        build_archive_definitions(**given)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


class Theirs(Daemon):
    """Ticks of the catalog sensor of another code location."""

    def load(self, archives: list[str] | None = None) -> None:
        """Load the code location; the cursor stays."""
        self.sensor: Any = build_archive_definitions(key_prefix="acme", archives=archives).resolve_sensor_def(
            "acme_catalog_sensor"
        )

    def evaluate(self) -> SensorResult:
        return self.sensor(build_sensor_context(instance=self.instance, cursor=self.cursor))


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(60)
def test_two_code_locations_leave_each_other_alone(settings: Settings, bucket: str, kept: DagsterInstance) -> None:
    hours = captured(settings, bucket, 3)
    archive(settings, bucket, "other")
    hold(settings, bucket, hours, name="other")
    ours, theirs = Daemon(kept), Theirs(kept)
    now = hour_of(time.time_ns())
    theirs.load()

    def reported() -> dict[str, set[str]]:
        """What Dagster has, by asset."""
        found = {key.to_user_string(): kept.get_materialized_partitions(key) for key in kept.get_asset_keys()}
        return {key: partitions for key, partitions in found.items() if partitions}

    own = {"events/chunks": {*hours, now}, "other/chunks": {*hours, now}}
    ours.tick_until_idle()
    assert reported() == own
    theirs.tick_until_idle()
    assert reported() == own | {f"acme/{key}": partitions for key, partitions in own.items()}
    assert (ours.tick(), theirs.tick()) == ([], [])
    # An archive that is not named any more is forgotten where it was named, and there alone.
    theirs.load(["other"])
    theirs.tick_until_idle()
    assert reported() == own | {"acme/other/chunks": {*hours, now}}
    assert ours.tick() == []
    # What was never reported by a code location is not wiped by it: another one may have the same prefix.
    kept.report_runless_asset_event(AssetObservation(AssetKey(["acme", "events", "chunks"])))
    theirs.cursor = None
    theirs.tick_until_idle()
    assert AssetKey(["acme", "events", "chunks"]) in kept.get_asset_keys()
    # A deleted one is forgotten by both.
    with Workspace(settings) as workspace:
        delete(workspace, "other")
    theirs.tick_until_idle()
    assert reported() == own
    ours.tick_until_idle()
    assert reported() == {"events/chunks": {*hours, now}}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, project: Path) -> Iterator[Any]:
    """The module of the example's definitions."""
    monkeypatch.syspath_prepend(str(project / "src"))
    yield importlib.import_module("acme_data.definitions")
    for name in [name for name in sys.modules if name.split(".")[0] == "acme_data"]:
        del sys.modules[name]


@pytest.mark.needs_nats("2.15")
@pytest.mark.steady_hour(90)
@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")  # of the example's partition mappings
def test_the_example_captures_seals_and_reads(
    spark: Any, settings: Settings, s3_client: Any, instance: DagsterInstance, example: Any
) -> None:
    start = hour_start(hour_of(time.time_ns())) - 2 * HOUR_NS
    restore_stream(
        settings.nats,
        "ORDERS",
        ["orders.>"],
        [Past(n + 1, start + n * HOUR_NS // 4, f"orders.{n % 2}", b"", b"x") for n in range(8)],
    )
    hours = [hour_of(start + n * HOUR_NS) for n in range(2)]
    asked = tick(instance, example.defs(), "acme_orders_capture_sensor").run_requests or []
    assert [request.partition_key for request in asked] == [hour_of(time.time_ns())]
    assert asked[0].tags["nats3/earlier"] == ",".join(hours)
    # As soon as the archive is there the hours are partitions.
    definitions = example.defs()
    job = definitions.resolve_job_def("acme_orders_capture")
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[1]}
    assert job.execute_in_process(instance=instance, tags=tags).success
    chunks, sealed, by_subject = (
        AssetKey(["acme", *rest]) for rest in (("orders", "chunks"), ("orders", "sealed"), ("orders_by_subject",))
    )
    assert instance.get_materialized_partitions(chunks) == set(hours)
    everything = definitions.resolve_implicit_global_asset_job_def()
    assert everything.execute_in_process(instance=instance, tags=tags, asset_selection=[sealed]).success
    assert instance.get_materialized_partitions(sealed) == set(hours)
    read = everything.execute_in_process(instance=instance, partition_key=hours[1], asset_selection=[by_subject])
    (event,) = read.get_asset_materialization_events()
    counted = {name: value.value for name, value in event.materialization.metadata.items()}
    assert counted == {"messages": 4, "orders.0": 2, "orders.1": 2}
    assert {key.path[0] for key in instance.get_asset_keys()} == {"acme"}
    with Catalog.connect(settings.postgres) as catalog:
        assert sum(chunk.meta.messages for chunk in catalog.chunks.select(catalog.archives.get("orders"))) == 8
