"""Versions in Dagster: nothing is stale that need not run, and what depends on sealed hours is asked for once for each
hour that changed."""

import re
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetsDefinition,
    DagsterInstance,
    Definitions,
    HourlyPartitionsDefinition,
    RunRequest,
    asset,
    evaluate_automation_conditions,
)
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.project.project import load
from nats3_dagster.model import Selection
from nats3_dagster.settings import Settings
from nats3_dagster_tests.support.dagster.daemon import CHUNKS, REPLAY, SEALED, Daemon
from nats3_dagster_tests.support.dagster.runs import hour_range
from nats3_dagster_tests.support.dagster.seal_ticks import asked, execute, failure, tick
from nats3_dagster_tests.support.dagster.stories import archive, captured, hold, past, replayed

pytestmark = [pytest.mark.needs_nats("2.15"), pytest.mark.steady_hour(60)]
COMPONENTS = Path(__file__).parents[2] / "docs" / "components.md"


def report_of(first: str) -> AssetsDefinition:
    """An asset of a user, of sealed hours."""
    hours = HourlyPartitionsDefinition(first, timezone="UTC", fmt="%Y-%m-%d-%H:00")

    @asset(deps=[SEALED], partitions_def=hours)
    def report(context: AssetExecutionContext) -> None: ...

    return report


def with_report(first: str) -> Definitions:
    return Definitions.merge(load(), Definitions(assets=[report_of(first)]))


def make_reports(instance: DagsterInstance, defs: Definitions, hours: list[str]) -> None:
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={AssetKey("report")})
    for hour in hours:
        assert job.execute_in_process(instance=instance, partition_key=hour).success


def stale(instance: DagsterInstance, defs: Definitions) -> set[tuple[str, str]]:
    """Which hours of which assets Dagster shows as to be run again, or as missing though another asset has them."""
    graph = defs.resolve_asset_graph()
    found: set[tuple[str, str]] = set()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    for key in (CHUNKS, SEALED, REPLAY, AssetKey("report")):
        for hour in instance.get_materialized_partitions(key) if graph.has(key) else ():
            if resolver.get_status(key, hour).value != "FRESH":
                found.add((key.path[-1], hour))
    return found


def versions(daemon: Daemon, hours: list[str]) -> dict[tuple[str, str], Any]:
    return {
        (key.path[-1], hour): daemon.says(hour, key)["version"]
        for key in (CHUNKS, SEALED, REPLAY)
        for hour in hours
        if hour in daemon.partitions(key)
    }


def seal_in_a_run(instance: DagsterInstance) -> int:
    """What the seal sensor asks for; how many runs that were."""
    requests = asked(tick(instance))
    for request in requests:
        done = execute(instance, request, checks=False)
        assert done.success, failure(done)
    return len(requests)


def recut(settings: Settings, bucket: str, hour: str, seq: int, **fields: Any) -> None:
    """The chunk of the hour is written again, as repairs and compactions do; `fields`: what is new in it."""
    with Catalog.connect(settings.postgres) as catalog:
        found = catalog.archives.get("events")
        catalog.chunks.retire(found, [one.id for one in catalog.chunks.of_hour(found, hour)], recapture=True)
    hold(settings, bucket, [hour], first=seq, **fields)


