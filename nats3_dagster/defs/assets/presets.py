"""Presets in Dagster: an asset and a job for each replay that an archive has by name. They need no run config, so that
a backfill, a schedule or an automation condition can run them.

A partition is an hour that has ended. Materializing hours publishes them, in order, as one replay.
"""

from collections.abc import Iterator
from typing import Any

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetMaterialization,
    AssetsDefinition,
    AssetSelection,
    BackfillPolicy,
    HourlyPartitionsDefinition,
    MaterializeResult,
    ResourceParam,
    asset,
    define_asset_job,
)

from nats3_dagster.archive.health.dagster_health import REPLAY_POOL
from nats3_dagster.defs.assets.events import hours_now, results_of
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.jobs.replays import replay
from nats3_dagster.defs.keys import ARCHIVE_TAG, Naming
from nats3_dagster.defs.partitions import hours_of_run
from nats3_dagster.defs.project.platform import REPLAY, Platform
from nats3_dagster.defs.wording import STOPPED_BEFORE_REPLAY
from nats3_dagster.model import ArchiveSpec, ReplayPreset
from nats3_dagster.model.preset import preset_settings
from nats3_dagster.settings import Settings


def preset_asset(
    naming: Naming, platform: Platform, spec: ArchiveSpec, preset: ReplayPreset, hours: HourlyPartitionsDefinition
) -> AssetsDefinition:
    """`<archive>/replay/<preset>`."""
    archive = spec.name

    @asset(
        key=naming.preset_key(archive, preset.name),
        deps=[AssetDep(naming.sealed_key(archive))],
        partitions_def=hours,
        backfill_policy=BackfillPolicy.single_run(),
        output_required=False,
        description=f"The replay {preset.name} of archive {archive}: materializing hours publishes their messages to "
        f"{code(preset.settings.write_subject)}, exactly once and in order, as one replay. It takes no run config; a "
        "run that was stopped goes on when re-executed.",
        metadata={"source_stream": spec.stream} | _definition_metadata(preset),
        **platform.of(REPLAY, archive, group=archive, kinds={"nats", "pyspark"}, pool=REPLAY_POOL),
    )
    def replay_preset(
        context: AssetExecutionContext,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> Iterator[MaterializeResult | AssetMaterialization]:
        with step_failures(context, naming, STOPPED_BEFORE_REPLAY):
            chosen = hours_of_run(context, hours, archive)
            settings = with_store(nats3_settings, nats3_s3)
            # What changes while it is published was not replayed.
            of = hours_now(context, naming.sealed_key(archive), settings, archive, chosen)
            replayed = replay(context, nats3_spark, settings, preset.spec(archive, chosen))
        key = naming.preset_key(archive, preset.name)
        yield from results_of(context, [replayed.preset_event(key, hour, of[hour]) for hour in chosen])

    return replay_preset


def preset_job(naming: Naming, spec: ArchiveSpec, preset: ReplayPreset) -> Any:
    """`<archive>_replay_<preset>`: the hours named by the run's partition tags."""
    return define_asset_job(
        naming.name(f"{spec.name}_replay_{preset.name}"),
        AssetSelection.assets(naming.preset_key(spec.name, preset.name)),
        description=f"Replay hours of archive {spec.name} to {code(preset.settings.write_subject)}. It takes no run "
        "config.",
        tags={ARCHIVE_TAG: spec.name},
        executor_def=run_executor,
    )


def _definition_metadata(preset: ReplayPreset) -> dict[str, Any]:
    return {one.key: one.shown(one.to_document(one.of(preset.settings))) for one in preset_settings()}
