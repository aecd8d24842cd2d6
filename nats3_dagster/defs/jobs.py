"""Jobs: what a shell, a sensor or a schedule starts by name.

A run is one process with one JVM (`in_process_executor`); its Python workers are Spark's.
"""

from typing import Any

from dagster import (
    AssetObservation,
    AssetSelection,
    JobDefinition,
    OpExecutionContext,
    ResourceParam,
    define_asset_job,
    in_process_executor,
    job,
    op,
)

from nats3_dagster.defs.assets import REPLAY_POOL
from nats3_dagster.defs.failures import step_failures
from nats3_dagster.defs.keys import INTACT, check_key, chunks_key, replay_key
from nats3_dagster.defs.replays import began_at, dry_run, replay
from nats3_dagster.defs.resources import with_store
from nats3_dagster.defs.run_config import WindowConfig
from nats3_dagster.defs.wording import STOPPED_BEFORE_REPLAY
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings

ARCHIVE_TAG = "nats3/archive"


def capture_job(archive: Archive) -> Any:
    """`<archive>_capture`: the hours named by the run's partition tags."""
    return define_asset_job(
        f"{archive.name}_capture",
        # The check of objects reads them: it is for the job `checks` and for a seal.
        AssetSelection.assets(chunks_key(archive.name)) - AssetSelection.checks(check_key(archive.name, INTACT)),
        description=f"Capture hours of stream {archive.spec.stream} into archive {archive.name}.",
        tags={ARCHIVE_TAG: archive.name}, executor_def=in_process_executor,
    )  # fmt: skip


def check_job() -> Any:
    """`checks`: all checks of all archives; `-o events__checks` chooses those of one."""
    return define_asset_job(
        "checks", AssetSelection.all_asset_checks(), executor_def=in_process_executor,
        description="Check that archives are complete, intact and in time. Choose archives by their ops.",
    )  # fmt: skip


def replay_job(archive: Archive) -> Any:
    """`<archive>_replay`: the hours named by the run's partition tags."""
    return define_asset_job(
        f"{archive.name}_replay", AssetSelection.assets(replay_key(archive.name)),
        description=f"Replay hours of archive {archive.name} into NATS.", tags={ARCHIVE_TAG: archive.name},
        executor_def=in_process_executor,
    )  # fmt: skip


@op(
    name="replay_window", pool=REPLAY_POOL, tags={"kind": "pyspark"},
    description="Publish messages of an archive, selected by time or sequence, with PySpark.",
)  # fmt: skip
def replay_window(
    context: OpExecutionContext, config: WindowConfig, settings: ResourceParam[Settings], s3: ResourceParam[Any],
    spark: ResourceParam[Any],
) -> None:  # fmt: skip
    with step_failures(context, STOPPED_BEFORE_REPLAY):
        settings = with_store(settings, s3)
        spec = config.window(began_at(context.instance, context.run))
        if config.dry_run:
            metadata, what = dry_run(settings, spec), "Dry run: nothing was published"
        else:
            metadata, what = replay(context, spark, settings, spec).metadata(), "Replay of a window"
    # Not a materialization: a window need not hold any hour as a whole.
    context.log_event(AssetObservation(replay_key(spec.archive), description=what, metadata=metadata))


@job(
    name="replay", executor_def=in_process_executor,
    description="Replay a window of any archive into NATS: by time to the nanosecond, or by sequence.",
)  # fmt: skip
def replay_window_job() -> None:
    replay_window()


def window_job() -> JobDefinition:
    """`replay`."""
    return replay_window_job
