"""The definitions of archives: one query of the catalog a load, whatever their number.

Invariant: a load reads, and writes nothing.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dagster import Definitions, JobDefinition, SensorDefinition

from nats3_dagster.defs.assets.accounts import account_asset
from nats3_dagster.defs.assets.assets import stream_asset
from nats3_dagster.defs.assets.frames import frames_io_manager
from nats3_dagster.defs.assets.tables import live_tables
from nats3_dagster.defs.checks.check_sensor import check_sensor
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import RESOURCES
from nats3_dagster.defs.jobs.compactions import compact_job, compact_sensor
from nats3_dagster.defs.jobs.drills import drill_job, drill_schedule
from nats3_dagster.defs.jobs.failures import CannotLoad
from nats3_dagster.defs.jobs.jobs import check_job, resume_job, window_job
from nats3_dagster.defs.jobs.restores import restore_job
from nats3_dagster.defs.jobs.retention import retention_job, retention_schedule
from nats3_dagster.defs.keys import PROJECT, Naming
from nats3_dagster.defs.project.archive_definitions import Defined, made, undefined
from nats3_dagster.defs.project.platform import FRAMES, Platform, of_catalog
from nats3_dagster.defs.sensors.account_captures import account_captures_sensor
from nats3_dagster.defs.sensors.account_seals import account_seals_sensor
from nats3_dagster.defs.sensors.account_sensor import account_sensor
from nats3_dagster.defs.sensors.catalog_sensor import catalog_sensor
from nats3_dagster.defs.sensors.loaded_archives import LoadedArchives
from nats3_dagster.defs.sensors.upkeep_sensors import copy_sensor, expiry_sensor, sweep_sensor
from nats3_dagster.errors import DagsterError, Nats3Error, OperatorError
from nats3_dagster.model import ArchiveTotals, Declaration, ExportSpec, ReplayPreset
from nats3_dagster.model.dagster_settings import read_owners
from nats3_dagster.redaction import redact_logs
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)


def load() -> Definitions:
    """The definitions of the archives that the catalog has now, as the project's own. Raises CannotLoad if it cannot be
    read."""
    defined, platform = read(PROJECT, Platform())
    return definitions_of(defined, PROJECT, platform, executor=run_executor)


def undefined_archives() -> list[DagsterError]:
    """An error for each archive of the catalog that has no definitions in the project. Raises Nats3Error if the catalog
    cannot be read."""
    try:
        defined, platform = read(PROJECT, Platform())
    except CannotLoad as error:
        raise error.error from None
    failed = made(defined, PROJECT, platform, own_jobs(PROJECT, platform)).failed
    return [undefined(name, error) for name, error in failed.items()]


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
        owners = _owners(settings.owners)
        with Workspace(settings) as workspace:
            totals = {found.archive.name: found for found in workspace.catalog.archives.totals()}
            every = workspace.catalog.exports.all()
            tables = {one.archive: one for one in live_tables(workspace)}
            rules = () if declared is not None else tuple(kept.name for kept in workspace.catalog.accounts.rules())
            # A code location that chooses its archives gives each jobs and sensors of its own.
            of_rules = workspace.catalog.accounts.archives() if rules else ()
            shared = {one.archive_id for one in of_rules if one.rule_id is not None}
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
        every_one = [replace(one, table=tables.get(one.spec.name), is_shared=one.id in shared) for one in with_exports]
        return every_one, replace(
            platform,
            owners=owners,
            rules=rules,
            store_kinds=kinds,
            cloud_kinds={one.spec.name: kind for one in defined for kind in _cloud_kinds(one.spec.bucket)},
            of_catalog=of_catalog(one.spec for one in defined),
        )
    except Nats3Error as error:
        raise CannotLoad(error, naming) from None


def _defined(name: str, declaration: Declaration | None, totals: Mapping[str, ArchiveTotals]) -> Defined:
    if name in totals:
        archive = totals[name].archive
        return Defined(archive.spec, totals[name].begins_ns, archive.id, declaration)
    if declaration is None:
        raise OperatorError(
            f"There is no archive {name!r}",
            "Create it in a shell, nats3 store create, or write its stream and bucket beside its name",
        )
    # It begins when it is created, or with what its stream has then: a load after that knows.
    return Defined(declaration.spec, time.time_ns(), declaration=declaration)


def _with_exports(defined: Defined, existing: Sequence[ExportSpec]) -> Defined:
    declared = defined.declaration.exports if defined.declaration else ()
    every = {spec.name: spec for spec in (*existing, *declared)}
    return replace(defined, exports=tuple(every[name] for name in sorted(every)), declared_exports=declared)


def _with_presets(defined: Defined, totals: Mapping[str, ArchiveTotals], declared: Sequence[ReplayPreset]) -> Defined:
    existing = totals[defined.spec.name].archive.presets if defined.spec.name in totals else ()
    every = {preset.name: preset for preset in (*existing, *declared)}
    return replace(defined, presets=tuple(every[name] for name in sorted(every)))


def _loaded(every: Iterable[Defined]) -> LoadedArchives:
    return LoadedArchives({defined.spec.name: defined.id for defined in every if defined.id is not None})


def _owners(text: str) -> tuple[str, ...]:
    """The owners that NATS3_OWNERS names. One that Dagster would refuse is left out: archives are captured without."""
    owners, fault = read_owners(text)
    if fault:
        log.warning("%s", fault)
    return owners


def own_jobs(
    naming: Naming, platform: Platform, chosen: Collection[str] | None = None, named: Sequence[str] = ()
) -> list[JobDefinition]:
    """The jobs of a code location that are of no single archive. `chosen`: see `definitions_of`; `named`: its archives.
    The last one is that of retention."""
    return [
        window_job(naming, platform, chosen),
        resume_job(naming, platform),
        restore_job(naming, chosen),
        compact_job(naming, chosen),
        retention_job(naming, named),
    ]


def definitions_of(
    every: Iterable[Defined],
    naming: Naming,
    platform: Platform,
    *,
    chosen: Collection[str] | None = None,
    must: Collection[str] | None = None,
    executor: Any = None,
) -> Definitions:
    """An archive has three assets with checks, two jobs and two sensors; those of rules for the account have no jobs,
    and two sensors for all of them. With exports there is an asset for each, and one more sensor; an asset and a job
    for each replay by name, and for its Iceberg table. All have seven jobs, seven sensors, two schedules, resources. An
    archive whose definitions cannot be made has a sensor that says so.

    `chosen`: the names of the archives, where they are not all of the catalog. `must`: the names of those whose error
    is raised, and that of the first where no archive has definitions; None to raise none. Without an `executor` the
    jobs have theirs, and what is materialized by hand has that of the project which these definitions become a part
    of."""
    # A run of several archives is one process with one JVM, which another executor would not give it.
    every = [replace(one, is_shared=one.is_shared and executor is not None) for one in every]
    jobs = own_jobs(naming, platform, chosen, [defined.spec.name for defined in every])
    found = made(every, naming, platform, jobs)
    for name, error in found.failed.items():
        if must is not None and (name in must or not found.archives):
            raise error
    check = check_job(naming, found.archives)
    # The rules are those of the catalog, and so of the code location that has all archives.
    drills = [drill_job(naming)] if chosen is None else []
    streams = [stream_asset(naming, platform, stream) for stream in sorted(found.streams)]
    streams += [account_asset(naming, platform, rule) for rule in platform.rules]
    sensors: list[SensorDefinition] = [
        *([account_sensor(naming, platform.declared_rules)] if chosen is None else []),
        catalog_sensor(naming, chosen, _loaded(every) if chosen is None else None),
        check_sensor(naming, found.archives, check),
        compact_sensor(naming, chosen),
        copy_sensor(naming),
        expiry_sensor(naming),
        sweep_sensor(naming),
    ]
    if found.shared:
        sensors += [account_captures_sensor(naming, found.shared), account_seals_sensor(naming, found.shared)]
    return Definitions(
        assets=[*found.assets, *streams],
        asset_checks=found.checks,
        jobs=[*jobs, *drills, check, *found.jobs],
        schedules=[retention_schedule(naming, jobs[-1]), *(drill_schedule(naming, drill) for drill in drills)],
        sensors=[*sensors, *found.sensors],
        resources={**RESOURCES, FRAMES: frames_io_manager},
        executor=executor,
    )


def _cloud_kinds(bucket: str) -> tuple[str, ...]:
    """The kind of a bucket in another cloud, as Dagster has an icon for it."""
    scheme, is_url, _ = bucket.partition("://")
    return ({"gs": "gcs", "az": "azure"}[scheme],) if is_url else ()
