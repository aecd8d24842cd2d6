"""Measured: what a plan looks up in the objects themselves, because the catalog does not know it.

Single columns are read by ranges of the object, and only those of chunks whose row in the catalog leaves a question.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.model import Chunk, Incarnation
from nats3_dagster.model.messages import exact_subjects, subject_names
from nats3_dagster.replay.messages.headers import MAX_BLOCK, block_bound, message_id
from nats3_dagster.replay.messages.mapping import Mapper
from nats3_dagster.replay.planning.content import Content

# The line of a counter's message that has the last sum of each of the stream's sources (ADR-49).
_COUNTER_SOURCES = b"\r\nNats-Counter-Sources:"
_LONGEST_ID = message_id("0" * 16, Incarnation("", 0), 2**63 - 1)
# The columns that a message's headers are replayed from.
_HEADERS = ("seq", "time_ns", "subject", "subject_bytes", "headers")


@dataclass(frozen=True, slots=True)
class Measured:
    """The messages of a replay as they are replayed. Sizes are bytes: exact where they may exceed what was asked for,
    else the most that can be."""

    # The largest header block.
    block: int
    # Header block and payload of the largest message.
    message: int
    # True if a message has the sums of a counter's sources; False also where a counter was not asked about.
    has_counter_sources: bool


def measured(content: Content, limit: int, *, with_ids: bool, for_counter: bool) -> Measured:
    """Measures the messages. Sizes are exact for those that may have a header block above MAX_BLOCK or be larger than
    `limit`. `with_ids`: see replay_headers. `for_counter`: a counter takes them. Raises StoreError, ChunkError."""
    messages = _Messages(content, with_ids=with_ids)
    block, message = _most(content.chosen.extent.largest_bytes, content.archive.spec.stream)
    if block > MAX_BLOCK or message > limit:
        block, message = _largest(messages, limit)
    return Measured(block, message, for_counter and messages.have_counter_sources())


def archived_subjects(content: Content, chunk: Chunk) -> Iterator[str]:
    """The archived subjects of the selected messages, those of a row group at a time. Raises StoreError, ChunkError."""
    for batch in _batches(content, chunk, ("subject", "subject_bytes")):
        yield from subject_names(exact_subjects(batch))


def _most(largest: int, stream: str) -> tuple[int, int]:
    """The most that a header block takes, and a message, whose header block and payload have `largest` bytes."""
    bound = block_bound(min(largest, MAX_BLOCK), stream)
    return bound, largest + bound - min(largest, MAX_BLOCK)


def _largest(messages: "_Messages", limit: int) -> tuple[int, int]:
    """The largest header block and the largest message of all chunks."""
    block = message = 0
    for chunk in messages.content.chunks():
        largest = chunk.meta.largest_bytes
        bound, grown = _most(largest, chunk.meta.incarnation.stream)
        if bound > MAX_BLOCK or grown > limit:
            bound, growth = messages.blocks(chunk)
            grown = largest + growth
        if grown > limit:
            grown = messages.longest(chunk)
        block, message = max(block, bound), max(message, grown)
    return block, message


class _Messages:
    """The selected messages of chunks, as they are replayed."""

    def __init__(self, content: Content, *, with_ids: bool) -> None:
        spec = content.spec
        self.content = content
        self._mapper = Mapper(content.transform, "0" * 16, with_ids=with_ids, live=spec.live, marks=spec.marks)
        self._mapper.begin(after=_LONGEST_ID if with_ids else None)

    def blocks(self, chunk: Chunk) -> tuple[int, int]:
        """Bytes of the largest header block, and the most that one grows."""
        block = growth = 0
        for batch in self._selected(chunk, _HEADERS):
            before = _lengths(batch.column("headers"))
            after = _lengths(self._mapper.headers(batch, chunk.meta.incarnation))
            block = max(block, pc.max(after).as_py())
            growth = max(growth, pc.max(pc.subtract(after, before)).as_py())
        return block, growth

    def longest(self, chunk: Chunk) -> int:
        """Bytes of header block and payload of the largest message."""
        longest = 0
        for batch in self._selected(chunk, (*_HEADERS, "data")):
            blocks = _lengths(self._mapper.headers(batch, chunk.meta.incarnation))
            longest = max(longest, pc.max(pc.add(blocks, _lengths(batch.column("data")))).as_py())
        return longest

    def have_counter_sources(self) -> bool:
        """True if one of all messages has the sums of a counter's sources."""
        batches = (batch for chunk in self.content.chunks() for batch in self._selected(chunk, _HEADERS))
        return any(pc.any(pc.match_substring(b.column("headers"), _COUNTER_SOURCES)).as_py() for b in batches)

    def _selected(self, chunk: Chunk, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        for batch in _batches(self.content, chunk, columns, dictionary=True):
            selected, _ = self._mapper.select(batch)
            if selected.num_rows:
                yield selected


def _lengths(blocks: pa.Array) -> pa.Array:
    """Bytes of each value, 0 for null."""
    return pc.fill_null(pc.binary_length(blocks), 0)


def _batches(
    content: Content, chunk: Chunk, columns: tuple[str, ...], *, dictionary: bool = False
) -> Iterator[pa.RecordBatch]:
    """These columns of the messages whose sequences and times are selected."""
    selection, reader = content.spec.selection, open_ranged(content.workspace, chunk)
    yield from reader.batches(columns, seqs=selection.sequences, times=selection.times, dictionary=dictionary)
