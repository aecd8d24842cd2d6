"""The definitions of archives: one query of the catalog a load, whatever their number.

Invariant: a load reads, and writes nothing.
"""

import time
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dagster import AssetChecksDefinition, BetaWarning, Definitions, SensorDefinition, in_process_executor

from nats3_dagster.defs.assets import chunks_asset, replay_asset, sealed_asset, stream_asset
from nats3_dagster.defs.catalog_sensor import catalog_sensor
from nats3_dagster.defs.check_sensor import check_sensor
from nats3_dagster.defs.checks import checks
from nats3_dagster.defs.compactions import compact_job, compact_sensor
from nats3_dagster.defs.exports import export_asset, export_sensor
from nats3_dagster.defs.failures import CannotLoad
from nats3_dagster.defs.frames import frames_io_manager
from nats3_dagster.defs.jobs import capture_job, check_job, replay_job, resume_job, window_job
from nats3_dagster.defs.keys import PROJECT, Naming
from nats3_dagster.defs.partitions import ended_hours_from, hours_from
from nats3_dagster.defs.platform import FRAMES, Platform, check_owners, of_catalog
from nats3_dagster.defs.presets import preset_asset, preset_job
from nats3_dagster.defs.resources import RESOURCES
from nats3_dagster.defs.retention import retention_job, retention_schedule
from nats3_dagster.defs.sensors import capture_sensor, seal_sensor
from nats3_dagster.defs.tables import live_tables, table_asset, table_job
from nats3_dagster.defs.upkeep_sensors import copy_sensor, expiry_sensor, sweep_sensor
from nats3_dagster.errors import Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec, ArchiveTotals, Declaration, ExportSpec, ReplayPreset
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.redaction import redact_logs
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Defined:
    """An archive that gets definitions."""

    spec: ArchiveSpec
    # No message of it is older; in nanoseconds since 1970.
    begins_ns: int
    # Where it is declared as code: it may not be in the catalog yet.
    declaration: Declaration | None = None
    # Of the catalog, and those that are declared as code, by name; and the latter alone.
    exports: tuple[ExportSpec, ...] = ()
    declared_exports: tuple[ExportSpec, ...] = ()
    # Of the catalog, and those that are declared as code, by name.
    presets: tuple[ReplayPreset, ...] = ()
    # Its Iceberg table, if it has one.
    table: ArchiveTable | None = None


def load() -> Definitions:
    """The definitions of the archives that the catalog has now, as the project's own. Raises CannotLoad if it cannot be
    read."""
    defined, platform = read(PROJECT, Platform())
    return definitions_of(defined, PROJECT, platform, executor=in_process_executor)


def read(
    naming: Naming,
    platform: Platform,
    declared: Mapping[str, Declaration | None] | None = None,
    presets: Mapping[str, Sequence[ReplayPreset]] | None = None,
) -> tuple[list[Defined], Platform]:
    """The archives to define, by name: all of the catalog, or the `declared` ones; and what the platform sets, with
    what the settings say of owners and store. `presets`: those that are declared as code, by archive. Raises
    CannotLoad."""
    try:
        redact_logs()  # of code servers, the daemon and runs: each loads the definitions
        settings = Settings.load()
        owners = owners_of(settings.owners)
        with Workspace(settings) as workspace:
            totals = {found.archive.name: found for found in workspace.catalog.archives.totals()}
            every = workspace.catalog.exports.all()
            tables = {one.archive: one for one in live_tables(workspace)}
        chosen = dict.fromkeys(totals) if declared is None else declared
        defined = [_defined(name, chosen[name], totals) for name in sorted(chosen)]
        of_archive = {found.archive.id: name for name, found in totals.items()}
        exports: dict[str, list[ExportSpec]] = {name: [] for name in [*totals, *chosen]}
        for export in every:
            if export.archive_id in of_archive:  # one may have been created since
                exports[of_archive[export.archive_id]].append(export.spec)
        kinds = frozenset[str]() if settings.store.folder else frozenset({"s3"})
        with_presets = [_with_presets(one, totals, (presets or {}).get(one.spec.name, ())) for one in defined]
        with_exports = [_with_exports(one, exports[one.spec.name]) for one in with_presets]
        return [replace(one, table=tables.get(one.spec.name)) for one in with_exports], replace(
            platform,
            owners=owners,
            store_kinds=kinds,
            of_catalog=of_catalog(one.spec for one in defined),
        )
    except Nats3Error as error:
        raise CannotLoad(error, naming) from None


