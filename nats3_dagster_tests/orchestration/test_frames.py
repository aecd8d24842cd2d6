"""Hours of an archive as data frames in assets that depend on it, by the type of their argument."""

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dagster import (
    AssetIn,
    AssetKey,
    AssetsDefinition,
    AssetSpec,
    DagsterInstance,
    Definitions,
    HourlyPartitionsDefinition,
    ResourceParam,
    asset,
)

from nats3_dagster import ArchiveIOManager, ArchiveResource, build_archive_definitions
from nats3_dagster.archive.proof.seal import seal_hours
from nats3_dagster.archive.read.frame import COLUMNS
from nats3_dagster.archive.stored import folder
from nats3_dagster.model import Archive, ChunkResult, ReplaySpec
from nats3_dagster.replay import control
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.catalog import ids
from nats3_dagster_tests.support.stored import Made, hour_key, made, store

HOURS = HourlyPartitionsDefinition("2023-11-14-00:00", timezone="UTC", fmt="%Y-%m-%d-%H:00")
EXAMPLE = Path(__file__).parents[2] / "docs/examples/dagster-project/src/acme_data/defs/orders_by_subject.py"
SEALED = AssetKey(["acme", "logs", "sealed"])


def seal(workspace: Workspace, archive: Archive, *hours: int) -> None:
    folder.claim(workspace, archive)
    assert len([*seal_hours(workspace, archive, [hour_key(hour) for hour in hours])]) == len(hours)


@pytest.fixture
def logs(workspace: Workspace, settings: Settings, bucket: str) -> None:
    """An archive of two hours with 100 messages each, two hours without any, and one after them whose messages were
    lost in part; all are sealed."""
    found = made(workspace, bucket, "logs", last=300)
    for hour, first in ((10, 1), (11, 101)):
        store(workspace, found, hour, [Made(n, f"logs.{n % 2}", b"%d" % n) for n in range(first, first + 100)])
    store(workspace, found, 14, [Made(250, "logs.0")], (201, 300), reason="expired")
    seal(workspace, found, 10, 11, 12, 13, 14)


class Given:
    """What assets were given, by their names."""

    def __init__(self) -> None:
        self.frames: dict[str, Any] = {}

    def asset(self, name: str, kind: Any, key: Any = SEALED, **metadata: Any) -> AssetsDefinition:
        def keep(orders: Any) -> None:
            self.frames[name] = orders

        keep.__annotations__.update({"orders": kind, "return": None})
        return asset(name=name, ins={"orders": AssetIn(key, metadata=metadata)}, partitions_def=HOURS)(keep)


@pytest.fixture
def given() -> Given:
    return Given()


def run(definitions: Definitions, instance: DagsterInstance, hours: tuple[str, str], *names: str) -> Any:
    """A run of these assets, for all hours between two."""
    job = definitions.resolve_implicit_global_asset_job_def()
    tags = {"dagster/asset_partition_range_start": hours[0], "dagster/asset_partition_range_end": hours[1]}
    return job.execute_in_process(
        instance=instance, tags=tags, asset_selection=[AssetKey([name]) for name in names], raise_on_error=False
    )


def failure(ran: Any) -> str:
    """The first line of what the one step failed of."""
    (event,) = [event for event in ran.all_events if event.is_step_failure]
    return event.step_failure_data.error.message.splitlines()[0]


def test_an_argument_is_a_frame_of_its_type(logs: None, given: Given, instance: DagsterInstance) -> None:
    assets = [
        given.asset("in_pandas", pd.DataFrame),
        given.asset("in_polars", pl.DataFrame),
        given.asset("in_arrow", pa.Table),
        given.asset("of_chunks", pa.Table, AssetKey(["acme", "logs", "chunks"])),
        given.asset("narrow", pl.DataFrame, **{"nats3/columns": ["seq", "hour"], "nats3/subjects": "logs.1, logs.x"}),
    ]
    definitions = Definitions.merge(build_archive_definitions(key_prefix="acme"), Definitions(assets=assets))
    names = ["in_pandas", "in_polars", "in_arrow", "of_chunks", "narrow"]
    assert run(definitions, instance, (hour_key(10), hour_key(11)), *names).success
    kinds = [type(given.frames[name]) for name in names]
    assert kinds == [pd.DataFrame, pl.DataFrame, pa.Table, pa.Table, pl.DataFrame]
    assert [len(given.frames[name]) for name in names] == [200, 200, 200, 200, 100]
    assert given.frames["in_arrow"].schema == COLUMNS
    assert given.frames["in_polars"]["seq"].to_list() == list(given.frames["in_pandas"]["seq"]) == list(range(1, 201))
    assert given.frames["narrow"].rows()[49:51] == [(99, hour_key(10)), (101, hour_key(11))]
    full = given.frames["in_pandas"].dtypes
    # An hour without messages.
    assert run(definitions, instance, (hour_key(12), hour_key(12)), *names).success
    assert [len(given.frames[name]) for name in names] == [0] * 5
    assert given.frames["in_arrow"].schema == COLUMNS
    assert (given.frames["in_pandas"].dtypes == full).all()


