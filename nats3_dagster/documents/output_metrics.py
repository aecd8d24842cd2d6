"""The metrics of an archive's outputs: its table and its exports. Names, labels and units are an interface."""

from nats3_dagster.documents.metric_table import GAUGE, Row, Table
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.model.export import ExportLag

TABLES = Table[ArchiveTable](
    labels=("archive",),
    label_values=lambda known: (known.archive,),
    rows=(
        Row(
            "nats3_table_lag_chunks",
            "Chunks that are missing in the table, or that it lists and should not.",
            GAUGE,
            lambda known: known.lacking + known.surplus,
        ),
        Row(
            "nats3_table_failing",
            "Whether the newest try to sync the table failed.",
            GAUGE,
            lambda known: known.error is not None,
        ),
        Row(
            "nats3_table_changed",
            "Whether another program had changed the table when it was last asked.",
            GAUGE,
            lambda known: known.changed is not None,
        ),
        Row(
            "nats3_table_last_look_timestamp_seconds",
            "When the Iceberg catalog was last asked for the table's snapshot.",
            GAUGE,
            lambda known: known.seen_at and known.seen_at.timestamp(),
        ),
        Row(
            "nats3_table_last_sync_timestamp_seconds",
            "When the table was last made equal to its archive.",
            GAUGE,
            lambda known: known.synced_at and known.synced_at.timestamp(),
        ),
    ),
)

EXPORTS = Table[ExportLag](
    labels=("archive", "export"),
    label_values=lambda one: (one.archive, one.export),
    rows=(
        Row(
            "nats3_export_waiting_partitions",
            "Sealed hours that are not exported as they are; of failed ones the newest "
            "attempt failed; retired ones lost chunks after a replay before they were exported.",
            GAUGE,
            lambda one: {("due",): one.due, ("failed",): one.failed, ("retired",): one.retired},
            labels=("state",),
        ),
        Row(
            "nats3_export_last_failure_timestamp_seconds",
            "When an hour last failed that has not succeeded since.",
            GAUGE,
            lambda one: one.failed_at and one.failed_at.timestamp(),
        ),
        Row("nats3_export_undecoded_messages", "Messages in dead letters.", GAUGE, lambda one: one.undecoded),
    ),
)
