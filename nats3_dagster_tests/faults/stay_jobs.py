"""What the processes of stay_faults do: a run that stays for the next captures, without Dagster."""

import time

from nats3_dagster.archive.captures import stay as staying
from nats3_dagster.archive.lifecycle.change import change
from nats3_dagster.hours import hour_of
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.faults import jobs

# A capture is due after a second, and the run ends after two without a message.
MAX_AGE_S, IDLE_S = 1, 2.0


def stay(archive: str) -> int:
    """Captures all, and then what becomes due, as the sensor's run does; the number of captures."""
    staying.IDLE_S, staying.LOOK_S = IDLE_S, (0.1, 0.2)
    settings = Settings.load()
    with Workspace(settings) as workspace:
        change(workspace, archive, {"max_age_s": MAX_AGE_S})
        jobs.capture(archive)
        run = staying.Stay(workspace.catalog.archives.get(archive), hour_of(time.time_ns()), lambda: False)
        captures = 1
        while run.is_due(workspace):
            jobs.capture_hours(jobs.SESSION, settings, archive, [run.hour])
            captures += 1
        return captures
