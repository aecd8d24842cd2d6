"""The definitions of one archive after another, each alone.

Invariant: an archive whose definitions cannot be made takes none of the others along. It has a sensor that fails with
the reason, so that the UI names it.
"""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from dagster import (
    AssetChecksDefinition,
    AssetsDefinition,
    BetaWarning,
    DefaultSensorStatus,
    JobDefinition,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)
from dagster import DagsterError as RefusedByDagster

from nats3_dagster.defs.assets.assets import chunks_asset, replay_asset, sealed_asset
from nats3_dagster.defs.assets.exports import export_asset, export_sensor
from nats3_dagster.defs.assets.presets import preset_asset, preset_job
from nats3_dagster.defs.assets.tables import table_asset, table_job
from nats3_dagster.defs.checks.checks import checks
from nats3_dagster.defs.jobs.failures import CannotTick
from nats3_dagster.defs.jobs.jobs import capture_job, replay_job
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.partitions import ended_hours_from, hours_from
from nats3_dagster.defs.project.platform import Platform
from nats3_dagster.defs.sensors.account_captures import Shared
from nats3_dagster.defs.sensors.sensors import capture_sensor, seal_sensor
from nats3_dagster.errors import DagsterError, Nats3Error, OperatorError
from nats3_dagster.model import ArchiveSpec, Declaration, ExportSpec, ReplayPreset
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.redaction import brief

# Seconds between two ticks of the sensor of an archive without definitions.
INTERVAL_S = 300


@dataclass(frozen=True, slots=True)
class Defined:
    """An archive that gets definitions."""

    spec: ArchiveSpec
    # No message of it is older; in nanoseconds since 1970.
    begins_ns: int
    # Its id in the catalog: a newer archive has a higher one. None for one that is not in the catalog yet.
    id: int | None = None
    # Where it is declared as code: it may not be in the catalog yet.
    declaration: Declaration | None = None
    # Of the catalog, and those that are declared as code, by name; and the latter alone.
    exports: tuple[ExportSpec, ...] = ()
    declared_exports: tuple[ExportSpec, ...] = ()
    # Of the catalog, and those that are declared as code, by name.
    presets: tuple[ReplayPreset, ...] = ()
    # Its Iceberg table, if it has one.
    table: ArchiveTable | None = None
    # True for an archive of a rule for the account: it shares sensors and runs with the others.
    is_shared: bool = False


@dataclass
class Made:
    """The definitions of some archives."""

    # The names of the archives that have definitions.
    archives: list[str] = field(default_factory=list[str])
    # The streams that they capture.
    streams: set[str] = field(default_factory=set[str])
    assets: list[AssetsDefinition] = field(default_factory=list[AssetsDefinition])
    checks: list[AssetChecksDefinition] = field(default_factory=list[AssetChecksDefinition])
    # Jobs of assets; Dagster does not name their class.
    jobs: list[Any] = field(default_factory=list[Any])
    sensors: list[SensorDefinition] = field(default_factory=list[SensorDefinition])
    # The archives of rules: `project.py` makes the sensors that they share.
    shared: list[Shared] = field(default_factory=list[Shared])
    # By the name of an archive without definitions: why.
    failed: dict[str, Exception] = field(default_factory=dict[str, Exception])


def made(every: Iterable[Defined], naming: Naming, platform: Platform, jobs: Iterable[JobDefinition]) -> Made:
    """Returns the definitions of the archives. `jobs`: those of the code location that are of no archive. If two
    archives would have a name in common, the newer one has none: an archive that works goes on."""
    found = Made()
    taken = {("job", job.name) for job in jobs}
    every = sorted(every, key=lambda one: (one.id is None, one.id or 0, one.spec.name))
    with warnings.catch_warnings():
        # Backfill policies are beta in Dagster 1.13, and the partitions of this project rest on them.
        warnings.simplefilter("ignore", BetaWarning)
        for defined in every:
            try:
                alone = _made(defined, naming, platform)
                names = _names(alone, naming)
                _check_free(names, taken)
            except (RefusedByDagster, Nats3Error, ValueError, OverflowError) as error:
                found.failed[defined.spec.name] = error
                continue
            taken |= names
            found.archives.append(defined.spec.name)
            found.streams.add(defined.spec.stream)
            found.assets += alone.assets
            found.checks += alone.checks
            found.jobs += alone.jobs
            found.sensors += alone.sensors
            found.shared += alone.shared
    found.sensors += [undefined_sensor(naming, name, error) for name, error in found.failed.items()]
    return found


