"""Spark sources and sinks, as Spark asks them."""

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import datasource as ds
from pyspark.sql.types import StructType

from nats3_dagster.pipeline.sources.archive_source import OPTIONS, Nats3DataSource
from nats3_dagster.pipeline.sources.connection import CONNECTION
from nats3_dagster.pipeline.sources.jetstream import JetStreamDataSource
from nats3_dagster.pipeline.sources.jetstream_options import BATCH, READ, STREAMING
from nats3_dagster.pipeline.sources.jetstream_writer import WRITE, WRITE_STREAM
from nats3_dagster.pipeline.sources.options import Option

ALL = (*READ, *BATCH, *STREAMING, *CONNECTION)
PLAIN = StructType().add("subject", "string").add("data", "string")


class Case(NamedTuple):
    """A source or a sink as Spark asks it, with options of which one is wrong."""

    # As errors name it.
    source: str
    table: tuple[Option, ...]
    # Options without which nothing is read or written.
    needed: dict[str, str]
    ask: Callable[[dict[str, str]], object]


def jetstream(given: dict[str, str]) -> JetStreamDataSource:
    return JetStreamDataSource(ds.CaseInsensitiveDict(given))


CASES = {
    # Spark asks for the columns before it says which of both reads it is, unless the user gives a schema.
    "columns": Case("jetstream", ALL, {"stream": "EV"}, lambda given: jetstream(given).schema()),
    "read": Case(
        "spark.read.format('jetstream')",
        (*READ, *BATCH, *CONNECTION),
        {"stream": "EV"},
        lambda given: jetstream(given).reader(PLAIN),
    ),
    "readStream": Case(
        "spark.readStream.format('jetstream')",
        (*READ, *STREAMING, *CONNECTION),
        {"stream": "EV"},
        lambda given: jetstream(given).streamReader(PLAIN),
    ),
    "write": Case(
        "df.write.format('jetstream')",
        (*WRITE, *CONNECTION),
        {"stream": "EV"},
        lambda given: jetstream(given).writer(PLAIN, overwrite=False),
    ),
    "writeStream": Case(
        "df.writeStream.format('jetstream')",
        (*WRITE_STREAM, *CONNECTION),
        {"stream": "EV"},
        lambda given: jetstream(given).streamWriter(PLAIN, overwrite=False),
    ),
    "nats3": Case(
        "nats3",
        OPTIONS,
        {"archive": "events"},
        lambda given: Nats3DataSource(ds.CaseInsensitiveDict(given)).schema(),
    ),
}
