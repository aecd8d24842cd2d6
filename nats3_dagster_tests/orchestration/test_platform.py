"""A platform of a user's own, for a day: two code locations on one instance and catalog, one by YAML and one in Python,
with assets of each kind of frame and each automation condition. Every run is counted."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import yaml
from dagster import (
    AssetExecutionContext,
    AssetIn,
    AssetKey,
    AssetsDefinition,
    AutomationCondition,
    BackfillPolicy,
    DagsterExecutionInterruptedError,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    HourlyPartitionsDefinition,
    asset,
    build_sensor_context,
    evaluate_automation_conditions,
)
from pyspark.sql import DataFrame

from nats3_dagster import ArchiveComponent, build_archive_definitions
from nats3_dagster.archive.captures import commit
from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.proof.repair import plan_repair, repair
from nats3_dagster.archive.proof.seal import seal_hours, sealable
from nats3_dagster.archive.proof.verify import chunks_to_verify, verify_chunks
from nats3_dagster.defs.partitions import blocks
from nats3_dagster.dev.history import Past, restore_stream
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import captures
from nats3_dagster_tests.support.captures import plan_hours

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs_nats("2.15"),
    pytest.mark.steady_hour(180),
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning", "ignore::dagster.PreviewWarning"),
]
DAY, EMPTY, LATE, DAMAGED = 24, 7, 20, 3
YAML = """
type: nats3_dagster.ArchiveComponent
attributes:
  key_prefix: lake
  owners: [team:platform]
  assets:
    chunks: {pool: nats_reads}
  archives:
    - name: orders
      stream: ORDERS
      bucket: BUCKET
      replays: [{name: to_test, write_subject: test.>}]
