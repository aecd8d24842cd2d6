"""What a code server loads in tests: the project's definitions, with all sensors asked every 10 s, and runs that are
forked from a process that has imported what they need.

Dagster starts a run as a new process, which takes 2.5 s of processor time to import all that again. So do the code
servers of `nats3 dev` and of the images, which other tests start.
"""

from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess, SpawnContext

from nats3_dagster.defs.sensors import catalog_sensor, sensors

sensors.CAPTURE_INTERVAL_S = sensors.SEAL_INTERVAL_S = catalog_sensor.INTERVAL_S = 10

SpawnContext.Process = ForkServerProcess  # type: ignore[assignment, misc]
# Not the definitions themselves: they are as the catalog is when a run begins.
get_context("forkserver").set_forkserver_preload(
    ["dagster._grpc.impl", "dagster_postgres", "nats3_dagster.defs.project.project"]
)

from nats3_dagster.definitions import defs as defs  # noqa: E402  # after the intervals are set
