"""Exports in Dagster: an asset `<archive>/<export>` downstream of `<archive>/sealed`, and the sensor that asks for its
runs.

Invariant: which hours are due is asked of the catalog, never of Dagster's events.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetMaterialization,
    AssetsDefinition,
    BackfillPolicy,
    DagsterInstance,
    DefaultSensorStatus,
    HourlyPartitionsDefinition,
    MaterializeResult,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    asset,
    sensor,
)

from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.archive.health.dagster_health import EXPORT_POOL
from nats3_dagster.archive.status import seals
from nats3_dagster.defs.assets.columns import export_columns
from nats3_dagster.defs.assets.events import export_event, results_of
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.assets.metadata import Metadata
from nats3_dagster.defs.assets.versions import EXPORT_CODE, upstream_events
from nats3_dagster.defs.instance.resources import start_spark, with_store
from nats3_dagster.defs.jobs.failures import step_failures, tick_failures
from nats3_dagster.defs.jobs.runs import log_failures, progress_log
from nats3_dagster.defs.keys import EXPORT_TAG, Naming
from nats3_dagster.defs.partitions import blocks, hours_of_run, range_tags
from nats3_dagster.defs.project.platform import EXPORTS, Platform
from nats3_dagster.defs.sensors.backoff import active_run, back_off, note_failed_hours
from nats3_dagster.defs.sensors.sensors import deleted
from nats3_dagster.defs.wording import STOPPED_EXPORT
from nats3_dagster.errors import Nats3Error, Unknown
from nats3_dagster.exports import hours as of_exports
from nats3_dagster.exports.status import find
from nats3_dagster.model import Archive, ArchiveSpec, ExportSpec
from nats3_dagster.model.export import ExportHour
from nats3_dagster.model.spec_table import settings_of
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

INTERVAL_S = 30
# Hours that one run exports, and runs that one tick asks for of an export.
EXPORT_HOURS, EXPORT_RUNS = 24, 4


def export_asset(
    naming: Naming,
    platform: Platform,
    archive: ArchiveSpec,
    spec: ExportSpec,
    hours: HourlyPartitionsDefinition,
    declared: Sequence[ExportSpec] = (),
) -> AssetsDefinition:
    """`<archive>/<export>`: a partition is a sealed hour with its files."""
    name, export = archive.name, spec.name

    @asset(
        key=naming.export_key(name, export),
        deps=[AssetDep(naming.sealed_key(name))],
        partitions_def=hours,
        backfill_policy=BackfillPolicy.multi_run(EXPORT_HOURS),
        output_required=False,
        code_version=EXPORT_CODE,
        description=f"Messages of archive {name} as {spec.format} files at {code(spec.destination)}, by hour. Only "
        "sealed hours are exported; materializing an hour again makes the same files.",
        metadata=_definition_metadata(spec),
        **platform.of(EXPORTS, name, group=name, kinds={"pyspark", spec.format, *_place_kinds(spec)}, pool=EXPORT_POOL),
    )
    def exported(
        context: AssetExecutionContext,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> Iterator[MaterializeResult | AssetMaterialization]:
        from nats3_dagster.pipeline.export_run import export_hour

        def events() -> Iterator[AssetMaterialization]:
            chosen = hours_of_run(context, hours, name)
            settings = with_store(nats3_settings, nats3_s3)
            _check_some_sealed(settings, name, export, chosen, declared)
            session = start_spark(nats3_spark, settings, needs_nats=False)
            run = HourRun(chosen)

            def export_one(hour: str) -> None:
                on_progress = progress_log(context, f"{name}/{export} {hour}")
                export_hour(session, settings, name, export, hour, on_progress=on_progress)

            for hour, _ in run.results(export_one, log_failures(context, naming, f"{name}/{export}")):
                yield _event(context, naming, settings, name, export, hour)
            note_failed_hours(context, run)
            run.raise_errors()

        with step_failures(context, naming, STOPPED_EXPORT):
            yield from results_of(context, events())

    return exported


def export_sensor(
    naming: Naming,
    archive: ArchiveSpec,
    exports: Sequence[ExportSpec],
    hours: HourlyPartitionsDefinition,
    declared: Sequence[ExportSpec] = (),
) -> SensorDefinition:
    """`<archive>_export_sensor`: on unless switched off in the UI. It creates exports that are declared and not there
    yet."""
    name = archive.name
    names = [spec.name for spec in exports]

    @sensor(
        name=naming.name(f"{name}_export_sensor"),
        minimum_interval_seconds=INTERVAL_S,
        asset_selection=[naming.export_key(name, export) for export in names],
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Exports each hour of archive {name} when it is sealed, and again after it was changed and "
        "sealed again.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            found = workspace.catalog.archives.find(name)
            if found is None:
                return deleted(name)
            _create_declared(workspace, found, declared)
            first = hours.get_first_partition_key() or "9"
            return _evaluate(context.instance, naming, workspace, found, names, first)

    return evaluate


def _evaluate(
    instance: DagsterInstance,
    naming: Naming,
    workspace: Workspace,
    archive: Archive,
    exports: Sequence[str],
    first: str,
) -> SensorResult:
    """One tick, for the hours from `first` on. An export that has to wait does not stop the others."""
    requests: list[RunRequest] = []
    why: list[str] = []
    for name in exports:
        tag = {EXPORT_TAG: f"{archive.name}/{name}"}
        export = workspace.catalog.exports.find(archive, name)
        if export is None:
            why.append(f"Export {name} was deleted: reload the code location, and its asset is gone")
            continue
        due = of_exports.due(workspace, archive, export, first=first)
        now = [hour for hour in due if of_exports.wait_s(hour, time.time()) <= 0]
        if not now:
            why.append(_waits(name, due) if due else f"{name}: every sealed hour is exported")
        elif active := active_run(instance, tag):
            why.append(f"{name}: run {active} exports hours")
        elif wait := back_off(instance, RunsFilter(tags=tag), f"Export {name}", time.time()):
            why.append(wait)
        else:
            asset_selection = [naming.export_key(archive.name, name)]
            requests += [
                RunRequest(asset_selection=asset_selection, tags=tag | range_tags(*block))
                for block in blocks([hour.hour for hour in now], EXPORT_HOURS)[:EXPORT_RUNS]
            ]
    return SensorResult(run_requests=requests, skip_reason=None if requests else "; ".join(why))


def _waits(name: str, due: Sequence[ExportHour]) -> str:
    failed = next(hour for hour in due if hour.failed)
    assert failed.failed is not None
    times = f"{failed.failed.times} times in a row" if failed.failed.times > 1 else "once"
    return f"{name}: {failed.hour} failed {times} and is tried again later. {failed.failed.error}"


def _check_some_sealed(
    settings: Settings, archive: str, name: str, hours: Sequence[str], declared: Sequence[ExportSpec]
) -> None:
    """Raises OperatorError, before Spark starts, if none of the hours is sealed, or there is no such export."""
    with Workspace(settings) as workspace:
        if found := workspace.catalog.archives.find(archive):
            _create_declared(workspace, found, declared)
        errors: list[Nats3Error] = []
        for hour in hours:
            try:
                of_exports.select_hours(workspace, archive, name, hours=[hour])
                return
            except Unknown:
                raise
            except Nats3Error as error:
                errors.append(error)
        raise errors[0]


def _create_declared(workspace: Workspace, archive: Archive, declared: Sequence[ExportSpec]) -> None:
    """Create what is declared as code and was never there."""
    if declared:
        from nats3_dagster.exports.declare import ensure_declared

        ensure_declared(workspace, archive, declared)


def _event(
    context: AssetExecutionContext, naming: Naming, settings: Settings, archive_name: str, name: str, hour: str
) -> AssetMaterialization:
    """Returns the event of an hour as the catalog has it now."""
    with Workspace(settings) as workspace:
        archive, export = find(workspace, archive_name, name)
        found = of_exports.one_hour(workspace, archive, export, hour)
        assert found is not None
        sealed = {seal.hour: seal.content for seal in seals(workspace, archive, [hour])}
        total = workspace.catalog.exports.totals(archive)[export.id].messages
    of = upstream_events(context.instance, naming.sealed_key(archive_name), sealed).get(hour)
    return export_event(naming, archive, export, found, total, of=of, marks={})


def _place_kinds(spec: ExportSpec) -> set[str]:
    """Returns the kind of the store that takes the files; none for a folder."""
    return {spec.place.scheme} - {"file"}


def _definition_metadata(spec: ExportSpec) -> Metadata:
    """Returns the metadata of an export's asset definition."""
    columns = export_columns(spec)
    shown = {one.key: one.shown(getattr(spec, one.name)) for one in settings_of(ExportSpec) if one.key != "name"}
    return shown | ({"dagster/column_schema": columns} if columns else {})
