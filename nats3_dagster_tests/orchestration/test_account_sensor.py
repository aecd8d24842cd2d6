"""The account sensor: within a tick each stream has its archive, and the page of the rule says why others have none."""

from typing import Any

import pytest
from dagster import AssetKey, AssetMaterialization, DagsterInstance, SensorResult, SkipReason, build_sensor_context
from pydantic import SecretStr

from nats3_dagster.archive.account import rules
from nats3_dagster.archive.lifecycle.create import create
from nats3_dagster.catalog import migrate
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.project.project import load
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.model.account_rule import AccountRule
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.dagster import account_ticks
from nats3_dagster_tests.support.wire import Wire

PAGE = AssetKey(["jetstream", "account", "all"])


class Ticks:
    """The ticks of a daemon: each has the cursor that the one before left."""

    def __init__(self, instance: DagsterInstance) -> None:
        self._instance = instance
        self._cursor: str | None = None

    def __call__(self) -> SensorResult:
        defs = load()
        sensor: Any = defs.resolve_sensor_def("account_sensor")
        result = sensor(build_sensor_context(instance=self._instance, definitions=defs, cursor=self._cursor))
        assert isinstance(result, SensorResult)
        self._cursor = result.cursor
        return result


def page(result: SensorResult) -> dict[str, object]:
    """The metadata of the page that a tick reported; empty if it reported none."""
    events = result.asset_events
    assert len(events) <= 1
    for event in events:
        assert isinstance(event, AssetMaterialization)
        assert event.asset_key == PAGE
        return {name: value.value for name, value in event.metadata.items()}
    return {}


def keys() -> set[str]:
    return {key.to_user_string() for key in load().resolve_asset_graph().get_all_asset_keys()}


def test_streams_get_archives_and_a_page(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance
) -> None:
    tick = Ticks(instance)
    assert tick().skip_reason == SkipReason("There is no rule for the account")
    wire.create_stream("EV", "ev.>")
    wire.create_stream("JOBS", "jobs.>", retention="workqueue")
    with Workspace(settings) as workspace:
        rules.create(workspace, AccountRule("all", bucket))
    result = tick()
    assert result.skip_reason == SkipReason("created: EV")
    shown = page(result)
    assert (shown["streams"], shown["archived"], shown["left_out"]) == (2, 1, 1)
    assert "`JOBS` | `it has workqueue retention" in str(shown["streams_left_out"])
    assert {"EV/chunks", "jetstream/account/all"} <= keys()

    result = tick()  # what did not change is no event
    assert (page(result), result.skip_reason) == ({}, SkipReason("Each stream is as its rule says"))

    wire.api("STREAM.DELETE.EV")
    result = tick()
    assert result.skip_reason == SkipReason("ended, their streams are gone: EV")
    assert (page(result)["archived"], page(result)["ended"]) == (0, 1)
    skipped = account_ticks.tick(instance)
    assert account_ticks.why(skipped) == "1 archives have ended, their streams are gone"


def test_what_fails_fails_the_tick_until_it_is_mended(
    settings: Settings, bucket: str, wire: Wire, instance: DagsterInstance, empty_postgres_url: str
) -> None:
    wire.create_stream("EV", "ev.>")
    migrate(empty_postgres_url)
    others = settings.model_copy(update={"postgres_url": SecretStr(empty_postgres_url)})
    with Workspace(others) as other, Workspace(settings) as workspace:
        create(other, ArchiveSpec("EV", "EV", bucket))
        rules.create(workspace, AccountRule("all", bucket))
        tick = Ticks(instance)
        shown = page(tick())
        assert (shown["failed"], "belongs to an archive of another catalog" in str(shown["failures"])) == (1, True)
        with pytest.raises(CannotTick, match="belongs to an archive of another catalog"):
            tick()
        workspace.bucket(bucket).delete("archive=EV/_owner.json")
        assert page(tick())["failed"] == 0
