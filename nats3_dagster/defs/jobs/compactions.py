"""Compaction in Dagster: a sensor asks for a run where an archive's policy has hours due, and a job compacts them.

Invariant: at most one run of an archive at a time, and a tick that finds nothing due asks the catalog once.
"""

import time
from collections.abc import Collection
from typing import Any

from dagster import (
    Config,
    DefaultSensorStatus,
    JobDefinition,
    OpExecutionContext,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    job,
    op,
    sensor,
)
from pydantic import Field

from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.instance.resources import start_spark, with_store
from nats3_dagster.defs.jobs.failures import step_failures, tick_failures
from nats3_dagster.defs.keys import Naming
from nats3_dagster.defs.sensors.backoff import active_run, back_off
from nats3_dagster.defs.wording import STOPPED_COMPACTION
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

COMPACT_INTERVAL_S = 300
# Hours of one run: each is read and written once.
HOURS_AT_ONCE = 500
# Tag of a run: the archive that it compacts.
COMPACT_TAG = "nats3/compact"
_OP = "compact_hours"


class CompactConfig(Config):
    """The archive to compact."""

    archive: str = Field(description="The hours that its setting compact_after lets compact now.")


def compact_job(naming: Naming, chosen: Collection[str] | None = None) -> JobDefinition:
    """`compact`; of the `chosen` archives, or of any."""

    @op(
        name=naming.name(_OP),
        description="Merge the small chunks of sealed hours, each proven equal before it takes their place.",
    )
    def compact_hours(
        context: OpExecutionContext,
        config: CompactConfig,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> None:
        # They import pyarrow.
        from nats3_dagster.archive.keep.compaction import due_hours
        from nats3_dagster.pipeline.compact_run import run_compaction
        from nats3_dagster.tables.follow import followed

        with step_failures(context, naming, STOPPED_COMPACTION):
            if chosen is not None and config.archive not in chosen:
                raise OperatorError(
                    f"This code location does not have the archive {config.archive!r}",
                    f"It has {', '.join(sorted(chosen))}; compact another one where it is defined",
                )
            settings = with_store(nats3_settings, nats3_s3)
            with Workspace(settings) as workspace:
                archive = workspace.catalog.archives.get(config.archive)
                hours = due_hours(workspace, archive, HOURS_AT_ONCE)
                with followed(workspace, archive.name):
                    for done in run_compaction(
                        lambda: start_spark(nats3_spark, settings, needs_nats=False), workspace, archive, hours
                    ):
                        context.log.info(f"Hour {done.hour}: {done.before:,} chunks, {done.after:,} are left")

    @job(
        name=naming.name("compact"),
        executor_def=run_executor,
        description="Merge the small chunks of an archive's sealed hours: the same messages in fewer objects.",
    )
    def compact() -> None:
        compact_hours()

    return compact


def compact_sensor(naming: Naming, chosen: Collection[str] | None = None) -> SensorDefinition:
    """`compact_sensor`: one for all archives, on unless switched off in the UI. `chosen`: the names of the archives,
    where they are not all of the catalog."""

    @sensor(
        name=naming.name("compact_sensor"),
        job_name=naming.name("compact"),
        minimum_interval_seconds=COMPACT_INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Compacts sealed hours of archives with the setting compact_after, once it has passed since the "
        "hour's end.",
    )
    def evaluate(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            due = [name for name in workspace.catalog.compaction.due_archives() if chosen is None or name in chosen]
        if not due:
            return SkipReason("No hour of an archive with the setting compact_after is due")
        requests: list[RunRequest] = []
        waits: list[str] = []
        for name in due:
            if active := active_run(context.instance, {COMPACT_TAG: name}):
                waits.append(f"Run {active} compacts archive {name}")
            elif wait := back_off(
                context.instance, RunsFilter(tags={COMPACT_TAG: name}), f"Compaction of {name}", time.time()
            ):
                waits.append(wait)
            else:
                config = {"ops": {naming.name(_OP): {"config": {"archive": name}}}}
                requests.append(RunRequest(run_config=config, tags={COMPACT_TAG: name}))
        return SensorResult(run_requests=requests, skip_reason=None if requests else ". ".join(waits))

    return evaluate
