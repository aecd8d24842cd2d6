"""The definitions of all archives in the catalog: one query a load, whatever the number of archives."""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

from dagster import AssetChecksDefinition, BetaWarning, Definitions, SensorDefinition, in_process_executor

from nats3_dagster.archive.status import archives
from nats3_dagster.defs.assets import chunks_asset, replay_asset, sealed_asset, stream_asset
from nats3_dagster.defs.catalog_sensor import catalog_sensor
from nats3_dagster.defs.checks import checks
from nats3_dagster.defs.failures import CannotLoad
from nats3_dagster.defs.jobs import capture_job, check_job, replay_job, window_job
from nats3_dagster.defs.partitions import ended_hours_from, hours_from
from nats3_dagster.defs.resources import RESOURCES
from nats3_dagster.defs.sensors import capture_sensor, seal_sensor
from nats3_dagster.defs.sweep_sensor import sweep_sensor
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import ArchiveTotals
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def load() -> Definitions:
    """The definitions of the archives that the catalog has now. Raises CannotLoad if it cannot be read."""
    try:
        settings = Settings.load()
        owners = owners_of(settings.owners)
        with Workspace(settings) as workspace:
            totals = archives(workspace)
    except Nats3Error as error:
        raise CannotLoad(error) from None
    return definitions_of(totals, owners)


def owners_of(text: str) -> list[str]:
    """The owners that NATS3_OWNERS names. Raises OperatorError for one that Dagster would refuse."""
    owners = [part.strip() for part in text.split(",") if part.strip()]
    for owner in owners:
        if not re.fullmatch(r"team:\w+|[^\s@:]+@[^\s@:]+\.[^\s@:]+", owner):
            raise OperatorError(
                f"{owner!r} in NATS3_OWNERS is no owner", "Write mail addresses or team:name, joined by commas"
            )
    return owners


def definitions_of(every: Iterable[ArchiveTotals], owners: Sequence[str] = ()) -> Definitions:
    """Three assets with checks, two jobs and two sensors for each archive; two jobs and sensors for all; resources."""
    assets: list[Any] = []
    jobs: list[Any] = [window_job(), check_job()]
    sensors: list[SensorDefinition] = [catalog_sensor(), sweep_sensor()]
    streams: set[str] = set()
    asset_checks: list[AssetChecksDefinition] = []
    with warnings.catch_warnings():
        # Backfill policies are beta in Dagster 1.13, and the partitions of this project rest on them.
        warnings.simplefilter("ignore", BetaWarning)
        for totals in every:
            archive, hours = totals.archive, hours_from(totals.begins_ns)
            ended = ended_hours_from(totals.begins_ns)
            capture = capture_job(archive)
            assets += [
                chunks_asset(archive, hours, owners),
                sealed_asset(archive, ended, owners),
                replay_asset(archive, hours, owners),
            ]
            jobs += [capture, replay_job(archive)]
            asset_checks.append(checks(archive))
            sensors += [capture_sensor(archive, capture, hours), seal_sensor(archive, ended)]
            streams.add(archive.spec.stream)
        assets += [stream_asset(stream) for stream in sorted(streams)]
        return Definitions(
            assets=assets,
            asset_checks=asset_checks,
            jobs=jobs,
            sensors=sensors,
            resources=RESOURCES,
            executor=in_process_executor,
        )
