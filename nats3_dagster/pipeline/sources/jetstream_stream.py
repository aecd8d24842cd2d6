"""The streaming reader of a stream, as every PySpark has it: its offsets are stream sequences."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from nats3_dagster.errors import OperatorError, SourceError, StreamChanged
from nats3_dagster.hours import parse_time
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import Incarnation, SeqRange, StreamState, clipped
from nats3_dagster.pipeline.sources.offset_witness import HINT, OffsetWitness, check_witness, witness_of
from nats3_dagster.pipeline.sources.reading import Reading, ended_early

Offset = dict[str, Any]


class JetStreamStreamReader(DataSourceStreamReader):
    """Reads what a stream gets. An offset is `{"stream": name, "created_ns": n, "seq": n, "witness": ...}`: which
    stream it is of, when that one was made, the last sequence before it, and a message up to there (offset_witness).

    PySpark without read limits does not tell the reader where a batch begins until the batch is planned and noted in
    the checkpoint. limited_stream has the reader for PySpark with them."""

    def __init__(self, reading: Reading, values: Mapping[str, Any], loaded: datetime) -> None:
        self._reading, self._values, self._loaded = reading, values, loaded
        self._link: Link | None = None  # of the driver
        # What the stream was when the end of a first batch was asked for. PySpark without read limits asks for its
        # beginning after that, and the beginning must not lie after the end.
        self._first: StreamState | None = None
        self._latest: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_link": None, "_first": None, "_latest": None}

    def initialOffset(self) -> Offset:
        state = self._first or self._state(self._reading.incarnation)
        starting = self._values.get("startingOffsets", "earliest")
        if starting == "earliest":
            seq = max(1, state.first_seq)  # an empty stream may say 0
        elif starting == "latest":
            seq = state.last_seq + 1
        elif starting.isdecimal():
            seq = int(starting)
            if seq > state.last_seq + 1:
                raise OperatorError(
                    f"Stream {state.name} ends at sequence {state.last_seq}, before startingOffsets {seq}",
                    "Give a smaller one, or latest",
                    field="startingOffsets",
                )
        else:
            at = first_seq_at(self._connected(), state.name, parse_time(starting, self._loaded))
            seq = min(at, state.last_seq + 1)
        return self._offset(seq - 1, witness_of(self._connected(), state, seq - 1, None))

    def latestOffset(self) -> Offset:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The end of a batch that begins anywhere. `partitions` proves the beginning."""
        state = self._state(self._reading.incarnation)
        self._first = self._first or state
        if self._latest:
            # Here, because what this returns is noted in the checkpoint.
            self._prove(self._latest, state)
            if self._latest["seq"] == state.last_seq:  # the very same: for Spark any other offset has new messages
                return self._latest
        earlier = self._latest and self._latest["witness"]
        self._latest = self._offset(state.last_seq, witness_of(self._connected(), state, state.last_seq, earlier))
        return self._latest

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        seqs = SeqRange(self._checked(start) + 1, self._checked(end))
        if seqs.size == 0:
            return []
        # Also of a batch that was planned before a restart: its end was asked for then, and not now.
        state = self._state(self._reading.incarnation)
        self._prove(start, state)
        self._prove(end, state)
        if seqs.size < 0:
            raise SourceError(
                f"A batch of the checkpoint goes back from sequence {start['seq']} to {end['seq']} of stream "
                f"{state.name}: the server did not have its newest messages when the batch was planned",
                HINT,
            )
        self._reading.lost("no longer has sequences", clipped([seqs], SeqRange(1, state.first_seq - 1)))
        self._reading.lost("has lost, with damaged blocks, sequences", clipped(state.damaged, seqs))
        return self._reading.cut(SeqRange(max(seqs.first, state.first_seq), seqs.last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.batches(partition)

    def stop(self) -> None:
        if self._link:
            self._link.__exit__(None, None, None)
            self._link = None

    def _offset(self, seq: int, witness: OffsetWitness | None) -> Offset:
        incarnation = self._reading.incarnation
        return {
            "stream": incarnation.stream,
            "created_ns": incarnation.created_ns,
            "seq": seq,
            "witness": witness,
        }

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
