"""`dagster-daemon` with shorter waits. Not as short as can be: each look has its cost, and a test would take longer."""

from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._daemon import controller
from dagster._daemon.cli import main

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 5  # backfills
    controller.RELOAD_WORKSPACE_INTERVAL = 15
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda _: 1)  # type: ignore[assignment]
    main()