def test_a_frame_is_complete_and_bounded_or_its_run_fails(logs: None, given: Given, instance: DagsterInstance) -> None:
    assets = {
        given.asset("whole", pl.DataFrame): "201-249, 251-300. Capture those hours while",
        given.asset(
            "large", pl.DataFrame, **{"nats3/max_bytes": 50, "nats3/over_gaps": True}
        ): "The selection of archive logs has more than 50",
        given.asset("untyped", Any): "The input orders has the type none, which is no frame",
        given.asset("listed", list): "which is no frame. Annotate it as pandas.DataFrame",
        given.asset("column", pa.Table, **{"nats3/columns": ["sq"]}): "A frame has no column 'sq'",
        given.asset("filter", pa.Table, **{"nats3/subjects": ["a..b"]}): "'a..b' is not a subject filter",
        given.asset("unknown", pa.Table, **{"nats3/column": ["seq"]}): "An input has no metadata nats3/column.",
        given.asset("over", pa.Table, **{"nats3/over_gaps": True}): "",
    }
    definitions = Definitions.merge(build_archive_definitions(key_prefix="acme"), Definitions(assets=[*assets]))
    for one, says in assets.items():
        (key,) = one.keys
        ran = run(definitions, instance, (hour_key(10), hour_key(14)), key.to_user_string())
        if key.path == ["over"]:
            assert ran.success
            assert given.frames["over"].num_rows == 201
            continue
        assert not ran.success, key
        assert says in failure(ran), key


def test_messages_that_were_removed_on_purpose_are_missing(
    logs: None, given: Given, instance: DagsterInstance, workspace: Workspace
) -> None:
    archive = workspace.catalog.archives.get("logs")
    (chunk, *_) = workspace.catalog.chunks.select(archive)
    workspace.catalog.replays.begin("0" * 16, archive, ReplaySpec("logs", delete_chunks=True), (), ids([chunk]))
    attempt = workspace.catalog.replays.start_attempt("0" * 16)
    workspace.catalog.replay_chunks.record("0" * 16, attempt, [ChunkResult(chunk.id, 100, 100, 0, 0)])
    workspace.catalog.replays.finish("0" * 16, attempt, "succeeded")
    assert control.delete_chunks(workspace, "0" * 16) == 1
    seal(workspace, archive, 10)
    assets = [given.asset("whole", pa.Table), given.asset("rest", pa.Table, **{"nats3/over_gaps": True})]
    definitions = Definitions.merge(build_archive_definitions(key_prefix="acme"), Definitions(assets=assets))
    hours = hour_key(10), hour_key(11)
    says = "Up to 100 messages of these hours were removed from archive logs on purpose. To read what is left"
    assert says in failure(run(definitions, instance, hours, "whole"))
    assert run(definitions, instance, hours, "rest").success
    assert given.frames["rest"].num_rows == 100


def test_an_archive_of_another_code_location(logs: None, given: Given, instance: DagsterInstance) -> None:
    """It is an asset without a definition here: the code location has the IO manager itself."""
    upstream = AssetSpec(AssetKey(["logs", "sealed"]), partitions_def=HOURS)

    @asset
    def newest(archives: ResourceParam[ArchiveResource]) -> None:
        with archives.open("logs") as archive:
            given.frames["newest"] = archive.read(hours=[hour_key(11)]).to_polars()

    @asset(ins={"orders": AssetIn(upstream.key, input_manager_key="frames")}, partitions_def=HOURS)
    def report(orders: pl.DataFrame) -> None:
        given.frames["report"] = orders

    resources = {"frames": ArchiveIOManager(max_bytes=12_000), "archives": ArchiveResource()}
    definitions = Definitions(assets=[upstream, newest, report], resources=resources)
    ran = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance, partition_key=hour_key(11), asset_selection=[AssetKey("report"), AssetKey("newest")]
    )
    assert ran.success
    assert given.frames["report"]["seq"].to_list() == list(range(101, 201))
    assert given.frames["newest"].equals(given.frames["report"])
    assert "has more than 12,000 bytes" in failure(run(definitions, instance, (hour_key(10), hour_key(11)), "report"))


