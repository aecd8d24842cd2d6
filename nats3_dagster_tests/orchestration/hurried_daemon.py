"""`dagster-daemon`, which waits a third of the time, or less. Each look costs: sooner than this, a test takes longer."""

from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._daemon import controller
from dagster._daemon.cli import main

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 5  # backfills
    controller.RELOAD_WORKSPACE_INTERVAL = 15
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda _: 1)  # type: ignore[assignment]
    main()
