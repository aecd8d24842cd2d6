"""The data source `nats3`: an archive by its name."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Selection
from nats3_dagster.model.quantities import parse_size
from nats3_dagster.pipeline.sources.archive_reader import ArchiveRead, ArchiveReader, FilteringArchiveReader
from nats3_dagster.pipeline.sources.options import (
    FILTERS,
    FLAG,
    NAMES,
    PUSH_FILTERS,
    TEXT,
    TIME,
    Kind,
    Option,
    choice,
    parse_options,
)
from nats3_dagster.settings import Settings
from nats3_dagster.settings.names import nearest
from nats3_dagster.workspace import Workspace

PARTITION_BYTES = 64 << 20


def _size(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise ValueError
    return size


SIZE = Kind("size", _size, "a size from 1 byte on, like 64MiB")
OPTIONS = (
    Option("archive", TEXT, "required", "The archive's name."),
    Option("hours", NAMES, "all", "Hours `YYYY-MM-DD-HH:00` in UTC, joined by commas."),
    Option("from", TIME, "the first", "The earliest store time."),
    Option("to", TIME, "the last", "The store time before which messages are read."),
    Option("sequences", TEXT, "all", "Stream sequences `A-B`, both included, or one."),
    Option("subjects", FILTERS, "all", "Subject filters, joined by commas: one of them must match."),
    Option("headers", choice("map", "binary"), "map", "Headers as a map, or the block as it was on the wire."),
    Option("columns", NAMES, "all", "The columns that are read, joined by commas; others are not fetched into Spark."),
    PUSH_FILTERS,
    Option("failOnDataLoss", FLAG, "true", "Whether a read of lost or uncaptured sequences is an error."),
    Option("partitionBytes", SIZE, "64MiB", "Messages that a partition has; one chunk is never divided."),
)
_MAP = MapType(StringType(), ArrayType(StringType()))
# The columns, in order. `headers` is binary with the option `headers` so.
_COLUMNS: dict[str, DataType] = {
    "seq": LongType(), "time": TimestampType(), "time_ns": LongType(), "subject": StringType(),
    "subject_bytes": BinaryType(), "hour": StringType(), "headers": _MAP, "data": BinaryType(),
    "stream_created_ns": LongType(),
}  # fmt: skip


class Nats3DataSource(DataSource):
    """`spark.read.format("nats3").option("archive", "orders").load()`: the messages of an archive.

    | column | type | content |
    |---|---|---|
    | seq | bigint | The stream sequence. |
    | time | timestamp | The store time, cut to microseconds. |
    | time_ns | bigint | The store time in nanoseconds since 1970. |
    | subject | string | The subject; one that is not UTF-8 with `%XX` for each bad byte. |
    | subject_bytes | binary | The subject's bytes where it is not UTF-8, else null. |
    | hour | string | The hour `YYYY-MM-DD-HH:00` in UTC under which it is archived. |
    | headers | map<string,array<string>> | The headers, null without any; with `headers=binary` the block itself. |
    | data | binary | The payload. |
    | stream_created_ns | bigint | When the stream was made, in nanoseconds since 1970: sequences begin anew with it. |

    | option | value | default | meaning |
    |---|---|---|---|
    | archive | text | required | The archive's name. |
    | hours | names | all | Hours `YYYY-MM-DD-HH:00` in UTC, joined by commas. |
    | from | time | the first | The earliest store time. |
    | to | time | the last | The store time before which messages are read. |
    | sequences | text | all | Stream sequences `A-B`, both included, or one. |
    | subjects | subject filters | all | Subject filters, joined by commas: one of them must match. |
    | headers | map or binary | map | Headers as a map, or the block as it was on the wire. |
    | columns | names | all | The columns that are read, joined by commas; others are not fetched into Spark. |
    | pushFilters | true or false | false | Whether filters on the frame narrow the read; for a frame used once. |
    | failOnDataLoss | true or false | true | Whether a read of lost or uncaptured sequences is an error. |
    | partitionBytes | size | 64MiB | Messages that a partition has; one chunk is never divided. |

    Where the catalog, the store and NATS are, and how to log in there, is said by the driver's settings. The driver
    alone asks the catalog; the executors get the store's login with their tasks, and ask the store alone.

    One `load()` reads one state of the archive: that of its first query. With pushFilters, of the columns seq, time,
    time_ns, subject and hour, and in sessions with `spark.sql.python.filterPushdown.enabled`, load the archive again
    for each query: PySpark 4.3 plans the queries of one frame once, and what the filters of one leave is all that
    another gets.
    """

    @classmethod
    def name(cls) -> str:
        return "nats3"

    def schema(self) -> StructType:
        """Raises OperatorError if an option is wrong or there is no such archive, CatalogError."""
        values = self._values()
        with Workspace(Settings.load()) as workspace:
            workspace.catalog.archives.get(values["archive"])
        columns = _columns(values)
        for name in (names := values.get("columns", tuple(columns))):
            if name not in columns or names.count(name) > 1:
                near = nearest(name, columns)
                known = name in columns
                what = f"The column {name} is named twice" if known else f"{name!r} is not a column of nats3"
                raise OperatorError(
                    what,
                    f"Did you mean {near}?" if near and near != name else f"There are {', '.join(columns)}",
                    field="columns",
                )
        return StructType([StructField(name, columns[name]) for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises OperatorError if an option is wrong, or a column of a schema that the user gave."""
        values = self._values()
        columns = _columns(values)
        for field in schema.fields:
            if field.name not in columns:
                raise OperatorError(
                    f"nats3 has no column {field.name!r}", f"Leave it out of the schema: there are {', '.join(columns)}"
                )
            if _ddl(field.dataType) != (known := _ddl(columns[field.name])):
                raise OperatorError(
                    f"The column {field.name} of nats3 is {known}, and the schema says {_ddl(field.dataType)}",
                    "Give it that type in the schema, and cast it afterwards",
                )
        read = ArchiveRead(
            values["archive"], _selection(values), values.get("failOnDataLoss", True),
            values.get("partitionBytes", PARTITION_BYTES),
        )  # fmt: skip
        kind = FilteringArchiveReader if values.get("pushFilters") else ArchiveReader
        return kind(read, Settings.load(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise OperatorError(
            "An archive cannot be written by Spark", "Write to the stream: format jetstream. Captures archive it"
        )

    def _values(self) -> dict[str, Any]:
        values = parse_options("nats3", OPTIONS, self.options)
        if "archive" not in values:
            raise OperatorError("nats3 reads an archive, and none is named", "Give the option archive", field="archive")
        _selection(values)
        return values


def _selection(values: Mapping[str, Any]) -> Selection:
    return Selection.parse(
        hours=values.get("hours"), from_time=values.get("from"), to_time=values.get("to"),
        sequences=values.get("sequences"), subjects=values.get("subjects"),
    )  # fmt: skip


def _columns(values: Mapping[str, Any]) -> dict[str, DataType]:
    return _COLUMNS | ({"headers": BinaryType()} if values.get("headers") == "binary" else {})


def _ddl(type_: DataType) -> str:
    """The type without whether it takes nulls."""
    return type_.simpleString()
