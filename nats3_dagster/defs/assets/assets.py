"""The assets of an archive: the stream it captures, its hours of chunks, the sealed ones, and replays of them.

Invariant: an hour is materialized when the catalog has it, also when another hour of the same run fails.
"""

from collections.abc import Iterator
from typing import Any

from dagster import (
    AssetCheckEvaluation,
    AssetDep,
    AssetExecutionContext,
    AssetMaterialization,
    AssetObservation,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    HourlyPartitionsDefinition,
    MaterializeResult,
    ResourceParam,
    asset,
)

from nats3_dagster.archive.captures.hour_run import HourRun
from nats3_dagster.archive.health.dagster_health import CAPTURE_POOL, REPLAY_POOL
from nats3_dagster.defs.assets.columns import COLUMNS
from nats3_dagster.defs.assets.events import chunks_now, is_alone, results_of, seal_events
from nats3_dagster.defs.assets.markdown import code
from nats3_dagster.defs.assets.metadata import archive_metadata
from nats3_dagster.defs.checks.checks import captured_checks
from nats3_dagster.defs.instance.resources import start_spark, with_store
from nats3_dagster.defs.jobs.failures import step_failures
from nats3_dagster.defs.jobs.replays import dry_run, refuse_backfill, replay
from nats3_dagster.defs.jobs.run_config import CaptureConfig, hours_config, hours_schema
from nats3_dagster.defs.jobs.runs import capture_hours, log_failures, observe_stream
from nats3_dagster.defs.jobs.shared_steps import SharedStep
from nats3_dagster.defs.jobs.staying import staying
from nats3_dagster.defs.keys import ACCOUNT_TAG, SEAL_TAG, SEALS, Naming
from nats3_dagster.defs.partitions import earlier_hours, hours_of_run
from nats3_dagster.defs.project.platform import CHUNKS, REPLAY, SEALED, STORAGE_TAG, STREAM, AssetArguments, Platform
from nats3_dagster.defs.project.policies import kept_fresh
from nats3_dagster.defs.wording import STOPPED_BEFORE_REPLAY, STOPPED_CAPTURE, STOPPED_CHECKS, STOPPED_SEAL
from nats3_dagster.model import ArchiveSpec, Declaration
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

# Enqueueing a run costs about a second, and its JVM five: a backfill of a year is 37 runs. The view of a backfill shows
# what ended runs captured.
CAPTURE_HOURS = 240


def stream_asset(naming: Naming, platform: Platform, stream: str) -> AssetSpec:
    """`jetstream/<stream>`: it exists outside of nats3."""
    described: Any = platform.of(STREAM, None, group="jetstream", kinds={"nats", "stream"})
    return AssetSpec(
        naming.stream_key(stream),
        metadata={"stream": stream},
        description=f"Stream {code(stream)} in JetStream. Each capture reports the state of the stream here.",
        **described,
    )


