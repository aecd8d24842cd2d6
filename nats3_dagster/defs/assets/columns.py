"""Columns of an archive's assets, and from which columns upstream they come."""

from collections.abc import Mapping

from dagster import AssetKey, TableColumn, TableColumnConstraints, TableColumnDep, TableColumnLineage, TableSchema

from nats3_dagster.model import ExportSpec

# chunks.schema says the same in Arrow's words; a test holds them together, for importing pyarrow costs each load 0.1 s.
_ALWAYS = TableColumnConstraints(nullable=False)
COLUMNS = TableSchema(
    columns=[
        TableColumn("seq", "int64", "Stream sequence, ascending", _ALWAYS),
        TableColumn("time", "timestamp[us, tz=UTC]", "Store time, to the microsecond", _ALWAYS),
        TableColumn("time_ns", "int64", "Store time, nanoseconds since 1970", _ALWAYS),
        TableColumn("subject", "string", "NATS subject; %XX for bytes that are not UTF-8", _ALWAYS),
        TableColumn("subject_bytes", "binary", "The subject's bytes where it is not UTF-8, else null"),
        TableColumn("headers", "binary", "Header block as on the wire, null when the message has none"),
        TableColumn("data", "binary", "Payload", _ALWAYS),
    ]
)
# Beside those of the chunks: what each chunk is a partition of (tables.layout.schema, which a test compares).
TABLE_COLUMNS = TableSchema(
    columns=[
        *COLUMNS.columns,
        TableColumn("hour", "string", "The chunk's hour in UTC, YYYY-MM-DD-HH:00"),
        TableColumn(
            "incarnation",
            "string",
            "When the stream was created: one that was made again has the same sequences once more",
        ),
    ]
)
_BY_NAME = {column.name: column for column in COLUMNS.columns}
# The column of the payload by the decoder, where the decoder does not make columns of what is in it.
_PAYLOADS = {"raw": "data", "text": "text"}


def export_columns(spec: ExportSpec) -> TableSchema | None:
    """The columns of an export's files; None where its decoder makes them of the payloads."""
    if spec.decode not in _PAYLOADS:
        return None
    times = ["time", "time_ns"] if spec.format == "parquet" else ["time"]
    columns = [_BY_NAME[name] for name in ("subject", "subject_bytes", "seq", *times)]
    if spec.format != "parquet":
        columns = [TableColumn(c.name, "string" if c.name == "time" else c.type, c.description) for c in columns]
    payload = _PAYLOADS[spec.decode]
    kind = "binary" if payload == "data" and spec.format == "parquet" else "string"
    return TableSchema(columns=[*columns, TableColumn(payload, kind, "Payload", _ALWAYS)])


def lineage(schema: TableSchema, upstream: AssetKey, renamed: Mapping[str, str] | None = None) -> TableColumnLineage:
    """The lineage of these columns: each comes from the one of its name, or from what `renamed` gives for it."""
    sources = renamed or {}
    return TableColumnLineage(
        {column.name: [TableColumnDep(upstream, sources.get(column.name, column.name))] for column in schema.columns}
    )


def export_lineage(spec: ExportSpec, upstream: AssetKey) -> TableColumnLineage | None:
    """The lineage of an export's columns; None where they are not known."""
    schema = export_columns(spec)
    return None if schema is None else lineage(schema, upstream, {"text": "data"})
