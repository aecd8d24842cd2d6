"""The sweep sensor: removes the objects of chunks that were deleted after their replay, when their grace has passed."""

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SkipReason, sensor

from nats3_dagster.defs.failures import tick_failures
from nats3_dagster.defs.keys import PROJECT, Naming
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

INTERVAL_S = 300
# Objects a tick: at 20 ms each it takes ten seconds of the minute that Dagster gives it.
AT_ONCE = 500


def sweep_sensor(naming: Naming = PROJECT) -> SensorDefinition:
    """`sweep_sensor`: one for all archives, on unless switched off in the UI."""

    @sensor(
        name=naming.name("sweep_sensor"), minimum_interval_seconds=INTERVAL_S,
        default_status=DefaultSensorStatus.RUNNING,
        description="Removes the objects of chunks that were deleted after their replay, once NATS3_DELETE_GRACE "
        "seconds have passed. It starts no runs.",
    )  # fmt: skip
    def evaluate(_context: SensorEvaluationContext) -> SkipReason:
        # It imports nats, 0.1 s of each load of the definitions.
        from nats3_dagster.archive.remove import sweep

        with tick_failures(naming), Workspace(Settings.load()) as workspace:
            swept = sweep(workspace, AT_ONCE)
        if not swept.objects:
            return SkipReason("No object waits to be removed whose grace has passed")
        return SkipReason(f"Removed {swept.objects:,} objects with {swept.bytes:,} bytes")

    return evaluate
