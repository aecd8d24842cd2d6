"""What a platform sets for assets: everywhere, for an archive, for one kind of its assets."""

import inspect
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetsDefinition,
    AutomationCondition,
    Backoff,
    Definitions,
    FreshnessPolicy,
    RetryPolicy,
)

from nats3_dagster import ArchiveComponent, ArchiveDeclaration, build_archive_definitions
from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.jobs.failures import CannotLoad, ForeseenFailure
from nats3_dagster.defs.project.platform import AssetsByKind, AssetSettings, PlatformSettings, StreamSettings
from nats3_dagster.defs.project.policies import FreshnessSettings, RetrySettings
from nats3_dagster.errors import CatalogUnreachable, OperatorError, Paused
from nats3_dagster.model import Incarnation
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.catalog import spec, state

ARCHIVE: dict[str, Any] = {"name": "orders", "stream": "ORDERS", "bucket": "acme"}
EXPORT = {"name": "files", "to": "s3://lake/x", "format": "csv"}


def made(definitions: Definitions, *key: str) -> AssetsDefinition:
    return definitions.resolve_assets_def(AssetKey(list(key)))


@pytest.mark.s3
def test_the_most_specific_value_counts_and_tags_and_kinds_add_up(settings: Settings) -> None:
    attributes = {
        "owners": ["team:platform"],
        "tags": {"tier": "bronze", "of": "all"},
        "kinds": ["lake"],
        "retry_policy": {"max_retries": 3, "delay_s": 5, "backoff": "exponential"},
        "assets": {
            "stream": {"owners": ["team:streams"], "kinds": ["bus"]},
            "chunks": {"pool": "nats_reads", "freshness_policy": {"fail_window_s": 7200, "warn_window_s": 3600}},
            "sealed": {"automation_condition": "{{ dg.AutomationCondition.eager() }}"},
            "replay": {"pool": "nats_writes", "retry_policy": {"max_retries": 1}},
        },
        "archives": [
            ARCHIVE
            | {
                "group_name": "shop",
                "tags": {"of": "orders"},
                "exports": [EXPORT],
                "assets": {"chunks": {"owners": ["team:shop"], "pool": "shop"}, "exports": {"pool": "files"}},
            },
            ARCHIVE | {"name": "more"},
        ],
    }
    component = ArchiveComponent.from_attributes_dict(attributes=attributes)
    definitions = component.build_defs(None)  # type: ignore[arg-type]
    chunks, sealed = made(definitions, "orders", "chunks"), made(definitions, "orders", "sealed")
    replay, files = made(definitions, "orders", "replay"), made(definitions, "orders", "files")
    stream = definitions.resolve_asset_graph().get(AssetKey(["jetstream", "ORDERS"]))
    (spec,) = chunks.specs
    assert (spec.group_name, list(spec.owners)) == ("shop", ["team:shop"])
    assert {key: spec.tags[key] for key in ("tier", "of")} == {"tier": "bronze", "of": "orders"}
    assert spec.kinds == {"nats", "pyspark", "parquet", "s3", "lake"}
    assert spec.freshness_policy == FreshnessPolicy.time_window(timedelta(hours=2), timedelta(hours=1))
    assert spec.automation_condition is None
    (condition,) = [one.automation_condition for one in sealed.specs]
    assert condition == AutomationCondition.eager()
    pools = [one.op.pool for one in (chunks, replay, files, made(definitions, "more", "chunks"))]
    assert pools == ["shop", "nats_writes", "files", "nats_reads"]
    assert [definitions.resolve_job_def(name).nodes[0].definition.pool for name in ("replay", "resume_replay")] == [  # type: ignore[attr-defined]
        "nats_writes",
        "nats_writes",
    ]
    assert chunks.op.retry_policy == RetryPolicy(max_retries=3, delay=5, backoff=Backoff.EXPONENTIAL)
    assert replay.op.retry_policy == RetryPolicy(max_retries=1, delay=0)
    assert (list(stream.owners), stream.kinds, stream.group_name) == (
        ["team:streams"],
        {"nats", "stream", "lake", "bus"},
        "jetstream",
    )
    assert [list(one.owners) for one in made(definitions, "more", "chunks").specs] == [["team:platform"]]


