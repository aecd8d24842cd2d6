"""Metrics of what is made of archives: Iceberg tables and exports. Their names, labels and units are an interface."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from nats3_dagster.archive.outputs import Outputs
from nats3_dagster.model.archive_table import ArchiveTable
from nats3_dagster.model.exported import ExportLag


def output_metrics(outputs: Outputs) -> Iterator[Metric]:
    """Of the archives that are not deleted: names are free then, and another archive may have one."""
    yield from _tables(known for known in outputs.tables if not known.archive_deleted)
    yield from _exports(outputs.exports)


def _tables(tables: Iterable[ArchiveTable]) -> Iterator[Metric]:
    lag = _gauge("nats3_table_lag_chunks", "Chunks that the table lacks, or lists and should not.")
    failing = _gauge("nats3_table_failing", "Whether the newest try to sync the table failed.")
    changed = _gauge("nats3_table_changed", "Whether another program had changed the table when it was last asked.")
    asked = _gauge(
        "nats3_table_last_look_timestamp_seconds", "When the Iceberg catalog was last asked for the table's snapshot.",
        unit="seconds",
    )  # fmt: skip
    synced = _gauge(
        "nats3_table_last_sync_timestamp_seconds", "When the table was last made equal to its archive.", unit="seconds"
    )
    for known in tables:
        lag.add_metric([known.archive], known.lacking + known.surplus)
        failing.add_metric([known.archive], known.error is not None)
        changed.add_metric([known.archive], known.changed is not None)
        if known.seen_at is not None:
            asked.add_metric([known.archive], known.seen_at.timestamp())
        if known.synced_at is not None:
            synced.add_metric([known.archive], known.synced_at.timestamp())
    yield from (lag, failing, changed, asked, synced)


def _exports(exports: Iterable[ExportLag]) -> Iterator[Metric]:
    hours = _gauge(
        "nats3_export_waiting_partitions", "Sealed hours that are not exported as they are; of failed ones the newest "
        "attempt failed; retired ones lost chunks after a replay before they were exported.", "export", "state",
    )  # fmt: skip
    failed = _gauge(
        "nats3_export_last_failure_timestamp_seconds", "When an hour last failed that has not succeeded since.",
        "export", unit="seconds",
    )  # fmt: skip
    undecoded = _gauge(
        "nats3_export_undecoded_messages", "Messages in dead letters.", "export", unit="messages"
    )
    for one in exports:
        hours.add_metric([one.archive, one.export, "due"], one.due)
        hours.add_metric([one.archive, one.export, "failed"], one.failed)
        hours.add_metric([one.archive, one.export, "retired"], one.retired)
        if one.failed_at is not None:
            failed.add_metric([one.archive, one.export], one.failed_at.timestamp())
        undecoded.add_metric([one.archive, one.export], one.undecoded)
    yield from (hours, failed, undecoded)


def _gauge(name: str, text: str, *labels: str, unit: str = "") -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=["archive", *labels], unit=unit)
