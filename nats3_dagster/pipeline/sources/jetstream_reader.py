"""The batch reader of a stream: Spark plans with it on the driver, and runs it in its workers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import LAST_NS, parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.model import SeqRange, StreamState, clipped
from nats3_dagster.pipeline.sources.pushdown import Narrowed
from nats3_dagster.pipeline.sources.reading import Reading

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


class JetStreamReader(DataSourceReader):
    """Reads the messages that a stream had when it was loaded."""

    def __init__(self, reading: Reading, values: Mapping[str, Any], state: StreamState, loaded: datetime) -> None:
        """Raises OperatorError, SourceError: see `batch_bounds`."""
        self._reading = reading
        self._stream = state.name
        self._bounds = batch_bounds(reading, values, state, loaded)
        self._narrowed = Narrowed(reading.subjects)

    def partitions(self) -> Sequence[InputPartition]:
        if self._narrowed.subjects is None:
            return []
        first, last = self._bounds
        first, last = max(first, self._narrowed.seqs[0]), min(last, self._narrowed.seqs[1])
        return self._reading.cut(SeqRange(*self._within_times(first, last)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)

    def _within_times(self, first: int, last: int) -> tuple[int, int]:
        """The bounds cut to the sequences of the times that filters leave."""
        start, end = self._narrowed.times_ns
        if end < 0 or start > LAST_NS:
            return first, first - 1
        if start > 0 or end < LAST_NS:
            with Link(self._reading.nats) as link:
                if start > 0:
                    first = max(first, first_seq_at(link, self._stream, start))
                if end < LAST_NS:
                    last = min(last, first_seq_at(link, self._stream, end) - 1)
        return first, last


class FilteringReader(JetStreamReader):
    """Applies filters of Spark itself. Spark refuses it while spark.sql.python.filterPushdown.enabled is false."""

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":
        rest = self._narrowed.take(filters)
        if self._narrowed.subjects is not None:
            self._reading = replace(self._reading, subjects=self._narrowed.subjects)
        return rest


def batch_bounds(reading: Reading, values: Mapping[str, Any], state: StreamState, loaded: datetime) -> SeqRange:
    """The sequences to read, an empty range (last below first) for none. `loaded`: what relative times count from.

    Raises OperatorError for a range that the stream has not got to, SourceError for one that it no longer has."""
    held = SeqRange(state.first_seq, state.last_seq)
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
