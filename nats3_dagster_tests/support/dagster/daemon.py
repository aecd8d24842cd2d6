"""Ticks of the catalog sensor, as the daemon evaluates them."""

from collections.abc import Mapping
from typing import Any

from dagster import AssetKey, AssetRecordsFilter, DagsterInstance, SensorResult, build_sensor_context

from nats3_dagster.defs.assets.marks import marks_of
from nats3_dagster.defs.sensors.catalog_sensor import catalog_sensor

CHUNKS, SEALED, REPLAY = (AssetKey(["events", asset]) for asset in ("chunks", "sealed", "replay"))


class Daemon:
    """Ticks of the sensor, as the daemon evaluates them: one after another, with the cursor of the one before."""

    def __init__(self, instance: DagsterInstance) -> None:
        self.instance = instance
        self.cursor: str | None = None

    def evaluate(self) -> SensorResult:
        """What the sensor answers; nothing of it is written."""
        sensor: Any = catalog_sensor()
        return sensor(build_sensor_context(instance=self.instance, cursor=self.cursor))

    def tick(self) -> list[tuple[str, str | None]]:
        """The partitions that were reported, in order."""
        answer = self.evaluate()
        for event in answer.asset_events:
            self.instance.report_runless_asset_event(event)
        self.cursor = answer.cursor
        return [(event.asset_key.path[-1], event.partition) for event in answer.asset_events]  # type: ignore[union-attr]

    def tick_until_idle(self) -> None:
        """Tick until nothing is left to report."""
        while self.tick():
            pass
        assert self.evaluate().cursor == self.cursor

    def partitions(self, key: AssetKey = CHUNKS) -> set[str]:
        return self.instance.get_materialized_partitions(key)

    def says(self, hour: str, key: AssetKey = CHUNKS) -> Mapping[str, Any]:
        """The metadata and the marks of the newest event of the hour."""
        chosen = AssetRecordsFilter(asset_key=key, asset_partitions=[hour])
        event = self.instance.fetch_materializations(chosen, limit=1).records[0].asset_materialization
        assert event is not None
        shown = {name: value.value for name, value in event.metadata.items()}
        return shown | marks_of(event.tags or {})
