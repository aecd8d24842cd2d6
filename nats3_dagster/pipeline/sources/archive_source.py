"""The data source `nats3`: an archive by its name."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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
from nats3_dagster.pipeline.sources.archive_reader import ArchiveRead, ArchiveReader
from nats3_dagster.pipeline.sources.columns import ColumnTypes, check_names, check_schema
from nats3_dagster.pipeline.sources.options import (
    FILTERS,
    FLAG,
    NAMES,
    TEXT,
    TIME,
    Kind,
    Option,
    choice,
    not_given,
    parse_options,
)
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

SOURCE = "nats3"
PARTITION_BYTES = 64 << 20


def _size(text: str) -> int:
    size = parse_size(text)
    if size < 1:
        raise ValueError
    return size


def _hours(text: str) -> tuple[str, ...]:
    return Selection.parse(hours=(part.strip() for part in text.split(","))).hours


def _sequences(text: str) -> str:
    Selection.parse(sequences=text)
    return text


HOURS = Kind("names", _hours, "hours YYYY-MM-DD-HH:00 in UTC, joined by commas")
SEQUENCES = Kind("text", _sequences, "sequences like 1000-2000, both included, or one")
SIZE = Kind("size", _size, "a size from 1 byte on, like 64MiB")
OPTIONS = (
    Option("archive", TEXT, "required", "The archive's name."),
    Option("hours", HOURS, "all", "Hours `YYYY-MM-DD-HH:00` in UTC, joined by commas."),
    Option("from", TIME, "the first", "The earliest store time."),
    Option("to", TIME, "the last", "The store time before which messages are read."),
    Option("sequences", SEQUENCES, "all", "Stream sequences `A-B`, both included, or one."),
    Option("subjects", FILTERS, "all", "Subject filters, joined by commas: one of them must match."),
    Option("headers", choice("map", "binary"), "map", "Headers as a map, or the block as it was on the wire."),
    Option("columns", NAMES, "all", "The columns that are read, joined by commas; others are not fetched into Spark."),
    Option("failOnDataLoss", FLAG, "true", "Whether a read of lost or uncaptured sequences is an error."),
    Option("partitionBytes", SIZE, "64MiB", "Messages that a partition has; one chunk is never divided."),
)
_MAP = MapType(StringType(), ArrayType(StringType()))
# The columns, in order. `headers` is binary with the option `headers` so.
_COLUMNS: ColumnTypes = {
    "seq": (LongType(),),
    "time": (TimestampType(),),
    "time_ns": (LongType(),),
    "subject": (StringType(),),
    "subject_bytes": (BinaryType(),),
    "hour": (StringType(),),
    "headers": (_MAP,),
    "data": (BinaryType(),),
    "stream_created_ns": (LongType(),),
}


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
    | stream_created_ns | bigint | When the stream was made, in ns since 1970; each incarnation has its own sequences. |

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
    | failOnDataLoss | true or false | true | Whether a read of lost or uncaptured sequences is an error. |
    | partitionBytes | size | 64MiB | Messages that a partition has; one chunk is never divided. |

    Where the catalog, the store and NATS are, and how to log in there, is said by the driver's settings. The driver
    alone asks the catalog; the executors get the store's login with their tasks, and ask the store alone.

    One `load()` reads one state of the archive: that of its first query. Options select what is read; filters on
    the frame are applied by Spark, after all of the selection was read.
    """

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> StructType:
        """Raises OperatorError if an option is wrong or there is no such archive, CatalogError."""
        values = self._values()
        with Workspace(Settings.load()) as workspace:
            workspace.catalog.archives.get(values["archive"])
        columns = _columns(values)
        names = values.get("columns", tuple(columns))
        return StructType([StructField(name, columns[name][0]) for name in names])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises OperatorError if an option is wrong, or a column of a schema that the user gave."""
        values = self._values()
        check_schema(SOURCE, schema, _columns(values))
        read = ArchiveRead(
            values["archive"],
            _selection(values),
            values.get("failOnDataLoss", True),
            values.get("partitionBytes", PARTITION_BYTES),
        )
        return ArchiveReader(read, Settings.load(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Raises OperatorError: Spark asks when the query starts, and not before."""
        raise OperatorError(
            "An archive is read as a batch, and not as a stream",
            'Read the stream: spark.readStream.format("jetstream"); or the archive with spark.read',
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise OperatorError(
            "An archive cannot be written by Spark", "Write to the stream: format jetstream. Captures archive it"
        )

    def _values(self) -> dict[str, Any]:
        values = parse_options(SOURCE, OPTIONS, self.options)
        if "archive" not in values:
            raise not_given(SOURCE, "archive")
        check_names(SOURCE, values.get("columns", ()), _COLUMNS)
        try:
            _selection(values)
        except OperatorError as error:  # each of them is right, and they do not fit
            what = f"The options from and to of {SOURCE}: {error.what}"
            raise OperatorError(what, error.hint, field="from") from None
        return values


def _selection(values: Mapping[str, Any]) -> Selection:
    return Selection.parse(
        hours=values.get("hours"),
        from_time=values.get("from"),
        to_time=values.get("to"),
        sequences=values.get("sequences"),
        subjects=values.get("subjects"),
    )


def _columns(values: Mapping[str, Any]) -> ColumnTypes:
    return {**_COLUMNS, "headers": (BinaryType(),)} if values.get("headers") == "binary" else _COLUMNS