def test_hours_that_are_not_sealed_fail_a_run_that_depends_on_seals(
    workspace: Workspace, settings: Settings, bucket: str, given: Given, instance: DagsterInstance
) -> None:
    """Also where partitions of the user's own have them: Dagster knows nothing of seals."""
    found = made(workspace, bucket, "logs", last=300)
    for hour, first in ((10, 1), (11, 101), (12, 201)):
        store(workspace, found, hour, [Made(n, "logs.x") for n in range(first, first + 100)])
    seal(workspace, found, 10, 11)
    upstream = [AssetSpec(AssetKey(["logs", name]), partitions_def=HOURS) for name in ("sealed", "chunks")]
    assets = [
        given.asset("report", pl.DataFrame, upstream[0].key),
        given.asset("over", pl.DataFrame, upstream[0].key, **{"nats3/over_gaps": True}),
        given.asset("newest", pl.DataFrame, upstream[1].key),
    ]
    definitions = Definitions(assets=[*upstream, *assets], resources={"io_manager": ArchiveIOManager()})
    says = f"Archive logs has hours that are not sealed: {hour_key(12)}. Materialize logs/sealed"
    for last, frames in ((11, {"report": 200, "over": 200, "newest": 200}), (12, {"over": 300, "newest": 300})):
        given.frames.clear()
        for name in ("report", "over", "newest"):
            ran = run(definitions, instance, (hour_key(10), hour_key(last)), name)
            assert ran.success or says in failure(ran)
        assert {name: len(frame) for name, frame in given.frames.items()} == frames
    before = "2023-11-14-21:00"  # the archive begins an hour later
    assert run(definitions, instance, (before, before), "report").success
    assert given.frames["report"].is_empty()
    store(workspace, found, 11, [Made(301, "logs.x")])  # a late message: the hour is not as it was sealed
    assert f"not sealed: {hour_key(11)}" in failure(run(definitions, instance, (hour_key(10), hour_key(11)), "report"))


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")  # of allow_nonexistent_upstream_partitions
def test_the_mappings_of_the_page(
    workspace: Workspace, settings: Settings, bucket: str, instance: DagsterInstance
) -> None:
    """Days, shifts, hours with the one before them, and hours by shop: the assets of docs/components.md."""
    found = made(workspace, bucket, "orders", last=40)
    for hour, first in ((10, 1), (11, 11), (13, 21), (15, 31)):
        store(workspace, found, hour, [Made(n, f"orders.{n % 2}", b"x") for n in range(first, first + 10)])
    seal(workspace, found, *range(24))
    spec = importlib.util.spec_from_file_location("order_frames", EXAMPLE)
    assert spec
    assert spec.loader
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    assets = [one for one in vars(page).values() if isinstance(one, AssetsDefinition)]
    archives = build_archive_definitions(key_prefix="acme", archives=["orders"])
    job = Definitions.merge(archives, Definitions(assets=assets)).resolve_implicit_global_asset_job_def()
    runs: dict[tuple[str, str], dict[str, int]] = {
        ("orders_by_subject", hour_key(11)): {"messages": 10, "orders.0": 5, "orders.1": 5},
        ("orders_by_subject", hour_key(12)): {"messages": 0},
        ("orders_of_day", "2026-11-21"): {"messages": 20},
        ("orders_of_shift", "2026-11-21-06"): {"messages": 30, "hours": 3},
        ("orders_with_hour_before", hour_key(11)): {"messages": 20},
        ("orders_with_hour_before", hour_key(10)): {"messages": 10},
        ("orders_of_shop", f"{hour_key(13)}|1"): {"messages": 5},
    }
    for (name, partition), says in runs.items():
        ran = job.execute_in_process(
            instance=instance, partition_key=partition, asset_selection=[AssetKey(["acme", name])]
        )
        (event,) = ran.get_asset_materialization_events()
        assert {key: one.value for key, one in event.materialization.metadata.items()} == says, (name, partition)
    assert {name for name, _ in runs} == {one.key.path[-1] for one in assets}
