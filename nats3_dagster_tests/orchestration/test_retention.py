"""Old runs are deleted, and no asset shows less for it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from dagster import (
    AssetCheckEvaluation,
    AssetExecutionContext,
    AssetKey,
    AssetMaterialization,
    AssetSelection,
    DagsterEventType,
    DagsterInstance,
    Definitions,
    HourlyPartitionsDefinition,
    asset,
    define_asset_job,
    in_process_executor,
)
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run
from dagster._core.test_utils import create_run_for_test

from nats3_dagster.defs.jobs.retention import forget_runs, forget_shared_runs
from nats3_dagster.defs.keys import ACCOUNT_TAG, CAPTURES, KEEPS_UP, NO_GAPS, PROJECT

HOURS = HourlyPartitionsDefinition("2026-11-20-00:00", timezone="UTC", fmt="%Y-%m-%d-%H:00")
CHUNKS = PROJECT.chunks_key("events")


@asset(key=CHUNKS, partitions_def=HOURS, output_required=False)
def chunks(context: AssetExecutionContext) -> Iterator[AssetMaterialization | AssetCheckEvaluation]:
    """As a capture: the events of its hour, and of a check."""
    yield AssetMaterialization(CHUNKS, partition=context.partition_key)
    if context.partition_key.endswith("00:00"):
        yield AssetCheckEvaluation(CHUNKS, KEEPS_UP, True)
    yield AssetCheckEvaluation(CHUNKS, NO_GAPS, True)


def test_runs_that_show_an_hour_or_a_check_stay(instance: DagsterInstance) -> None:
    jobs = [define_asset_job(name, AssetSelection.assets(CHUNKS)) for name in ("events_capture", "other_capture")]
    defs = Definitions(assets=[chunks], jobs=jobs)

    def run(hour: int, job: str = "events_capture") -> str:
        done = defs.resolve_job_def(job).execute_in_process(instance=instance, partition_key=f"2026-11-20-{hour:02}:00")
        return done.run_id

    def shown() -> object:
        return instance.get_latest_storage_id_by_partition(CHUNKS, DagsterEventType.ASSET_MATERIALIZATION)

    began = datetime.now(UTC) - timedelta(seconds=1)
    # The hour 0 twice, the hour 1 three times; the second run is the newest with that check.
    runs = [run(hour) for hour in (0, 0, 1, 1, 1)]
    other = run(2, "other_capture")
    before, now = shown(), datetime.now(UTC) + timedelta(seconds=1)
    assert forget_runs(instance, PROJECT, "events", began - timedelta(days=1), began) == 0
    assert forget_runs(instance, PROJECT, "events", began, now) == 3
    assert {one.run_id for one in instance.get_runs()} == {runs[1], runs[4], other}
    assert shown() == before
    for check in (NO_GAPS, KEEPS_UP):
        assert instance.get_latest_asset_check_evaluation_record(PROJECT.check_key("events", check)) is not None
    # Again there is nothing to do.
    assert forget_runs(instance, PROJECT, "events", began, now) == 0


def test_a_run_of_several_archives_stays_while_it_shows_one_of_them(instance: DagsterInstance) -> None:
    other = PROJECT.chunks_key("other")

    @asset(key=other, partitions_def=HOURS, output_required=False)
    def others(context: AssetExecutionContext) -> Iterator[AssetMaterialization]:
        yield AssetMaterialization(other, partition=context.partition_key)

    job = Definitions(assets=[chunks, others], executor=in_process_executor).resolve_implicit_global_asset_job_def()

    def run(*keys: AssetKey) -> str:
        made = create_run_for_test(
            instance,
            job_name=job.name,
            tags={ACCOUNT_TAG: CAPTURES, "dagster/partition": "2026-11-20-01:00"},
            asset_selection=frozenset(keys),
            asset_check_selection=frozenset(),
        )
        assert execute_run(InMemoryJob(job), made, instance).success
        return made.run_id

    began = datetime.now(UTC) - timedelta(seconds=1)
    both, first, second = run(CHUNKS, other), run(CHUNKS), run(CHUNKS)
    now = datetime.now(UTC) + timedelta(seconds=1)
    assert forget_runs(instance, PROJECT, "events", began, now) == 0
    assert forget_shared_runs(instance, PROJECT, began, now) == 1
    assert {one.run_id for one in instance.get_runs()} == {both, second}, first
    last = run(other)
    assert forget_shared_runs(instance, PROJECT, began, now + timedelta(seconds=5)) == 1
    assert {one.run_id for one in instance.get_runs()} == {second, last}