"""


class Platform:
    """Two code locations, and the day of their archive."""

    def __init__(self, settings: Settings, bucket: str, instance: DagsterInstance) -> None:
        self.settings, self.instance = settings, instance
        start = hour_start(hour_of(time.time_ns())) - DAY * HOUR_NS
        self.hours = [hour_of(start + n * HOUR_NS) for n in range(DAY)]
        # Two messages an hour, but for one hour that has none.
        self.messages = {hour: 0 if n == EMPTY else 2 for n, hour in enumerate(self.hours)}
        times = [start + n * HOUR_NS + at for n in range(DAY) if n != EMPTY for at in (0, HOUR_NS // 2)]
        past = [Past(n + 1, at, f"orders.{n % 2}", b"", b"%d" % n) for n, at in enumerate(times)]
        restore_stream(settings.nats, "ORDERS", ["orders.>"], past)
        self.attributes = yaml.safe_load(YAML.replace("BUCKET", bucket))["attributes"]
        # Whether the next run is cancelled in the middle.
        self.cancels = False
        # How many messages each run of an asset got, by asset and the first and last hour of its run.
        self.runs: list[tuple[str, str, str, int]] = []
        self.cursors: dict[str, Any] = {}
        self.at = datetime.now(UTC).replace(minute=1)
        sealed = AssetKey(["lake", "orders", "sealed"]), AssetKey(["shop", "orders", "sealed"])
        # They look at the newest hour alone, and an hour may be sealed late.
        newest = AutomationCondition.in_latest_time_window()
        changed = AutomationCondition.any_deps_match(AutomationCondition.data_version_changed())
        self.assets = {
            "lake": [
                self.report("in_pandas", pd.DataFrame, sealed[0], AutomationCondition.eager().without(newest)),
                self.report("in_polars", pl.DataFrame, sealed[0], changed),
            ],
            "shop": [
                self.report("in_arrow", pa.Table, sealed[1], AutomationCondition.on_cron("0 * * * *").without(newest)),
                self.report("in_spark", DataFrame, sealed[1], None),
            ],
        }

    def report(self, name: str, kind: Any, sealed: AssetKey, condition: Any) -> AssetsDefinition:
        hours = HourlyPartitionsDefinition(self.hours[0], timezone="UTC", fmt="%Y-%m-%d-%H:00")

        def counted(context: AssetExecutionContext, orders: Any) -> None:
            rows = orders.count() if kind is DataFrame else len(orders)
            if self.cancels:  # as the button of the UI does it
                self.instance.report_run_canceling(context.run)
                raise KeyboardInterrupt
            within = context.partition_key_range
            self.runs.append((name, within.start, within.end, rows))

        counted.__annotations__.update({"orders": kind, "return": None})
        return asset(
            name=name,
            ins={"orders": AssetIn(sealed, metadata={"nats3/columns": ["subject", "hour"]})},
            partitions_def=hours,
            automation_condition=condition,
            backfill_policy=BackfillPolicy.single_run(),
        )(counted)

    def location(self, name: str) -> Definitions:
        """Loaded once more, as after a reload."""
        if name == "lake":
            component = ArchiveComponent.from_attributes_dict(attributes=self.attributes)
            archives = component.build_defs(None)  # type: ignore[arg-type]
        else:
            archives = build_archive_definitions(key_prefix="shop", archives=["orders"])
        return Definitions.merge(archives, Definitions(assets=self.assets[name]))

    def capture(self, hours: Sequence[str]) -> None:
        with Workspace(self.settings) as workspace:
            found = workspace.catalog.archives.get("orders")
            for hour in hours:
                planned = plan_hours(workspace, found, [hour])
                commit.commit(workspace, planned, captures.read(workspace, planned))

    def seal(self) -> int:
        """Seal what can be sealed; how many hours that were."""
        with Workspace(self.settings) as workspace:
            found = workspace.catalog.archives.get("orders")
            hours = [hour for hour in sealable(workspace, found, self.hours[0]).hours if hour in self.hours]
            return len(list(seal_hours(workspace, found, hours)))

    def repair(self, n: int) -> None:
        """The object of an hour is lost, and captured again."""
        with Workspace(self.settings) as workspace:
            found = workspace.catalog.archives.get("orders")
            (chunk,) = workspace.catalog.chunks.of_hour(found, self.hours[n])
            workspace.bucket(chunk.meta.bucket).delete(chunk.meta.key)
            (bad,) = [one for one in verify_chunks(workspace, chunks_to_verify(workspace, found)) if one.error]
            state = open_source(workspace, found).state
            (repaired,) = repair(workspace, found, state, plan_repair(workspace, found, [bad]))
            assert repaired.done

    def tick(self) -> None:
        """The catalog sensors of both code locations, until they have nothing to report."""
        for name in self.assets:
            key = f"{name}_catalog_sensor"
            sensor: Any = self.location(name).resolve_sensor_def(key)
            while True:
                answer = sensor(build_sensor_context(instance=self.instance, cursor=self.cursors.get(key)))
                self.cursors[key] = answer.cursor
                for event in answer.asset_events:
                    self.instance.report_runless_asset_event(event)
                if not answer.asset_events:
                    break

    def run(self, name: str, asset_name: str, first: str, last: str) -> bool:
        job = self.location(name).resolve_implicit_global_asset_job_def()
        tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
        return job.execute_in_process(
            instance=self.instance, tags=tags, asset_selection=[AssetKey(asset_name)], raise_on_error=False
        ).success

    def cancel(self, name: str, asset_name: str, first: str, last: str) -> DagsterRunStatus:
        """Begin a run and cancel it when it has read its hours; how it ended."""
        self.cancels = True
        with suppress(DagsterExecutionInterruptedError):
            self.run(name, asset_name, first, last)
        self.cancels = False
        return self.instance.get_runs(limit=1)[0].status

    def automate(self) -> dict[str, list[str]]:
        """Evaluate the conditions for an hour, and run what they ask for; the hours that were run, by asset."""
        begun = len(self.runs)
        for minutes in (20, 20, 24):
            self.at += timedelta(minutes=minutes)
            for name, assets in self.assets.items():
                key = f"{name}_conditions"
                answer = evaluate_automation_conditions(
                    self.location(name), self.instance, cursor=self.cursors.get(key), evaluation_time=self.at
                )
                self.cursors[key] = answer.cursor
                for one in assets:
                    wanted = sorted(map(str, answer.get_requested_partitions(one.key)))
                    for first, last in blocks(wanted, DAY):
                        assert self.run(name, one.key.to_user_string(), first, last)
        self.at -= timedelta(minutes=4)
        return self.ran(begun)

    def ran(self, since: int) -> dict[str, list[str]]:
        """The hours of the runs since one, each as often as it was run; and what they got is what the hours have."""
        found: dict[str, list[str]] = {}
        for name, first, last, rows in self.runs[since:]:
            hours = self.hours[self.hours.index(first) : self.hours.index(last) + 1]
            assert rows == sum(self.messages[hour] for hour in hours), (name, first, last)
            found.setdefault(name, []).extend(hours)
        return found


@contextmanager
def platform(settings: Settings, bucket: str, instance: DagsterInstance) -> Iterator[Platform]:
    made = Platform(settings, bucket, instance)
    # The first tick of its capture sensor creates what the YAML declares.
    lake: Any = made.location("lake").resolve_sensor_def("lake_orders_capture_sensor")
    lake(build_sensor_context(instance=instance, definitions=made.location("lake")))
    yield made


@pytest.mark.timeout(480)  # a limit that is met within a run of Dagster is only a failed run
def test_a_day_of_hours(spark_with_settings: Any, settings: Settings, bucket: str, kept: DagsterInstance) -> None:
    with platform(settings, bucket, kept) as day:
        conditions = ("in_pandas", "in_polars", "in_arrow")
        # A condition asks for what changes after its first evaluation.
        assert day.automate() == {}
        # All but one hour.
        day.capture([hour for n, hour in enumerate(day.hours) if n != LATE])
        sealed = day.seal()
        assert DAY - 3 <= sealed < DAY
        day.tick()
        first = day.automate()
        assert {name: Counter(hours) for name, hours in first.items()} == {
            name: Counter(kept.get_materialized_partitions(AssetKey(["lake", "orders", "sealed"])))
            for name in conditions
        }
        assert {*map(len, first.values())} == {sealed}
        assert day.hours[EMPTY] in first["in_polars"]
        assert day.automate() == {}

        # The late hour, and those beside it that waited for it.
        day.capture([day.hours[LATE]])
        assert day.seal() == DAY - sealed
        day.tick()
        late = day.automate()
        assert {name: len(hours) for name, hours in late.items()} == dict.fromkeys(conditions, DAY - sealed)
        assert all(day.hours[LATE] in hours for hours in late.values())
        # Every hour was run once, by each condition.
        assert all(sorted(first[name] + late[name]) == day.hours for name in conditions)

        # A repair changes no message: what is sealed again asks for nothing.
        day.repair(DAMAGED)
        day.seal()
        day.tick()
        assert day.automate() == {}

        # A backfill of frames in Spark is cancelled in its second run, and the rest is run later; nothing is run twice.
        begun = len(day.runs)
        assert day.run("shop", "in_spark", day.hours[0], day.hours[7])
        assert day.cancel("shop", "in_spark", day.hours[8], day.hours[-1]) == DagsterRunStatus.CANCELED
        assert day.automate() == {}
        done = kept.get_materialized_partitions(AssetKey("in_spark"))
        assert done == {*day.hours[:8]}
        for block in blocks([hour for hour in day.hours if hour not in done], DAY):
            assert day.run("shop", "in_spark", *block)
        assert day.ran(begun) == {"in_spark": day.hours}
        assert day.automate() == {}
