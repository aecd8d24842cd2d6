"""The streaming reader of a stream: its offsets are stream sequences."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from nats3_dagster.errors import OperatorError, SourceError, StreamChanged
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import Incarnation, SeqRange, StreamState, clipped
from nats3_dagster.pipeline.sources.offset_witness import HINT, Witness, check_witness, witness_of
from nats3_dagster.pipeline.sources.reading import Reading, ended_early

Offset = dict[str, Any]


class JetStreamStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what a stream gets. An offset is `{"stream": name, "created_ns": n, "seq": n, "witness": ...}`: which
    stream it is of, when that one was made, the last sequence before it, and a message up to there (offset_witness)."""

    def __init__(self, reading: Reading, values: Mapping[str, Any], loaded: datetime) -> None:
        self._reading, self._values, self._loaded = reading, values, loaded
        self._link: Link | None = None  # of the driver
        self._target: int | None = None  # the last sequence of a query that reads what is available now
        self._latest: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_link": None}

    def initialOffset(self) -> Offset:
        state = self._state(self._reading.incarnation)
        starting = self._values.get("startingOffsets", "earliest")
        if starting == "earliest":
            seq = state.first_seq
        elif starting == "latest":
            seq = state.last_seq + 1
        elif starting.isdecimal():
            seq = int(starting)
            if seq > state.last_seq + 1:
                raise OperatorError(
                    f"Stream {state.name} ends at sequence {state.last_seq}, before startingOffsets {seq}",
                    "Give a smaller one, or latest", field="startingOffsets",
                )  # fmt: skip
        else:
            seq = first_seq_at(self._connected(), state.name, parse_time(starting, self._loaded))
        return self._offset(seq - 1, witness_of(self._connected(), state, seq - 1, None))

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        seq = self._checked(start)
        state = self._state(self._reading.incarnation)
        self._prove(start, state)
        self._latest = self._offset(state.last_seq, None)
        last = state.last_seq if self._target is None else max(seq, min(self._target, state.last_seq))
        if isinstance(limit, ReadMaxRows):
            # What the stream no longer has does not count: a batch of it alone would be empty.
            last = min(last, max(seq, state.first_seq - 1) + limit.max_rows)
        if last <= seq:  # the very same: for Spark any other offset is one with new messages
            return start
        return self._offset(last, witness_of(self._connected(), state, last, start.get("witness")))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._values.get("maxMessagesPerTrigger")
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:
        return self._latest

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._state(self._reading.incarnation).last_seq

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        seqs = SeqRange(self._checked(start) + 1, self._checked(end))
        if seqs.size < 1:
            return []
        # Also of a batch that was planned before a restart: its end was asked for then, and not now.
        state = self._state(self._reading.incarnation)
        self._prove(start, state)
        self._prove(end, state)
        self._reading.lost("no longer has sequences", clipped([seqs], SeqRange(1, state.first_seq - 1)))
        self._reading.lost("has lost, with damaged blocks, sequences", clipped(state.damaged, seqs))
        return self._reading.cut(SeqRange(max(seqs.first, state.first_seq), seqs.last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)

    def stop(self) -> None:
        if self._link:
            self._link.__exit__(None, None, None)
            self._link = None

    def _offset(self, seq: int, witness: Witness | None) -> Offset:
        incarnation = self._reading.incarnation
        return {
            "stream": incarnation.stream, "created_ns": incarnation.created_ns, "seq": seq, "witness": witness,
        }  # fmt: skip

    def _prove(self, offset: Offset, state: StreamState) -> None:
        """Raises SourceError if the stream ends before the offset, StreamChanged if it has other messages there."""
        check_witness(self._connected(), state, offset.get("witness"))
        if state.last_seq < offset["seq"]:
            raise ended_early(state, offset["seq"])

    def _checked(self, offset: Offset) -> int:
        """The sequence of an offset. Raises SourceError if it is of another stream, or of one that was made before."""
        incarnation = self._reading.incarnation
        if offset["stream"] != incarnation.stream:
            raise SourceError(
                f"The checkpoint is of stream {offset['stream']}, and the option stream is {incarnation.stream}", HINT
            )
        if offset["created_ns"] != incarnation.created_ns:
            made = Incarnation(incarnation.stream, offset["created_ns"])
            raise StreamChanged(
                f"Stream {incarnation.stream} was made again: the checkpoint is of the one of {made.token}, and this "
                f"one is of {incarnation.token}",
                HINT,
            )
        return offset["seq"]

    def _state(self, incarnation: Incarnation) -> StreamState:
        try:
            return same_stream(self._connected(), incarnation)
        except StreamChanged as error:
            raise StreamChanged(error.what.replace("planned", "loaded"), HINT) from error

    def _connected(self) -> Link:
        """The driver's connection; a new one where the one before is closed for good."""
        if self._link is None or self._link.is_closed:
            self.stop()
            self._link = Link(self._reading.nats).__enter__()
        return self._link
