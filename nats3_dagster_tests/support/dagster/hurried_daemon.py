"""`dagster-daemon` with shorter waits. Not as short as can be: each look has its cost, and a test would take longer."""

from dagster import DagsterInstance
from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._daemon import controller
from dagster._daemon.cli import main

from nats3_dagster.defs import run_launcher

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 5  # backfills
    controller.RELOAD_WORKSPACE_INTERVAL = 15
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda _: 1)  # type: ignore[assignment]
    # A lock that was lost is taken again within 5 s.
    DagsterInstance.run_monitoring_poll_interval_seconds = property(lambda _: 3)  # type: ignore[assignment]
    run_launcher.FREE_S = 12.0
    main()