def test_nothing_is_stale_that_need_not_run(settings: Settings, bucket: str, kept: DagsterInstance) -> None:
    # Hours with a message and hours without one, by turns.
    hours = past(settings, 4, every=2)
    archive(settings, bucket)
    hold(settings, bucket, hours[::2])
    replayed(settings, Selection(hours=(hours[0], hours[2])))
    daemon = Daemon(kept)
    daemon.tick_until_idle()
    assert seal_in_a_run(kept) == 1
    daemon.tick_until_idle()
    # The open hour too: nothing of it waits.
    assert (len(daemon.partitions() - {*hours}), daemon.partitions(SEALED)) == (1, {*hours})
    defs = with_report(hours[0])
    make_reports(kept, defs, hours)
    assert stale(kept, defs) == set()
    lineage = daemon.says(hours[0], SEALED)["dagster/column_lineage"].deps_by_column
    assert [(dep.asset_key, dep.column_name) for dep in lineage["data"]] == [(CHUNKS, "data")]
    assert daemon.says(hours[0])["dagster/row_count"] == daemon.says(hours[3], SEALED)["dagster/row_count"] == 2
    assert daemon.says(hours[3], SEALED)["dagster/partition_row_count"] == 0
    first = versions(daemon, hours)
    # An hour has one version, whatever shows it; and all without a message have the same.
    assert all(first["chunks", hour] == first["sealed", hour] for hour in hours)
    assert len({first["chunks", hour] for hour in hours}) == 3

    # There is nothing to seal. Who asks for hours gets their events, of the same version, and nothing is stale.
    assert execute(
        kept, RunRequest(asset_selection=[SEALED], tags=hour_range(hours[0], hours[-1])), checks=False
    ).success
    events = len(kept.fetch_materializations(SEALED, limit=99).records)
    assert (events, versions(daemon, hours), stale(kept, defs)) == (8, first, set())
    # What is written again is sealed again, as it was, and not reported.
    recut(settings, bucket, hours[2], 2)
    daemon.tick_until_idle()
    assert seal_in_a_run(kept) == 1
    daemon.tick_until_idle()
    assert len(kept.fetch_materializations(SEALED, limit=99).records) == events
    assert len(kept.fetch_observations(SEALED, limit=9).records) == 1
    assert (versions(daemon, hours), stale(kept, defs)) == (first, set())

    # A new DAGSTER_HOME has the same from the catalog alone.
    with DagsterInstance.ephemeral() as other:
        again = Daemon(other)
        again.tick_until_idle()
        assert versions(again, hours) == first
        make_reports(other, defs, hours)
        assert stale(other, defs) == set()

    # Other messages: what was made of that hour is stale, and of no other.
    recut(settings, bucket, hours[2], 2, payload_bytes=7)
    daemon.tick_until_idle()
    assert seal_in_a_run(kept) == 1
    daemon.tick_until_idle()
    assert stale(kept, defs) == {("report", hours[2])}


def example() -> list[AssetsDefinition]:
    """The assets of docs/components.md, as they stand there."""
    text = COMPONENTS.read_text()
    block = next(b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "on_cron" in b)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Dagster calls these conditions beta
        exec(block.replace('["acme", "orders", "sealed"]', '["events", "sealed"]'), names)
    return names["assets"]


def test_each_condition_asks_once_for_each_hour_that_changed(
    settings: Settings, bucket: str, kept: DagsterInstance
) -> None:
    assets = example()
    daemon, at, cursor = Daemon(kept), datetime.now(UTC).replace(minute=1), None

    def evaluate() -> Mapping[str, list[str]]:
        """What is asked for in the next hour, by asset; the last evaluation is after the next full hour, when the cron
        schedule ticks."""
        nonlocal at, cursor
        found: dict[str, list[str]] = {}
        for minutes in (20, 20, 24):
            at += timedelta(minutes=minutes)
            defs = Definitions.merge(load(), Definitions(assets=assets))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = evaluate_automation_conditions(defs, kept, cursor=cursor, evaluation_time=at)
            cursor = answer.cursor
            for one in assets:
                for hour in sorted(map(str, answer.get_requested_partitions(one.key))):
                    found.setdefault(one.key.path[-1], []).append(hour)
                    kept.report_runless_asset_event(AssetMaterialization(one.key, partition=hour))
        at -= timedelta(minutes=4)
        return found

    hours = captured(settings, bucket, 4)
    daemon.tick_until_idle()
    assert evaluate() == {}
    seal_in_a_run(kept)
    daemon.tick_until_idle()
    every = {one.key.path[-1]: hours for one in assets}
    assert evaluate() == every
    assert evaluate() == {}
    # Other messages in one hour.
    recut(settings, bucket, hours[1], 2, payload_bytes=7)
    daemon.tick_until_idle()
    seal_in_a_run(kept)
    daemon.tick_until_idle()
    assert evaluate() == {name: [hours[1]] for name in every}
    # The same messages in another object.
    recut(settings, bucket, hours[2], 3)
    daemon.tick_until_idle()
    seal_in_a_run(kept)
    daemon.tick_until_idle()
    assert evaluate() == {}
