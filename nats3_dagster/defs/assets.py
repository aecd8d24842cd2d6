"""The assets of an archive: the stream it captures, its hours of chunks, and the replays of those hours.

The rule kept here: an hour is marked as materialized when the catalog has it, hour by hour, also when a later hour of
the same run fails.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetKey,
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

from nats3_dagster.defs.captures import capture_hour, observe_stream
from nats3_dagster.defs.failures import shown_plainly
from nats3_dagster.defs.metadata import COLUMNS, Metadata, archive_metadata
from nats3_dagster.defs.partitions import hours_of_run
from nats3_dagster.defs.replays import dry_run, replay
from nats3_dagster.defs.resources import start_spark, with_store
from nats3_dagster.defs.run_config import CaptureConfig, ReplayConfig
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings

# Enqueueing a run costs about a second, and one that fails is run again whole: a day of hours is a fair share.
CAPTURE_HOURS = 24
CAPTURE_POOL, REPLAY_POOL = "jetstream", "replay"


def stream_asset(stream: str) -> AssetSpec:
    """A JetStream stream: it exists without us."""
    return AssetSpec(
        AssetKey(["jetstream", stream]), group_name="jetstream", kinds={"nats", "stream"},
        description=f"Stream {stream} in JetStream. Captures report its state here.", metadata={"stream": stream},
    )  # fmt: skip


def chunks_asset(archive: Archive, hours: HourlyPartitionsDefinition, owners: Sequence[str] = ()) -> AssetsDefinition:
    """`<archive>/chunks`: a partition is complete when every message of its hour is in a chunk, or known to be lost."""
    name, spec = archive.name, archive.spec
    key = AssetKey([name, "chunks"])

    @asset(
        key=key, deps=[AssetDep(AssetKey(["jetstream", spec.stream]))], partitions_def=hours, group_name=name,
        kinds={"nats", "pyspark", "parquet", "s3"}, owners=list(owners), pool=CAPTURE_POOL,
        backfill_policy=BackfillPolicy.multi_run(CAPTURE_HOURS),
        description=f"Messages of stream {spec.stream} in Parquet chunks, by hour of store time (UTC). Materializing "
        "an hour captures what the archive lacks of it; doing so again adds nothing.",
        metadata={**archive_metadata(archive), "dagster/column_schema": COLUMNS},
    )  # fmt: skip
    def chunks(
        context: AssetExecutionContext, config: CaptureConfig, settings: ResourceParam[Settings],
        s3: ResourceParam[Any], spark: ResourceParam[Any],
    ) -> Iterator[MaterializeResult | AssetMaterialization]:  # fmt: skip
        done: dict[str, Metadata] = {}
        try:
            with shown_plainly(context):
                asked = hours_of_run(context, hours, name)
                reached = with_store(settings, s3)
                session = start_spark(spark, reached)
                for hour in asked:
                    done[hour] = capture_hour(context, session, reached, name, hour, adopt=config.adopt)
                observe_stream(context, reached, name)
        except BaseException:
            for hour, metadata in done.items():
                yield AssetMaterialization(key, partition=hour, metadata=metadata)
            raise
        for hour, metadata in done.items():
            context.add_asset_metadata(metadata, partition_key=hour)
        yield MaterializeResult()

    return chunks


def replay_asset(archive: Archive, hours: HourlyPartitionsDefinition, owners: Sequence[str] = ()) -> AssetsDefinition:
    """`<archive>/replay`: materializing hours publishes them, in order, as one replay."""
    name, spec = archive.name, archive.spec
    key = AssetKey([name, "replay"])

    @asset(
        key=key, deps=[AssetDep(AssetKey([name, "chunks"]))], partitions_def=hours, group_name=name,
        kinds={"nats", "pyspark"}, owners=list(owners), pool=REPLAY_POOL, backfill_policy=BackfillPolicy.single_run(),
        # A dry run materializes nothing.
        output_required=False,
        description=f"Replays of archive {name} into NATS. Materializing hours publishes their messages, exactly once "
        "and in order, to the subjects that the run config names; a run that was stopped goes on when re-executed.\n\n"
        f"Config to begin with:\n\n```yaml\nops:\n  {name}__replay:\n    config:\n"
        f"      write_subject: \"replay.>\"\n      create_stream: REPLAYED\n```",
        metadata={"source_stream": spec.stream},
    )  # fmt: skip
    def replay_hours(
        context: AssetExecutionContext, config: ReplayConfig, settings: ResourceParam[Settings], s3: ResourceParam[Any],
        spark: ResourceParam[Any],
    ) -> Iterator[MaterializeResult | AssetObservation]:  # fmt: skip
        with shown_plainly(context):
            asked = hours_of_run(context, hours, name)
            reached = with_store(settings, s3)
            wanted = config.spec(name, hours=asked)
            planned = dry_run(reached, wanted) if config.dry_run else None
            done = None if config.dry_run else replay(context, spark, reached, wanted)
        if planned is not None:
            yield AssetObservation(key, description="Dry run: nothing was published", metadata=planned)
        if done is not None:
            for hour in asked:
                context.add_asset_metadata(done.metadata(hour), partition_key=hour)
            yield MaterializeResult()

    return replay_hours
