"""Jobs: what a shell, a sensor or a schedule starts by name.

A run is one process with one JVM (`run_executor`); its Python workers are Spark's.
"""

from collections.abc import Collection, Iterable
from typing import Any

from dagster import (
    AssetObservation,
    AssetSelection,
    JobDefinition,
    OpExecutionContext,
    ResourceParam,
    define_asset_job,
    job,
    op,
)

from nats3_dagster.archive.health.dagster_health import REPLAY_POOL
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import with_store
from nats3_dagster.defs.jobs.checked_config import schema_of
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.jobs.replays import began_at, dry_run, replay, resume
from nats3_dagster.defs.jobs.run_config import ResumeConfig, WindowConfig
from nats3_dagster.defs.keys import ARCHIVE_TAG, CHECKS, Naming
from nats3_dagster.defs.project.platform import REPLAY, Platform
from nats3_dagster.defs.wording import STOPPED_BEFORE_REPLAY
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import ArchiveSpec
from nats3_dagster.settings import Settings


def capture_job(naming: Naming, spec: ArchiveSpec) -> Any:
    """`<archive>_capture`: the hours named by the run's partition tags."""
    return define_asset_job(
        naming.capture_job(spec.name),
        # The capture's own step evaluates the checks, but that of objects, which reads them: it is for the job `checks`
        # and for a seal.
        AssetSelection.assets(naming.chunks_key(spec.name)).without_checks(),
        description=f"Capture hours of stream {code(spec.stream)} into archive {spec.name}.",
        tags={ARCHIVE_TAG: spec.name},
        executor_def=run_executor,
    )


def check_job(naming: Naming, archives: Iterable[str]) -> Any:
    """`checks`: all checks of all archives; `-o events__checks` chooses those of one."""
    keys = [naming.check_key(archive, check) for archive in archives for check in CHECKS]
    return define_asset_job(
        naming.name("checks"),
        AssetSelection.checks(*keys),
        executor_def=run_executor,
        description="Check that archives are complete, intact and in time. Choose archives by their ops.",
    )


def replay_job(naming: Naming, spec: ArchiveSpec) -> Any:
    """`<archive>_replay`: the hours named by the run's partition tags."""
    return define_asset_job(
        naming.name(f"{spec.name}_replay"),
        AssetSelection.assets(naming.replay_key(spec.name)),
        description=f"Replay hours of archive {spec.name} into NATS.",
        tags={ARCHIVE_TAG: spec.name},
        executor_def=run_executor,
    )


def window_job(naming: Naming, platform: Platform, chosen: Collection[str] | None = None) -> JobDefinition:
    """`replay`; of the `chosen` archives, or of any."""

    @op(
        name=naming.name("replay_window"),
        pool=platform.pool(REPLAY, REPLAY_POOL),
        tags={"kind": "pyspark"},
        description="Publish messages of an archive, selected by time or sequence, with PySpark.",
        config_schema=schema_of(WindowConfig),
    )
    def replay_window(
        context: OpExecutionContext,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> None:
        with step_failures(context, naming, STOPPED_BEFORE_REPLAY):
            settings = with_store(nats3_settings, nats3_s3)
            config = WindowConfig(**context.op_config)
            spec = config.window(began_at(context.instance, context.run))
            if chosen is not None and spec.archive not in chosen:
                raise OperatorError(
                    f"This code location does not have the archive {spec.archive!r}",
                    f"It has {', '.join(sorted(chosen))}; replay another one where it is defined",
                )
            if config.dry_run:
                metadata, what = dry_run(settings, spec), "Dry run: nothing was published"
            else:
                metadata, what = replay(context, nats3_spark, settings, spec).metadata(), "Replay of a window"
        # Not a materialization: a window need not hold any hour as a whole.
        context.log_event(AssetObservation(naming.replay_key(spec.archive), description=what, metadata=metadata))

    @job(
        name=naming.name("replay"),
        executor_def=run_executor,
        description="Replay a window of any archive into NATS: by time to the nanosecond, or by sequence.",
    )
    def replay_window_job() -> None:
        replay_window()

    return replay_window_job


def resume_job(naming: Naming, platform: Platform) -> JobDefinition:
    """`resume_replay`."""

    @op(
        name=naming.name("resume_recorded_replay"),
        pool=platform.pool(REPLAY, REPLAY_POOL),
        tags={"kind": "pyspark"},
        description="Publish with PySpark what is left of a replay that was recorded.",
    )
    def resume_recorded_replay(
        context: OpExecutionContext,
        config: ResumeConfig,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> None:
        with step_failures(context, naming, STOPPED_BEFORE_REPLAY):
            settings = with_store(nats3_settings, nats3_s3)
            outcome = resume(context, nats3_spark, settings, config.replay_id, config.launch)
        key = naming.replay_key(outcome.replay.spec.archive)
        context.log_event(AssetObservation(key, description="Replay of a load job", metadata=outcome.metadata()))

    @job(
        name=naming.name("resume_replay"),
        executor_def=run_executor,
        description="Go on with a replay that was recorded, in a shell or as a load job of the HTTP API, after its "
        "last message.",
    )
    def resume_replay_job() -> None:
        resume_recorded_replay()

    return resume_replay_job
