"""The batch reader of a stream: Spark plans with it on the driver, and runs it in its workers."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.model import SeqRange, StreamState, clipped
from nats3_dagster.pipeline.sources.reading import Reading


class JetStreamReader(DataSourceReader):
    """Reads the messages that a stream had when it was loaded."""

    def __init__(self, reading: Reading, values: Mapping[str, Any], state: StreamState, loaded: datetime) -> None:
        """Raises OperatorError, SourceError: see `batch_bounds`."""
        self._reading = reading
        self._bounds = batch_bounds(reading, values, state, loaded)

    def partitions(self) -> Sequence[InputPartition]:
        return self._reading.cut(self._bounds)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)


def batch_bounds(reading: Reading, values: Mapping[str, Any], state: StreamState, loaded: datetime) -> SeqRange:
    """The sequences to read, an empty range (last below first) for none. `loaded`: what relative times count from.

    Raises OperatorError for a range that the stream has not got to, SourceError for one that it no longer has."""
    # A stream that never had a message says 0 for both.
    held = SeqRange(max(1, state.first_seq), state.last_seq)
    first, last = values.get("startSeq", held.first), values.get("endSeq", held.last)
    if "startTime" in values or "endTime" in values:
        with Link(reading.nats) as link:
            if "startTime" in values:
                first = max(first, first_seq_at(link, state.name, parse_time(values["startTime"], loaded)))
            if "endTime" in values:
                last = min(last, first_seq_at(link, state.name, parse_time(values["endTime"], loaded)) - 1)
    for name in ("startSeq", "endSeq"):
        if values.get(name, 0) > held.last:
            raise OperatorError(
                f"Stream {state.name} ends at sequence {held.last}, before {name} {values[name]}",
                f"Give a smaller {name}, or none for the stream's own end",
                field=name,
            )
    asked = SeqRange(first, last)
    gone = clipped([asked], SeqRange(1, held.first - 1))
    reading.lost("no longer has sequences", gone)
    reading.lost("has lost, with damaged blocks, sequences", clipped(state.damaged, asked))
    return SeqRange(max(first, held.first), last)
