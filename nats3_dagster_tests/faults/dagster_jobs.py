"""What the processes of dagster_faults do: ticks of the catalog sensor, changes of an archive, repairs, and runs with
their monitoring."""

import logging
import time
from contextlib import suppress
from pathlib import Path

import yaml
from dagster import (
    AssetKey,
    DagsterInstance,
    DagsterRunStatus,
    OpExecutionContext,
    RunsFilter,
    execute_job,
    job,
    op,
    reconstructable,
)
from dagster._daemon.monitoring.run_monitoring import monitor_started_run

from nats3_dagster.archive.proof.manifest_repair import repair_manifests
from nats3_dagster.catalog.session import run_locks
from nats3_dagster.defs import run_launcher
from nats3_dagster.defs.executor import run_executor
from nats3_dagster.defs.keys import PROJECT
from nats3_dagster.defs.sensors import cursor as sensor_cursor
from nats3_dagster.defs.sensors.reconcile import reconcile
from nats3_dagster.errors import Nats3Error
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs

# A run's lock is taken again after this, and a run whose lock was free for so long is dead.
LOOK_S, FREE_S = 0.3, 3.0
Ticked = tuple[list[str], list[tuple[str, str]]]


def tick(home: str) -> Ticked:
    """One tick of the catalog sensor, on an instance in this folder: the assets that it wiped, and what it reported."""
    cursor = Path(home) / "cursor"
    with DagsterInstance.local_temp(home) as instance, Workspace(Settings.load()) as workspace:
        before = sensor_cursor.read(cursor.read_text() if cursor.exists() else None)
        found = reconcile(instance, workspace, before, PROJECT)
        for event in found.events:
            instance.report_runless_asset_event(event)
        cursor.write_text(sensor_cursor.write(found.heard))
        reported = [(event.asset_key.path[-1], str(event.partition)) for event in found.events]
        return [key.path[-1] for key in found.wiped], reported


def tick_until_idle(home: str) -> None:
    """Ticks until nothing is left to report."""
    for _ in range(20):
        if tick(home) == ([], []):
            return
    raise AssertionError("ticks go on reporting")


def shown(home: str, archive: str) -> tuple[set[str], set[str]]:
    """The hours of chunks and the sealed hours that Dagster shows."""
    with DagsterInstance.local_temp(home) as instance:
        known = [instance.get_materialized_partitions(AssetKey([archive, asset])) for asset in ("chunks", "sealed")]
    return known[0], known[1]


def retire(archive: str, hour: str) -> None:
    """Retire the chunks of an hour, as `--delete-chunks` does."""
    with Workspace(Settings.load()) as workspace:
        row = workspace.catalog.archives.get(archive)
        workspace.catalog.chunks.retire(row, [chunk.id for chunk in workspace.catalog.chunks.select(row, hours=[hour])])


def repair_proofs(archive: str) -> list[str]:
    """Write manifests again; the hours."""
    with Workspace(Settings.load()) as workspace:
        return [seal.hour for seal in repair_manifests(workspace, workspace.catalog.archives.get(archive))]


@op(config_schema={"archive": str})
def capture_archive(context: OpExecutionContext) -> None:
    jobs.capture(context.op_config["archive"])


@job(executor_def=run_executor)
def capturing() -> None:
    capture_archive()


def run_capture(home: str, archive: str) -> str:
    """A run of a capture, as the code server's process runs it; its error, empty for a success."""
    run_locks.LOOK_S = LOOK_S
    config = {"ops": {"capture_archive": {"config": {"archive": archive}}}}
    with DagsterInstance.from_config(home) as instance:
        done = execute_job(reconstructable(capturing), instance, run_config=config)
    return "" if done.success else str([event.message for event in done.all_events if event.is_failure])


def monitor(home: str, seconds: float) -> list[str]:
    """Run monitoring, as the daemon does it, for so long; the states of the runs at the end."""
    run_launcher.FREE_S = FREE_S
    until = time.monotonic() + seconds
    with DagsterInstance.from_config(home) as instance:
        while time.monotonic() < until:
            for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.STARTED])):
                with suppress(Nats3Error):  # the daemon logs it, and goes on
                    monitor_started_run(instance, None, record, logging.getLogger())  # type: ignore[arg-type]
            time.sleep(0.5)
        return [run.status.value for run in instance.get_runs()]


def dagster_home(home: str) -> None:
    """An instance with our launcher, on SQLite: Postgres comes and goes."""
    launcher = {"module": "nats3_dagster.defs.run_launcher", "class": "WatchingRunLauncher"}
    Path(home, "dagster.yaml").write_text(yaml.safe_dump({"run_launcher": launcher}))
