"""Hours as partitions: which there are, and which a run is for.

The rule kept here: a partition key is an hour of `nats3_dagster.hours`, in UTC, and a run for an hour that does not
exist says so before anything starts.
"""

from datetime import UTC, datetime

from dagster import AssetExecutionContext, HourlyPartitionsDefinition

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import SECOND_NS, hour_of

FORMAT = "%Y-%m-%d-%H:00"


def hours_from(start_ns: int) -> HourlyPartitionsDefinition:
    """All hours from the one that holds `start_ns` to the current one, which is open."""
    start = datetime.fromtimestamp(start_ns // SECOND_NS, UTC).replace(minute=0, second=0)
    return HourlyPartitionsDefinition(start, timezone="UTC", fmt=FORMAT, end_offset=1)


def hours_of_run(context: AssetExecutionContext, partitions: HourlyPartitionsDefinition, archive: str) -> list[str]:
    """The hours this run is for, ascending. Raises OperatorError when it has none, or one that does not exist."""
    if not (context.has_partition_key or context.has_partition_key_range):
        now = hour_of(int(datetime.now(UTC).timestamp()) * SECOND_NS)
        raise OperatorError(
            "This run is for no hour", f'Choose hours in the UI, or add --tags \'{{"dagster/partition": "{now}"}}\''
        )
    asked = context.partition_key_range
    for hour in (asked.start, asked.end):
        if not partitions.has_partition_key(hour):
            first, last = partitions.get_first_partition_key(), partitions.get_last_partition_key()
            raise OperatorError(
                f"Archive {archive} has no hour {hour!r}", f"It has {first} to {last}, written YYYY-MM-DD-HH:00 in UTC"
            )
    if asked.start > asked.end:
        raise OperatorError(f"The hours {asked.start} to {asked.end} are none", "Give the earlier one as the start")
    return list(partitions.get_partition_keys_in_range(asked))
