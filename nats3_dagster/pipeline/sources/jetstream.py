"""`format("jetstream")`: a stream as a source of Spark, and as a sink."""

from collections.abc import MutableMapping
from datetime import UTC, datetime

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from nats3_dagster.errors import Nats3Error, OperatorError, from_json
from nats3_dagster.pipeline.pyspark_features import READ_LIMITS, require
from nats3_dagster.pipeline.sources.jetstream_options import (
    SOURCE,
    batch_values,
    read_schema,
    read_values,
    streaming_values,
)
from nats3_dagster.pipeline.sources.jetstream_reader import JetStreamReader
from nats3_dagster.pipeline.sources.jetstream_stream import JetStreamStreamReader
from nats3_dagster.pipeline.sources.jetstream_writer import stream_writer, writer
from nats3_dagster.pipeline.sources.reading import Reading
from nats3_dagster.pipeline.sources.snapshot import Snapshot, take_snapshot


class JetStreamDataSource(DataSource):
    """A stream: `spark.read.format("jetstream")`, `spark.readStream.format("jetstream")`, and as a sink.

    Columns: `seq bigint`, `time timestamp` (to the microsecond), `time_ns bigint`, `subject string`, `headers`
    (`map<string,array<string>>` or `binary`), `data binary`, and `size int`, the bytes of the payload, where that is
    asked for. A schema that the user gives chooses columns, as the option columns does. Where neither data nor headers
    as binary is chosen, payloads are not sent.

    Both reads:

    | option | type | default | meaning |
    |---|---|---|---|
    | stream | text | required | The stream's name. |
    | subjects | subject filters | all | Messages whose subject one of these filters takes. |
    | columns | names | all but size | The columns, of those below, in this order. |
    | headers | map or binary or none | map | The form of the column headers. |
    | failOnDataLoss | true or false | true | Whether what the stream no longer has of the range is an error. |
    | numPartitions | number | none | Into how many partitions the sequences are cut. |
    | messagesPerPartition | number | 1000000 | Sequences that a partition has at most; instead of numPartitions. |

    `spark.read`:

    | option | type | default | meaning |
    |---|---|---|---|
    | startSeq | sequence | the stream's first | The first sequence. |
    | endSeq | sequence | the stream's last when it is loaded | The last sequence, included. |
    | startTime | time | none | Begin at the first message stored then or later; instead of startSeq. |
    | endTime | time | none | End before the first message stored then or later; instead of endSeq. |

    `spark.readStream`:

    | option | type | default | meaning |
    |---|---|---|---|
    | startingOffsets | earliest, latest, sequence or time | earliest | Where a new query begins. |
    | maxMessagesPerTrigger | number | no limit | How many sequences a batch has at most. |

    `df.write` and `df.writeStream`, of the columns subject and data (`string` or `binary`), headers (a map of texts or
    of arrays of them, or `binary`) and msg_id (`string`), the last two optional; docs/spark-write.md says what is
    promised:

    | option | type | default | meaning |
    |---|---|---|---|
    | stream | text | required | The stream that takes the messages. |
    | expectedStream | true or false | true | Whether each message has a header that makes any other stream refuse it. |
    | rejects | fail or report | fail | Whether refused rows fail the write, or are only logged. |
    | maxPending | number | 1000 | Messages without an acknowledgement that each task has at most. |
    | ackTimeout | duration | 10s | How long an acknowledgement may take. |
    | retryTimeout | duration | 60s | How long a task tries to publish again what it could not. |
    | allowDoubles | true or false | false | Whether to go on where the stream may have forgotten the ids of rows. |
    | writeId | id | a new one | What the ids of rows without a msg_id begin with; not for streams. |

    Where NATS is. Without url and context the settings say it (docs/configuration.md), as the driver has them:

    | option | type | default | meaning |
    |---|---|---|---|
    | context | text | none | The context of the `nats` CLI that names the server and the login. |
    | url | text | of the settings | The server's URL; several are joined by commas. |
    | user | text | none | The user's name. |
    | passwordFile | text | none | The file with the user's password. |
    | passwordEnv | text | none | The variable of the driver's environment with the user's password. |
    | password | text | none | The user's password; rather name a file or a variable. |
    | tokenFile | text | none | The file with a token. |
    | tokenEnv | text | none | The variable of the driver's environment with a token. |
    | token | text | none | A token; rather name a file or a variable. |
    | credsFile | text | none | The creds file, at the same path on every executor. |
    | nkeyFile | text | none | The file with an nkey's seed, at the same path on every executor. |
    | tlsCa | text | none | The authority's certificate (PEM), at the same path on every executor. |
    | tlsCert | text | none | The client's certificate (PEM), at the same path on every executor. |
    | tlsKey | text | none | The key of `tlsCert` (PEM), at the same path on every executor. |
    | tlsFirst | true or false | false | Whether TLS begins before the server's first line. |
    | domain | text | that of the server | The JetStream domain of the stream. |
    | apiPrefix | text | none | What the subjects of JetStream's API begin with; instead of a domain. |
    | inboxPrefix | text | _INBOX | What the subjects begin with on which answers come. |
    """

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
        except OperatorError:  # a sink, or an error that the reader raises again
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
        return JetStreamReader(Reading.of(values, snapshot, schema), values, snapshot.state, self.loaded)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        values = streaming_values(self.options)
        if READ_LIMITS.option in values:
            require(READ_LIMITS, SOURCE)
        kind = JetStreamStreamReader
        if READ_LIMITS.is_there:
            from nats3_dagster.pipeline.sources.limited_stream import LimitedStreamReader

            kind = LimitedStreamReader
        return kind(Reading.of(values, self._loaded_stream(), schema), values, self.loaded)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return stream_writer(self.options, schema, overwrite)

    def _loaded_stream(self) -> Snapshot:
        """The stream as it was when this was loaded. Raises OperatorError, SourceError, UnknownStream."""
        if self._snapshot is None:
            raise from_json(self._error)
        return self._snapshot