@pytest.mark.s3
def test_an_archive_of_the_catalog_has_settings_of_its_own_and_a_component_the_last_word(
    catalog: Catalog, settings: Settings
) -> None:
    own: dict[str, Any] = {
        "group_name": "sales",
        "owners": ("team:sales",),
        "tags": ("domain=sales", "tier=gold"),
        "kinds": ("orders",),
        "pool": "sales_captures",
        "retries": 2,
        "retry_delay_s": 30,
        "warn_window_s": 3600,
    }
    catalog.archives.create(spec("orders", **own), state())
    catalog.archives.create(spec("plain"), state())
    graph = build_archive_definitions()
    chunks, replay = made(graph, "orders", "chunks"), made(graph, "orders", "replay")
    (one,) = chunks.specs
    assert (one.group_name, list(one.owners), one.kinds) == (
        "sales",
        ["team:sales"],
        {"nats", "pyspark", "parquet", "s3", "orders"},
    )
    assert {key: one.tags[key] for key in ("domain", "tier")} == {"domain": "sales", "tier": "gold"}
    assert one.freshness_policy == FreshnessPolicy.time_window(timedelta(hours=25), timedelta(hours=1))
    assert [each.op.pool for each in (chunks, replay)] == ["sales_captures", "replay"]
    assert {each.op.retry_policy for each in (chunks, replay)} == {RetryPolicy(max_retries=2, delay=30)}
    (other,) = made(graph, "plain", "chunks").specs
    assert (other.group_name, list(other.owners), made(graph, "plain", "chunks").op.pool) == ("plain", [], "jetstream")
    mine = build_archive_definitions(
        archives=[ArchiveDeclaration(name="orders", owners=["team:shop"], tags={"tier": "silver"})],
        owners=["team:platform"],
        group_name="everything",
    )
    (one,) = made(mine, "orders", "chunks").specs
    assert (one.group_name, list(one.owners)) == ("sales", ["team:shop"])
    assert {key: one.tags[key] for key in ("domain", "tier")} == {"domain": "sales", "tier": "silver"}


def test_objects_of_dagster_stand_for_tables(settings: Settings) -> None:
    policy = FreshnessPolicy.cron("0 10 * * *", timedelta(hours=1))
    definitions = build_archive_definitions(
        archives=[ArchiveDeclaration(**ARCHIVE, owners=["team:shop"])],
        retry_policy=RetryPolicy(max_retries=2),
        assets={"chunks": {"freshness_policy": policy, "automation_condition": AutomationCondition.on_missing()}},
    )
    chunks = made(definitions, "orders", "chunks")
    assert chunks.op.retry_policy == RetryPolicy(max_retries=2)
    (spec,) = chunks.specs
    assert (spec.freshness_policy, list(spec.owners)) == (policy, ["team:shop"])
    assert spec.automation_condition == AutomationCondition.on_missing()


def test_every_asset_has_the_owners_of_the_settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS3_OWNERS", "team:data, ops@example.com")
    graph = build_archive_definitions(archives=[ArchiveDeclaration(**ARCHIVE)]).resolve_asset_graph()
    assert {tuple(node.owners) for node in graph.asset_nodes} == {("team:data", "ops@example.com")}


@pytest.mark.s3
def test_the_kind_s3_is_of_that_store_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def kinds() -> dict[str, set[str]]:
        archive = ArchiveDeclaration(**ARCHIVE, exports=[EXPORT | {"to": f"file://{tmp_path}"}])
        graph = build_archive_definitions(archives=[archive]).resolve_asset_graph()
        return {node.key.to_user_string(): set(node.kinds) for node in graph.asset_nodes}

    in_s3 = kinds()
    assert in_s3["orders/chunks"] == {"nats", "pyspark", "parquet", "s3"}
    assert in_s3["orders/sealed"] == {"s3", "json"}
    assert in_s3["orders/files"] == {"pyspark", "csv"}
    monkeypatch.setenv("NATS3_STORE_URL", f"file://{tmp_path}")
    in_folder = kinds()
    assert in_folder["orders/chunks"] == {"nats", "pyspark", "parquet"}
    assert in_folder["orders/sealed"] == {"json"}


