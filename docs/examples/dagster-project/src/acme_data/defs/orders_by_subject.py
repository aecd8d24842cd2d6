"""Assets that read an archive as data frames: they depend on its sealed hours."""

import polars as pl
import pyarrow as pa
from dagster import (
    AssetExecutionContext,
    AssetIn,
    AssetKey,
    DailyPartitionsDefinition,
    HourlyPartitionsDefinition,
    MaterializeResult,
    MultiPartitionKey,
    MultiPartitionsDefinition,
    StaticPartitionsDefinition,
    TimeWindowPartitionMapping,
    TimeWindowPartitionsDefinition,
    asset,
)

SEALED = AssetKey(["acme", "orders", "sealed"])
# Hours as the archive writes them. Begin where yours does.
HOURS = HourlyPartitionsDefinition("2026-01-01-00:00", timezone="UTC", fmt="%Y-%m-%d-%H:00")
DAYS = DailyPartitionsDefinition("2026-01-01")
SHIFTS = TimeWindowPartitionsDefinition(cron_schedule="0 6,14,22 * * *", start="2026-01-01-06", fmt="%Y-%m-%d-%H")
# The archive begins within the first day.
WITHIN = TimeWindowPartitionMapping(allow_nonexistent_upstream_partitions=True)


@asset(key_prefix="acme", ins={"orders": AssetIn(SEALED)}, partitions_def=HOURS, group_name="nats")
def orders_by_subject(orders: pl.DataFrame) -> MaterializeResult:
    """How many messages each subject has in the hour."""
    counts = dict(orders["subject"].value_counts().iter_rows())
    return MaterializeResult(metadata={"messages": orders.height, **counts})


@asset(
    key_prefix="acme",
    # Only these columns and subjects are in memory.
    ins={
        "orders": AssetIn(
            SEALED,
            partition_mapping=WITHIN,
            metadata={"nats3/columns": ["subject", "time"], "nats3/subjects": ["orders.1"]},
        )
    },
    partitions_def=DAYS,
    group_name="nats",
)
def orders_of_day(orders: pa.Table) -> MaterializeResult:
    """Orders of one kind in the 24 hours of a day."""
    return MaterializeResult(metadata={"messages": orders.num_rows})


@asset(
    key_prefix="acme",
    ins={"orders": AssetIn(SEALED, partition_mapping=WITHIN)},
    partitions_def=SHIFTS,
    group_name="nats",
)
def orders_of_shift(orders: pl.DataFrame) -> MaterializeResult:
    """The orders of a shift of eight hours."""
    return MaterializeResult(metadata={"messages": orders.height, "hours": orders["hour"].n_unique()})


@asset(
    key_prefix="acme",
    ins={
        "orders": AssetIn(
            SEALED,
            partition_mapping=TimeWindowPartitionMapping(start_offset=-1, allow_nonexistent_upstream_partitions=True),
        )
    },
    partitions_def=HOURS,
    group_name="nats",
)
def orders_with_hour_before(orders: pl.DataFrame) -> MaterializeResult:
    """The orders of an hour, and of the one before it."""
    return MaterializeResult(metadata={"messages": orders.height})


@asset(
    key_prefix="acme",
    ins={"orders": AssetIn(SEALED)},
    partitions_def=MultiPartitionsDefinition({"hour": HOURS, "shop": StaticPartitionsDefinition(["0", "1"])}),
    group_name="nats",
)
def orders_of_shop(context: AssetExecutionContext, orders: pl.DataFrame) -> MaterializeResult:
    """The orders of an hour, for each shop."""
    key = context.partition_key
    assert isinstance(key, MultiPartitionKey)
    shop = key.keys_by_dimension["shop"]
    return MaterializeResult(metadata={"messages": orders.filter(pl.col("subject") == f"orders.{shop}").height})
