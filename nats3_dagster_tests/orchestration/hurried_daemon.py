"""`dagster-daemon`, which looks every second or two where it would every 5, 30 and 60."""

from dagster._core.run_coordinator.queued_run_coordinator import QueuedRunCoordinator
from dagster._daemon import controller, sensor
from dagster._daemon.cli import main

if __name__ == "__main__":
    controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 2  # backfills
    controller.RELOAD_WORKSPACE_INTERVAL = 2
    controller.THREAD_CHECK_INTERVAL = 1  # the loop that reloads the workspace
    sensor.MIN_INTERVAL_LOOP_TIME = 1
    QueuedRunCoordinator.dequeue_interval_seconds = property(lambda _: 1)  # type: ignore[assignment]
    main()