def undefined(archive: str, reason: Exception) -> DagsterError:
    """Returns the error of an archive without definitions."""
    why = reason.what if isinstance(reason, Nats3Error) else brief(reason)
    hint = str(reason.hint) if isinstance(reason, Nats3Error) and reason.hint else "Correct it"
    return DagsterError(
        f"Archive {archive} has no definitions in Dagster, and nothing captures it: {why}",
        f"{hint}, then reload the code location. Until then only a shell captures it",
    )


def undefined_sensor(naming: Naming, archive: str, reason: Exception) -> SensorDefinition:
    """`<archive>_capture_sensor` of an archive without definitions: each tick fails with the reason."""
    error = undefined(archive, reason)

    @sensor(
        name=naming.capture_sensor(archive),
        minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Archive {archive} has no definitions, and nothing captures it. A tick says why.",
    )
    def evaluate(context: SensorEvaluationContext) -> SkipReason:
        raise CannotTick(error, naming)

    return evaluate


def _made(defined: Defined, naming: Naming, platform: Platform) -> Made:
    """The definitions of one archive."""
    spec, hours, ended = defined.spec, hours_from(defined.begins_ns), ended_hours_from(defined.begins_ns)
    found = Made([spec.name], {spec.stream})
    found.assets += [
        chunks_asset(naming, platform, spec, hours, defined.declaration),
        sealed_asset(naming, platform, spec, ended),
        replay_asset(naming, platform, spec, hours),
    ]
    found.assets += [preset_asset(naming, platform, spec, preset, ended) for preset in defined.presets]
    found.jobs += [preset_job(naming, spec, preset) for preset in defined.presets]
    if defined.table:
        found.assets.append(table_asset(naming, platform, spec, defined.table))
        found.jobs.append(table_job(naming, spec))
    found.checks.append(checks(naming, spec))
    if defined.is_shared and defined.id is not None:
        # Jobs and sensors of each would take a minute to load where there are 1,000.
        found.shared.append(Shared(spec.name, defined.id, hours.get_first_partition_key() or ""))
    else:
        capture = capture_job(naming, spec)
        found.jobs += [capture, replay_job(naming, spec)]
        found.sensors += [
            capture_sensor(naming, spec, capture, hours, defined.declaration),
            seal_sensor(naming, spec, ended),
        ]
    if defined.exports:
        declared = defined.declared_exports
        found.assets += [export_asset(naming, platform, spec, export, ended, declared) for export in defined.exports]
        found.sensors.append(export_sensor(naming, spec, defined.exports, ended, declared))
    return found


def _names(alone: Made, naming: Naming) -> set[tuple[str, str]]:
    """The names that a code location may have once, each with its kind: of jobs, of ops, and keys of assets."""
    return {
        *(("job", job.name) for job in alone.jobs),
        *(("op", one.node_def.name) for one in (*alone.assets, *alone.checks)),
        *(("asset", one.key.to_user_string()) for one in alone.assets),
        *(("stream", naming.stream_key(stream).to_user_string()) for stream in alone.streams),
    }


def _check_free(names: Collection[tuple[str, str]], taken: Collection[tuple[str, str]]) -> None:
    """Raises OperatorError if one of the names is taken. Archives may share a stream, which is an asset too."""
    for kind, name in sorted(names):
        others = {"asset": ("asset", "stream"), "stream": ("asset",)}.get(kind, (kind,))
        if any((other, name) in taken for other in others):
            raise OperatorError(
                f"Its {kind} {name} has the name of another one", "Make an archive, export or replay of another name"
            )
