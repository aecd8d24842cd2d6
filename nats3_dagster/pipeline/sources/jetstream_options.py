"""Options of `format("jetstream")` for reading, and the columns that it gives."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.pipeline.sources.columns import check_names
from nats3_dagster.pipeline.sources.connection import CONNECTION
from nats3_dagster.pipeline.sources.options import (
    COUNT,
    FILTERS,
    FLAG,
    NAMES,
    SEQUENCE,
    STREAM,
    TIME,
    Kind,
    Option,
    choice,
    not_given,
    parse_options,
)


def _starting(text: str) -> str:
    text = text.strip()
    if text.lower() in ("earliest", "latest"):
        return text.lower()
    if not (text.isascii() and text.isdecimal()):
        parse_time(text)
    elif not 1 <= int(text) < 1 << 63:
        raise ValueError
    return text


STARTING = Kind(
    "earliest, latest, sequence or time", _starting, "earliest, latest, a sequence from 1, or a time like -2h"
)

SOURCE = "jetstream"
MESSAGES_PER_PARTITION = 1_000_000
# Of both reads.
READ = (
    Option("stream", STREAM, "required", "The stream's name."),
    Option("subjects", FILTERS, "all", "Messages whose subject one of these filters takes."),
    Option("columns", NAMES, "all but size", "The columns, of those below, in this order."),
    Option("headers", choice("map", "binary", "none"), "map", "The form of the column headers."),
    Option("failOnDataLoss", FLAG, "true", "Whether what the stream no longer has of the range is an error."),
    Option("numPartitions", COUNT, "none", "Into how many partitions the sequences are cut."),
    Option(
        "messagesPerPartition", COUNT, "1000000", "Sequences that a partition has at most; instead of numPartitions."
    ),
)
# Of `spark.read` alone.
BATCH = (
    Option("startSeq", SEQUENCE, "the stream's first", "The first sequence."),
    Option("endSeq", SEQUENCE, "the stream's last when it is loaded", "The last sequence, included."),
    Option("startTime", TIME, "none", "Begin at the first message stored then or later; instead of startSeq."),
    Option("endTime", TIME, "none", "End before the first message stored then or later; instead of endSeq."),
)
# Of `spark.readStream` alone.
STREAMING = (
    Option("startingOffsets", STARTING, "earliest", "Where a new query begins."),
    Option("maxMessagesPerTrigger", COUNT, "no limit", "How many sequences a batch has at most."),
)
HEADER_MAP = MapType(StringType(), ArrayType(StringType()))
# The types that each column may have; the first one is the default.
COLUMNS: Mapping[str, tuple[DataType, ...]] = {
    "seq": (LongType(),),
    "time": (TimestampType(),),
    "time_ns": (LongType(),),
    "subject": (StringType(),),
    "headers": (HEADER_MAP, BinaryType()),
    "data": (BinaryType(),),
    "size": (IntegerType(),),
}


def batch_values(options: Mapping[str, str]) -> dict[str, Any]:
    """The values of the options of `spark.read`. Raises OperatorError."""
    return _checked(parse_options(f"spark.read.format({SOURCE!r})", (*READ, *BATCH, *CONNECTION), options))


def streaming_values(options: Mapping[str, str]) -> dict[str, Any]:
    """The values of the options of `spark.readStream`. Raises OperatorError."""
    return _checked(parse_options(f"spark.readStream.format({SOURCE!r})", (*READ, *STREAMING, *CONNECTION), options))


def read_values(options: Mapping[str, str]) -> dict[str, Any]:
    """The values of the options of either read: Spark asks for the columns before it says which one it is. Raises
    OperatorError."""
    return _checked(parse_options(SOURCE, (*READ, *BATCH, *STREAMING, *CONNECTION), options))


def read_schema(values: Mapping[str, Any]) -> StructType:
    """The columns that the options ask for. Raises OperatorError."""
    form = values.get("headers", "map")
    if "columns" in values:
        names = values["columns"]
    else:
        names = [name for name in COLUMNS if name != "size" and not (name == "headers" and form == "none")]
    if "headers" in names and form == "none":
        raise OperatorError(
            f"The option columns of {SOURCE} names headers, and the option headers is none",
            "Change one of them",
            field="columns",
        )
    return StructType([StructField(name, _type(name, form)) for name in names])


def _type(name: str, form: str) -> DataType:
    types = COLUMNS[name]
    return types[1] if name == "headers" and form == "binary" else types[0]


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    if "stream" not in values:
        raise not_given(SOURCE, "stream")
    check_names(SOURCE, values.get("columns", ()), COLUMNS)
    for one, other in (("startSeq", "startTime"), ("endSeq", "endTime"), ("numPartitions", "messagesPerPartition")):
        if one in values and other in values:
            raise OperatorError(f"The options {one} and {other} of {SOURCE} are both given", "Give one of them")
    if values.get("endSeq", values.get("startSeq", 0)) < values.get("startSeq", 0):
        raise OperatorError(f"The option startSeq of {SOURCE} is above endSeq", "Give a smaller one", field="startSeq")
    return values