def test_function_and_component_have_the_same_fields() -> None:
    assert list(inspect.signature(build_archive_definitions).parameters) == [
        "archives",
        "accounts",
        "key_prefix",
        *PlatformSettings.model_fields,
    ]
    assert {*inspect.signature(build_archive_definitions).parameters} == {*ArchiveComponent.model_fields}
    for kind in ("chunks", "sealed", "replay", "exports", "table"):
        assert AssetsByKind.model_fields[kind].annotation == AssetSettings | None


def test_every_field_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "components.md").read_text()
    for settings in (PlatformSettings, StreamSettings, AssetSettings, AssetsByKind, RetrySettings, FreshnessSettings):
        for name in settings.model_fields:
            assert f"| `{name}` |" in page, name


def test_the_page_has_every_name(settings: Settings) -> None:
    replays = [{"name": "to_test", "write_subject": "test.>"}]
    archive = ArchiveDeclaration(**ARCHIVE, exports=[EXPORT], replays=replays)
    with Catalog.connect(settings.postgres) as catalog:
        created = catalog.archives.create(
            spec(stream="ORDERS", bucket="acme", name="orders"), state(Incarnation("ORDERS", 1))
        )
        catalog.tables.add(created, "nats3", "nats3.orders")
    definitions = build_archive_definitions(key_prefix="acme", archives=[archive])
    graph, repository = definitions.resolve_asset_graph(), definitions.get_repository_def()
    jobs = [job for job in repository.get_all_jobs() if not job.name.startswith("__")]
    page = (Path(__file__).parents[2] / "docs" / "components.md").read_text()
    table = page[page.index("## Names") : page.index("## Archives as code")]
    rows = {line.split(" | ")[0].strip("| "): {*re.findall("`([^`]+)`", line)} for line in table.splitlines()}
    pools = {one.op.pool for one in repository.assets_defs_by_key.values() if one.is_executable and one.op.pool}
    assert {node.key.to_user_string() for node in graph.asset_nodes} == rows["assets"]
    assert {check.name for check in graph.asset_check_keys} == rows["checks"] - {"acme/orders/chunks"}
    assert {job.name for job in jobs} | {one.name for one in repository.schedule_defs} == rows["jobs"]
    assert {one.name for one in repository.sensor_defs} == rows["sensors"]
    of_assets = {one.op.name for one in repository.assets_defs_by_key.values() if one.is_executable}
    assert of_assets | {node.name for job in jobs for node in job.nodes} == rows["ops in run config"]
    for name in [*repository.get_top_level_resources(), *pools]:
        assert f"`{name}`" in table, name


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"assets": {"chunks": {"freshness_policy": {"fail_window_s": 60, "deadline_cron": "0 1 * * *"}}}}, "neither"),
        ({"assets": {"chunks": {"freshness_policy": {"warn_window_s": 60}}}}, "neither of a time window nor"),
        ({"assets": {"chunks": {"owners": ["me"]}}}, "'me' in owners is no owner"),
        ({"assets": {"replays": {}}}, "assets.replays: Extra inputs are not permitted"),
        ({"retry_policy": {"max_retries": 0}}, "retry_policy"),
        ({"assets": {"replay": {"pool": "a b"}}}, 'Pool "a b" is not a valid pool name'),
        ({"tags": {"a b": "c"}}, "Dagster refuses a setting"),
    ],
)
def test_a_wrong_setting_is_one_line(settings: Settings, given: dict[str, Any], says: str) -> None:
    with pytest.raises(CannotLoad) as refused:
        build_archive_definitions(archives=[ArchiveDeclaration(**ARCHIVE)], **given)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_only_what_can_pass_is_tried_again() -> None:
    assert ForeseenFailure(CatalogUnreachable("Postgres is down")).allow_retries
    for error in (OperatorError("no", "x"), Paused("paused")):
        assert not ForeseenFailure(error).allow_retries