def chunks_asset(
    naming: Naming,
    platform: Platform,
    spec: ArchiveSpec,
    hours: HourlyPartitionsDefinition,
    declaration: Declaration | None = None,
) -> AssetsDefinition:
    """`<archive>/chunks`: a partition is complete when every message of its hour is in a chunk, or known to be lost."""
    name = spec.name
    key = naming.chunks_key(name)

    @asset(
        key=key,
        deps=[AssetDep(naming.stream_key(spec.stream))],
        partitions_def=hours,
        backfill_policy=BackfillPolicy.multi_run(CAPTURE_HOURS),
        output_required=False,
        description=f"Messages of stream {code(spec.stream)} in Parquet chunks, by hour of store time (UTC). Green are "
        "the covered hours: those with messages, and those proven to have none. "
        + (
            f"Materializing any hour takes all that waits in consumer {code(spec.durable or spec.own_durable)}, and "
            "acknowledges it."
            if spec.mode == "consumer"
            else "Materializing an hour captures what is missing from the archive; materializing it again adds nothing."
        ),
        metadata={**archive_metadata(spec), "dagster/column_schema": COLUMNS},
        **_of_hours(platform, CHUNKS, spec, {"nats", "pyspark", "parquet"}, pool=CAPTURE_POOL),
    )
    def chunks(
        context: AssetExecutionContext,
        config: CaptureConfig,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> Iterator[MaterializeResult | AssetMaterialization | AssetCheckEvaluation]:
        captured: list[AssetMaterialization] = []
        try:
            with step_failures(context, naming, STOPPED_CAPTURE), SharedStep(context, name) as step:
                # A run that is terminated while this is imported says so too.
                from nats3_dagster.archive.declared.declaration import ensure_declared

                hours_to_capture = hours_of_run(context, hours, name)
                settings = with_store(nats3_settings, nats3_s3)
                if declaration is not None:
                    with Workspace(settings) as workspace:
                        ensure_declared(workspace, declaration)
                session = step.started(lambda: start_spark(nats3_spark, settings))
                earlier = earlier_hours(context.run.tags)
                failed = log_failures(context, naming, name)

                def capture(run: HourRun, *, adopt: bool) -> None:
                    for hour, event in capture_hours(
                        context, session, settings, naming, name, run, failed, adopt=adopt
                    ):
                        if hour not in earlier:
                            captured.append(event)
                    step.note_failed_hours(run)
                    run.raise_errors()
                    observe_stream(context, naming, settings, name)

                capture(HourRun([*earlier, *hours_to_capture]), adopt=config.adopt)
                last = hours_to_capture[-1]
                with staying(context, settings, name, last) as is_due:
                    while is_due(captured):
                        capture(HourRun([last]), adopt=False)
        except BaseException:
            yield from captured
            raise
        yield from results_of(context, captured)
        if is_alone(context):
            with step_failures(context, naming, STOPPED_CHECKS):
                yield from captured_checks(naming, settings, name)

    return chunks


def sealed_asset(
    naming: Naming, platform: Platform, spec: ArchiveSpec, hours: HourlyPartitionsDefinition
) -> AssetsDefinition:
    """`<archive>/sealed`: a partition is an hour that has ended and is complete, with its manifest."""
    name = spec.name

    @asset(
        key=naming.sealed_key(name),
        deps=[AssetDep(naming.chunks_key(name))],
        partitions_def=hours,
        backfill_policy=BackfillPolicy.single_run(),
        output_required=False,
        description=f"Hours of archive {name} that have ended and are complete. Each has a manifest beside its chunks "
        "that lists them with their hashes, and the gaps. Let assets that read whole hours depend on this one.",
        metadata={"dagster/column_schema": COLUMNS},
        **_of_hours(platform, SEALED, spec, {"json"}),
    )
    def sealed(
        context: AssetExecutionContext, nats3_settings: ResourceParam[Settings], nats3_s3: ResourceParam[Any]
    ) -> Iterator[MaterializeResult | AssetMaterialization | AssetObservation]:
        from nats3_dagster.archive.proof.seal import seal_asked

        asked = SEAL_TAG not in context.run.tags and context.run.tags.get(ACCOUNT_TAG) != SEALS

        def events() -> Iterator[Any]:
            hours_to_seal = hours_of_run(context, hours, name)
            settings = with_store(nats3_settings, nats3_s3)
            with Workspace(settings) as workspace:
                archive = workspace.catalog.archives.get(name)
                for seal in seal_asked(workspace, name, hours_to_seal):
                    yield from seal_events(naming, workspace, context.instance, archive, seal, asked=asked)

        with step_failures(context, naming, STOPPED_SEAL):
            # The sensor's runs have no steps after this one, and an output would materialize what did not change.
            yield from results_of(context, events()) if asked else events()

    return sealed


def replay_asset(
    naming: Naming, platform: Platform, spec: ArchiveSpec, hours: HourlyPartitionsDefinition
) -> AssetsDefinition:
    """`<archive>/replay`: materializing hours publishes them, in order, as one replay."""
    name = spec.name
    key = naming.replay_key(name)

    @asset(
        key=key,
        deps=[AssetDep(naming.chunks_key(name))],
        partitions_def=hours,
        backfill_policy=BackfillPolicy.single_run(),
        # A dry run materializes nothing.
        output_required=False,
        config_schema=hours_schema(),
        description=f"Replays of archive {name} into NATS. Materializing hours publishes their messages, exactly once "
        "and in order, to the subjects that the run config names; a run that was stopped goes on when re-executed.\n\n"
        f"Config to begin with:\n\n```yaml\nops:\n  {naming.replay_op(name)}:\n    config:\n"
        f'      write_subject: "replay.>"\n      create_stream: REPLAYED\n```',
        metadata={"source_stream": spec.stream},
        **platform.of(REPLAY, name, group=name, kinds={"nats", "pyspark"}, pool=REPLAY_POOL),
    )
    def replay_hours(
        context: AssetExecutionContext,
        nats3_settings: ResourceParam[Settings],
        nats3_s3: ResourceParam[Any],
        nats3_spark: ResourceParam[Any],
    ) -> Iterator[MaterializeResult | AssetMaterialization | AssetObservation]:
        with step_failures(context, naming, STOPPED_BEFORE_REPLAY):
            config = hours_config(naming.replay_op(name), context.op_execution_context.op_config)
            hours_to_replay = hours_of_run(context, hours, name)
            settings = with_store(nats3_settings, nats3_s3)
            if config.dry_run:
                refuse_backfill(context, naming, name, hours_to_replay)
            replay_spec = config.spec(name, hours_to_replay)
            plan = dry_run(settings, replay_spec) if config.dry_run else None
            # What changes while it is published was not replayed.
            of = {} if config.dry_run else chunks_now(context, naming, settings, name, hours_to_replay)
            replayed = None if config.dry_run else replay(context, nats3_spark, settings, replay_spec)
        if plan is not None:
            yield AssetObservation(key, description="Dry run: nothing was published", metadata=plan)
        if replayed is not None:
            events = [replayed.event(naming, name, hour, of=of[hour], marks={}) for hour in hours_to_replay]
            yield from results_of(context, events)

    return replay_hours


def _of_hours(
    platform: Platform, kind: str, spec: ArchiveSpec, kinds: set[str], pool: str | None = None
) -> AssetArguments:
    """The arguments of an asset of hours in the archive's store."""
    described = platform.of(
        kind, spec.name, group=spec.name, kinds=kinds, pool=pool, in_store=True, freshness=kept_fresh(spec)
    )
    storage = next(iter(platform.kinds_in_store(spec.name)), "local")
    return {**described, "tags": {STORAGE_TAG: storage, **described["tags"]}}