def _defined(name: str, declaration: Declaration | None, totals: Mapping[str, ArchiveTotals]) -> Defined:
    if name in totals:
        return Defined(totals[name].archive.spec, totals[name].begins_ns, declaration)
    if declaration is None:
        raise OperatorError(
            f"There is no archive {name!r}",
            "Create it in a shell, nats3 store create, or write its stream and bucket beside its name",
        )
    # It begins when it is created, or with what its stream has then: a load after that knows.
    return Defined(declaration.spec, time.time_ns(), declaration)


def _with_exports(defined: Defined, existing: Sequence[ExportSpec]) -> Defined:
    declared = defined.declaration.exports if defined.declaration else ()
    every = {spec.name: spec for spec in (*existing, *declared)}
    return replace(defined, exports=tuple(every[name] for name in sorted(every)), declared_exports=declared)


def _with_presets(defined: Defined, totals: Mapping[str, ArchiveTotals], declared: Sequence[ReplayPreset]) -> Defined:
    existing = totals[defined.spec.name].archive.presets if defined.spec.name in totals else ()
    every = {preset.name: preset for preset in (*existing, *declared)}
    return replace(defined, presets=tuple(every[name] for name in sorted(every)))


def owners_of(text: str) -> tuple[str, ...]:
    """The owners that NATS3_OWNERS names. Raises OperatorError for one that Dagster would refuse."""
    owners = tuple(part.strip() for part in text.split(",") if part.strip())
    check_owners(owners, "NATS3_OWNERS")
    return owners


def definitions_of(
    every: Iterable[Defined],
    naming: Naming,
    platform: Platform,
    *,
    chosen: Collection[str] | None = None,
    executor: Any = None,
) -> Definitions:
    """An archive has three assets with checks, two jobs and two sensors; with exports an asset for each, and one more
    sensor; an asset and a job for each replay by name, and for its Iceberg table. All have five jobs, five sensors, a
    schedule, resources.

    `chosen`: the names of the archives, where they are not all of the catalog. Without an `executor` the jobs have
    theirs, and what is materialized by hand has that of the project which these definitions become a part of."""
    every = list(every)
    assets: list[Any] = []
    names = [defined.spec.name for defined in every]
    check = check_job(naming, names)
    retention = retention_job(naming, names)
    jobs: list[Any] = [window_job(naming, platform, chosen), resume_job(naming, platform), check, retention]
    jobs.append(compact_job(naming, chosen))
    sensors: list[SensorDefinition] = [
        catalog_sensor(naming, chosen),
        check_sensor(naming, names, check),
        compact_sensor(naming, chosen),
        copy_sensor(naming),
        expiry_sensor(naming),
        sweep_sensor(naming),
    ]
    asset_checks: list[AssetChecksDefinition] = []
    with warnings.catch_warnings():
        # Backfill policies are beta in Dagster 1.13, and the partitions of this project rest on them.
        warnings.simplefilter("ignore", BetaWarning)
        for defined in every:
            spec, hours, ended = defined.spec, hours_from(defined.begins_ns), ended_hours_from(defined.begins_ns)
            capture = capture_job(naming, spec)
            assets += [
                chunks_asset(naming, platform, spec, hours, defined.declaration),
                sealed_asset(naming, platform, spec, ended),
                replay_asset(naming, platform, spec, hours),
            ]
            jobs += [capture, replay_job(naming, spec)]
            assets += [preset_asset(naming, platform, spec, preset, ended) for preset in defined.presets]
            jobs += [preset_job(naming, spec, preset) for preset in defined.presets]
            if defined.table:
                assets.append(table_asset(naming, platform, spec, defined.table))
                jobs.append(table_job(naming, spec))
            asset_checks.append(checks(naming, spec))
            sensors += [
                capture_sensor(naming, spec, capture, hours, defined.declaration),
                seal_sensor(naming, spec, ended),
            ]
            if defined.exports:
                declared = defined.declared_exports
                assets += [export_asset(naming, platform, spec, export, ended, declared) for export in defined.exports]
                sensors.append(export_sensor(naming, spec, defined.exports, ended, declared))
        assets += [
            stream_asset(naming, platform, stream) for stream in sorted({defined.spec.stream for defined in every})
        ]
        return Definitions(
            assets=assets,
            asset_checks=asset_checks,
            jobs=jobs,
            schedules=[retention_schedule(naming, retention)],
            sensors=sensors,
            resources={**RESOURCES, FRAMES: frames_io_manager},
            executor=executor,
        )
