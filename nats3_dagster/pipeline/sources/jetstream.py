"""`format("jetstream")`: a stream as a source of Spark, and as a sink."""

from collections.abc import MutableMapping
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)  # fmt: skip
from pyspark.sql.types import StructType

from nats3_dagster.errors import Nats3Error, OperatorError, from_json
from nats3_dagster.pipeline.sources.jetstream_options import (
    SOURCE,
    batch_values,
    read_schema,
    read_values,
    streaming_values,
)  # fmt: skip
from nats3_dagster.pipeline.sources.jetstream_reader import FilteringReader, JetStreamReader
from nats3_dagster.pipeline.sources.jetstream_stream import JetStreamStreamReader
from nats3_dagster.pipeline.sources.jetstream_writer import stream_writer, writer
from nats3_dagster.pipeline.sources.reading import Reading
from nats3_dagster.pipeline.sources.snapshot import Snapshot, take_snapshot


class JetStreamDataSource(DataSource):
    """A stream."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Spark makes one for each `load()` and `save()`, and keeps it for all that is done with the frame."""
        super().__init__(options)
        # Relative times count from here.
        self.loaded = datetime.now(UTC)
        # Every action on a frame sees the stream as it is now. An error is raised where Spark asks for something.
        self._snapshot: Snapshot | None = None
        self._error = ""
        try:
            values = read_values(options)
        except OperatorError:  # a sink, or an error that whoever reads raises again
            return
        try:
            self._snapshot = take_snapshot(SOURCE, values)
        except Nats3Error as error:
            self._error = error.to_json()

    @classmethod
    def name(cls) -> str:
        return SOURCE

    def schema(self) -> StructType:
        schema = read_schema(read_values(self.options))
        self._loaded_stream()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        values = batch_values(self.options)
        snapshot = self._loaded_stream()
        kind = FilteringReader if values.get("pushFilters") else JetStreamReader
        return kind(Reading.of(values, snapshot, schema), values, snapshot.state, self.loaded)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        values = streaming_values(self.options)
        return JetStreamStreamReader(Reading.of(values, self._loaded_stream(), schema), values, self.loaded)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return stream_writer(self.options, schema, overwrite)

    def _loaded_stream(self) -> Snapshot:
        """The stream as it was when this was loaded. Raises OperatorError, SourceError, UnknownStream."""
        if self._snapshot is None:
            raise from_json(self._error)
        return self._snapshot
