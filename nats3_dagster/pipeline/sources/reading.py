"""The common part of both reads of a stream: how the range is cut into partitions, and how a task reads one.

Invariant: a partition gives each message of its sequences that the stream holds, or fails. What the stream has lost of
them, as far as it can be known, is an error unless failOnDataLoss is false.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from nats3_dagster.errors import SourceError, StreamChanged
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import Incarnation, SeqRange, StreamState, clipped, listed_ranges
from nats3_dagster.pipeline.sources.columns import Columns, check_schema
from nats3_dagster.pipeline.sources.jetstream_options import COLUMNS, MESSAGES_PER_PARTITION, SOURCE
from nats3_dagster.pipeline.sources.snapshot import Snapshot

log = logging.getLogger(__name__)
_LOSS_HINT = "Set failOnDataLoss to false to read what there is"
_CHANGED_HINT = "Load the stream again; a streaming query needs a new checkpoint"


@dataclass(eq=False)
class SeqPartition(InputPartition):
    """The sequences that one task reads."""

    seqs: SeqRange


@dataclass(frozen=True, slots=True)
class Reading:
    """A read as far as it is the same for every partition. It pickles; its text holds no secret."""

    nats: NatsOptions
    incarnation: Incarnation
    # Filters; one must match a message's subject. None: all messages.
    subjects: tuple[str, ...]
    columns: Columns
    fail_on_data_loss: bool
    # Into how many partitions sequences are cut; None: by how many sequences one may have.
    partitions: int | None
    partition_messages: int

    @classmethod
    def of(cls, values: Mapping[str, Any], snapshot: Snapshot, schema: StructType) -> "Reading":
        """The read that options ask for. Raises OperatorError if the schema has other columns than the source."""
        check_schema(SOURCE, schema, COLUMNS)
        return cls(
            snapshot.nats,
            snapshot.state.incarnation,
            values.get("subjects", ()),
            Columns(schema),
            values.get("failOnDataLoss", True),
            values.get("numPartitions"),
            values.get("messagesPerPartition", MESSAGES_PER_PARTITION),
        )

    def cut(self, seqs: SeqRange) -> list[InputPartition]:
        """The partitions of these sequences, each of contiguous ones, ascending; none of an empty range."""
        size = -(-seqs.size // self.partitions) if self.partitions else self.partition_messages
        starts = range(seqs.first, seqs.last + 1, max(1, size))
        return [SeqPartition(SeqRange(first, min(first + size - 1, seqs.last))) for first in starts]

    def lost(self, what: str, lost: Sequence[SeqRange]) -> None:
        """Raises SourceError where sequences are lost and that is an error; else logs it."""
        if not lost:
            return
        text = f"Stream {self.incarnation.stream} {what} {listed_ranges(lost)}"
        if self.fail_on_data_loss:
            raise SourceError(text, _LOSS_HINT)
        log.warning("%s; reading what there is", text)

    def batches(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a partition, in the worker. Raises SourceError, StreamChanged."""
        if not isinstance(partition, SeqPartition):  # Spark's own, of a plan without partitions
            return
        try:
            yield from self._batches(partition.seqs)
        except StreamChanged as error:
            raise StreamChanged(error.what.replace("planned", "loaded"), _CHANGED_HINT) from error

    def _batches(self, seqs: SeqRange) -> Iterator[pa.RecordBatch]:
        spec = ReadSpec(self.incarnation, seqs, self.subjects, self.columns.headers_only)
        following = seqs.first
        with Link(self.nats) as link:
            for messages in read_batches(self.nats, spec):
                numbers = messages.column("seq").to_numpy()
                if int(numbers[-1]) - following + 1 != len(numbers):
                    self._look(link, seqs, _absent(following, numbers))
                following = int(numbers[-1]) + 1
                yield self.columns.batch(messages)
            if following <= seqs.last:
                self._look(link, seqs, [SeqRange(following, seqs.last)])

    def _look(self, link: Link, seqs: SeqRange, absent: Sequence[SeqRange]) -> None:
        """Find out whether sequences that were not sent are lost. Those of other subjects, and those that were deleted
        one by one, are not: the stream's head passed, or the server lost with a damaged block, what is."""
        state = same_stream(link, self.incarnation)
        if state.last_seq < seqs.last:
            raise ended_early(state, seqs.last)
        gone = clipped(absent, SeqRange(1, state.first_seq - 1))
        damaged = [part for each in state.damaged for part in clipped(absent, each)]
        self.lost("no longer has sequences", sorted({*gone, *damaged}))


def ended_early(state: StreamState, last: int) -> SourceError:
    """The error for a stream that ends before a sequence that it had."""
    return SourceError(
        f"Stream {state.name} ends at sequence {state.last_seq}, and ended at {last} or later when this was planned",
        "Run it again when all servers of the cluster are connected; a server may also have forgotten messages",
    )


def _absent(first: int, seqs: np.ndarray) -> list[SeqRange]:
    """The ranges of sequences from `first` on that are not among these, up to the last of them."""
    before = np.concatenate(([first - 1], seqs[:-1]))
    gaps = np.flatnonzero(seqs - before > 1)
    return [SeqRange(int(before[at]) + 1, int(seqs[at]) - 1) for at in gaps]
