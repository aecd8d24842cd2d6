"""The sealed hours of an archive, and the sensor that seals them.

The rule kept here: what is complete is asked of the catalog, never of Dagster's events: of 200 hours materialized
between two ticks an asset sensor sees the newest one, and of an hour whose last message was captured before it ended
it sees nothing at all.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

from dagster import (
    AssetDep,
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetsDefinition,
    BackfillPolicy,
    DagsterInstance,
    DefaultSensorStatus,
    HourlyPartitionsDefinition,
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
from dagster._core.storage.dagster_run import NOT_FINISHED_STATUSES
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from nats3_dagster.catalog import Catalog
from nats3_dagster.defs.backoff import back_off
from nats3_dagster.defs.checks import intact_key, no_gaps_key
from nats3_dagster.defs.failures import shown_plainly, told_plainly
from nats3_dagster.defs.metadata import hour_metadata, seal_metadata
from nats3_dagster.defs.partitions import hours_of_run
from nats3_dagster.defs.resources import with_store
from nats3_dagster.defs.sensors import deleted
from nats3_dagster.defs.wording import WORDS
from nats3_dagster.errors import Nats3Error
from nats3_dagster.hours import HOUR_NS, hour_start
from nats3_dagster.model import Archive, Incarnation, Seal
from nats3_dagster.objects import StoreOptions
from nats3_dagster.settings import Settings

INTERVAL_S = 30
# Hours that one run seals, at some 20 ms each, and runs that one tick asks for: each is a process of its own.
SEAL_HOURS, SEAL_RUNS = 24 * 31, 8
SEAL_TAG = "nats3/seal"


def sealed_asset(archive: Archive, hours: HourlyPartitionsDefinition, owners: Sequence[str] = ()) -> AssetsDefinition:
    """`<archive>/sealed`: a partition is an hour that has ended and of which nothing is missing, with its manifest."""
    name = archive.name

    @asset(
        key=AssetKey([name, "sealed"]), deps=[AssetDep(AssetKey([name, "chunks"]))], partitions_def=hours,
        group_name=name, kinds={"s3", "json"}, owners=list(owners), backfill_policy=BackfillPolicy.single_run(),
        output_required=False,
        description=f"Hours of archive {name} that have ended and are complete: each has a manifest beside its chunks, "
        "which lists them with their hashes, and the gaps. Let what reads whole hours depend on this asset.",
    )  # fmt: skip
    def sealed(
        context: AssetExecutionContext, settings: ResourceParam[Settings], s3: ResourceParam[Any]
    ) -> Iterator[AssetMaterialization]:
        # One event for each hour that was sealed, and no output: that would materialize all hours of the run.
        with shown_plainly(context):
            asked = hours_of_run(context, hours, name)
            reached = with_store(settings, s3)
            for seal in _seal(reached, name, asked, context.run.run_id):
                yield from seal_events(archive, seal, reached.store)

    return sealed


def seal_sensor(archive: Archive, hours: HourlyPartitionsDefinition) -> SensorDefinition:
    """`<archive>_seal_sensor`: on unless switched off in the UI."""
    name = archive.name

    @sensor(
        name=f"{name}_seal_sensor", asset_selection=[AssetKey([name, "sealed"])], minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description=f"Seals each hour of archive {name} that has ended and is complete, and evaluates its checks.",
    )  # fmt: skip
    def evaluate(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        with told_plainly():
            return _evaluate(context, Settings.load(), name, hours.get_first_partition_key() or "9")

    return evaluate


def seal_events(archive: Archive, seal: Seal, store: StoreOptions) -> Iterator[AssetMaterialization]:
    """What Dagster is told of a seal."""
    key = AssetKey([archive.name, "sealed"])
    yield AssetMaterialization(key, partition=seal.hour, metadata=seal_metadata(seal, store))
    if not seal.chunks:
        # Nothing was stored in this hour, and its partition would look as if it still had to be captured.
        nothing = hour_metadata(archive, seal.hour, (), (), store)
        yield AssetMaterialization(AssetKey([archive.name, "chunks"]), partition=seal.hour, metadata=nothing)


def _evaluate(
    context: SensorEvaluationContext, settings: Settings, name: str, first: str
) -> SensorResult | SkipReason:
    """What one tick does, for the hours from `first` on."""
    from nats3_dagster.archive.seal import newest_closed

    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.find(name)
        if archive is None:
            return SkipReason(deleted(name))
        closed, revision = newest_closed(time.time_ns()), catalog.hours.revision(archive)
        seen = json.dumps({"revision": revision, "closed": closed})
        if context.cursor == seen:
            return SkipReason("Nothing changed since every complete hour was sealed")
        if first > closed:
            return SkipReason("No hour of this archive has ended yet")
        if active := _active(context.instance, name):
            return SkipReason(f"Run {active} seals hours of this archive")
        bound, unknown = None, None
        try:
            bound = _bound(settings, catalog, archive, closed)
        except Nats3Error as error:
            unknown = error.text_in(WORDS)
        hours = catalog.seals.unsealed(archive, first, closed, bound=bound, limit=SEAL_HOURS * SEAL_RUNS)
        if bound is None:
            # Nothing says where the newest hours end: what was stored behind the last chunk may belong to any of them.
            held = catalog.hours.select(archive, first=first, last=closed)
            hours = tuple(h for h in hours if held and h < held[-1].hour)
    if not hours:
        if unknown:
            return SkipReason(unknown)  # the cursor stays, so that the next tick asks again
        return SensorResult(skip_reason="Every complete hour is sealed", cursor=seen)
    if waits := back_off(context.instance, RunsFilter(tags={SEAL_TAG: name}), "Sealing", time.time()):
        return SkipReason(waits)
    return SensorResult(run_requests=[_request(archive, block) for block in _blocks(hours)[:SEAL_RUNS]])


def _active(instance: DagsterInstance, name: str) -> str | None:
    """A run that seals hours of the archive, or waits to."""
    active = RunsFilter(tags={SEAL_TAG: name}, statuses=NOT_FINISHED_STATUSES)
    return next((run.run_id for run in instance.get_runs(active, limit=1)), None)


def _blocks(hours: Sequence[str]) -> list[tuple[str, str]]:
    """The first and the last of each row of adjacent hours, SEAL_HOURS long at most."""
    blocks: list[tuple[str, str]] = []
    for hour in hours:
        start = hour_start(hour)
        if blocks and start - hour_start(blocks[-1][1]) == HOUR_NS and (
            start - hour_start(blocks[-1][0]) < SEAL_HOURS * HOUR_NS
        ):  # fmt: skip
            blocks[-1] = (blocks[-1][0], hour)
        else:
            blocks.append((hour, hour))
    return blocks


def _request(archive: Archive, block: tuple[str, str]) -> RunRequest:
    """A run for these hours, with the checks: an error of `no_gaps` ends it before anything is sealed."""
    first, last = block
    return RunRequest(
        asset_selection=[AssetKey([archive.name, "sealed"])],
        asset_check_keys=[no_gaps_key(archive), intact_key(archive)],
        tags={SEAL_TAG: archive.name, ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last},
    )  # fmt: skip


def _bound(settings: Settings, catalog: Catalog, archive: Archive, closed: str) -> tuple[Incarnation, int]:
    """The last sequence that the archive must account for. Raises Nats3Error when the stream cannot say."""
    from nats3_dagster.archive.seal import last_sequence
    from nats3_dagster.jetstream.link import Link

    with Link(settings.nats) as link:
        return last_sequence(catalog, link, archive, closed)


def _seal(settings: Settings, name: str, asked: Sequence[str], run_id: str) -> Iterator[Seal]:
    """Seal those of the hours that are complete; then, if any is not, raise OperatorError."""
    from nats3_dagster.archive.seal import check_hours, newest_closed, seal_hours

    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.get(name)
        closed = newest_closed(time.time_ns())
        bound = _bound(settings, catalog, archive, closed)
        found = catalog.seals.unsealed(archive, asked[0], min(asked[-1], closed), bound=bound, limit=len(asked))
        before = {seal.hour for seal in catalog.seals.select(archive, hours=asked) if seal.valid}
        yield from seal_hours(catalog, settings.store, archive, found, run_id)
        check_hours(asked, {*found, *before}, name, closed)
