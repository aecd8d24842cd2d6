"""An asset that reads whole hours of an archive: it depends on the sealed ones."""

import json
import os
from collections import Counter

import pyarrow.parquet as pq
from dagster import (
    AssetExecutionContext,
    AssetKey,
    AssetRecordsFilter,
    HourlyPartitionsDefinition,
    MaterializeResult,
    asset,
)
from pyarrow.fs import S3FileSystem

SEALED = AssetKey(["acme", "orders", "sealed"])
# Hours as the archive writes them. Begin where yours does.
HOURS = HourlyPartitionsDefinition("2026-01-01-00:00", timezone="UTC", fmt="%Y-%m-%d-%H:00")


@asset(key_prefix="acme", deps=[SEALED], partitions_def=HOURS, group_name="nats", kinds={"parquet"})
def orders_by_subject(context: AssetExecutionContext) -> MaterializeResult:
    """How many messages each subject has in the hour."""
    chosen = AssetRecordsFilter(asset_key=SEALED, asset_partitions=[context.partition_key])
    record = context.instance.fetch_materializations(chosen, limit=1).records[0]
    assert record.asset_materialization is not None
    # The manifest lists the chunks that make up the hour: other objects may lie beside them.
    uri = str(record.asset_materialization.metadata["dagster/uri"].value)
    store = S3FileSystem(endpoint_override=os.environ.get("AWS_ENDPOINT_URL_S3"))
    with store.open_input_stream(uri.removeprefix("s3://"), compression="zstd") as stream:
        manifest = json.loads(stream.read())
    counts: Counter[str] = Counter()
    for key in [chunk["key"] for part in manifest["parts"] for chunk in part["chunks"]]:
        table = pq.read_table(f"{manifest['bucket']}/{key}", filesystem=store, columns=["subject"], partitioning=None)
        for row in table.column("subject").value_counts().to_pylist():
            counts[row["values"]] += row["counts"]
    return MaterializeResult(metadata={"messages": counts.total(), **counts})
