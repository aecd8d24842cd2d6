"""Partitions: the hours of an archive, and those that a run is for.

A partition key is an hour of `nats3_dagster.hours`, in UTC.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from dagster import AssetExecutionContext, HourlyPartitionsDefinition

from nats3_dagster.defs.instance.internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from nats3_dagster.defs.keys import EARLIER_TAG
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start

FORMAT = "%Y-%m-%d-%H:00"


def hours_from(start_ns: int) -> HourlyPartitionsDefinition:
    """All hours from the one that holds `start_ns` to the current one, which is open."""
    return _hours(start_ns, end_offset=1)


def ended_hours_from(start_ns: int) -> HourlyPartitionsDefinition:
    """All hours from the one that holds `start_ns` to the last one that has ended; none in the first hour."""
    return _hours(start_ns, end_offset=0)


def _hours(start_ns: int, end_offset: int) -> HourlyPartitionsDefinition:
    start = datetime.fromtimestamp(start_ns // SECOND_NS, UTC).replace(minute=0, second=0)
    return HourlyPartitionsDefinition(start, timezone="UTC", fmt=FORMAT, end_offset=end_offset)


def blocks(hours: Sequence[str], at_most: int) -> list[tuple[str, str]]:
    """The first and the last of each row of adjacent hours, `at_most` long: of ascending ones."""
    found: list[tuple[str, str]] = []
    for hour in hours:
        start = hour_start(hour)
        if (
            found
            and start - hour_start(found[-1][1]) == HOUR_NS
            and (start - hour_start(found[-1][0]) < at_most * HOUR_NS)
        ):
            found[-1] = (found[-1][0], hour)
        else:
            found.append((hour, hour))
    return found


def range_tags(first: str, last: str) -> dict[str, str]:
    """Tags of a run for these hours and all between."""
    return {ASSET_PARTITION_RANGE_START_TAG: first, ASSET_PARTITION_RANGE_END_TAG: last}


def earlier_hours(tags: Mapping[str, str]) -> list[str]:
    """The hours before the first partition that a run of these tags is for as well: they have messages, by a clock that
    was wrong, and are in the catalog alone."""
    return [hour for hour in tags.get(EARLIER_TAG, "").split(",") if hour]


def hours_of_run(context: AssetExecutionContext, partitions: HourlyPartitionsDefinition, archive: str) -> list[str]:
    """The hours this run is for, ascending. Raises OperatorError if there is none, or one that does not exist."""
    if not (context.has_partition_key or context.has_partition_key_range):
        now = hour_of(int(datetime.now(UTC).timestamp()) * SECOND_NS)
        raise OperatorError(
            "This run is for no hour",
            f"Choose hours where it is launched; a run of a shell names its hour by the tag dagster/partition: {now}",
        )
    chosen = context.partition_key_range
    if partitions.get_last_partition_key() is None:
        raise OperatorError(f"No hour of archive {archive} has ended yet", "Wait for the end of this one")
    for hour in (chosen.start, chosen.end):
        if not partitions.has_partition_key(hour):
            first, last = partitions.get_first_partition_key(), partitions.get_last_partition_key()
            raise OperatorError(
                f"Archive {archive} has no hour {hour!r}", f"It has {first} to {last}, written YYYY-MM-DD-HH:00 in UTC"
            )
    if chosen.start > chosen.end:
        raise OperatorError(
            f"The hours from {chosen.start} to {chosen.end} end before they begin", "Give the earlier one as the start"
        )
    return list(partitions.get_partition_keys_in_range(chosen))
