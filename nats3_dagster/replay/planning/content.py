"""Content: what a plan looks up in the objects themselves, because the catalog does not know it.

Single columns are read by ranges of the object, and only those of chunks whose row in the catalog leaves a question.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.selected.chosen import Chosen
from nats3_dagster.archive.stored.ranged import open_ranged
from nats3_dagster.model import Chunk, Incarnation, ReplaySpec
from nats3_dagster.model.messages import exact_subjects, subject_names
from nats3_dagster.replay.messages.headers import MAX_BLOCK, block_bound, message_id
from nats3_dagster.replay.messages.mapping import Mapper
from nats3_dagster.subjects import Transform
from nats3_dagster.workspace import Workspace

# The line of a counter's message that has the last sum of each of the stream's sources (ADR-49).
_COUNTER_SOURCES = b"\r\nNats-Counter-Sources:"
_LONGEST_ID = message_id("0" * 16, Incarnation("", 0), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of messages as they are replayed, in bytes: exact where they may exceed what was asked for, else the
    most that can be."""

    # The largest header block.
    block: int
    # Header block and payload of the largest message.
    message: int


def subjects(workspace: Workspace, chunk: Chunk, spec: ReplaySpec) -> Iterator[str]:
    """The archived subjects of the selected messages, those of a row group at a time. Raises StoreError, ChunkError."""
    for batch in _batches(workspace, chunk, spec, ("subject", "subject_bytes")):
        yield from subject_names(exact_subjects(batch))


def has_counter_sources(workspace: Workspace, spec: ReplaySpec, transform: Transform, chosen: Chosen) -> bool:
    """True if a selected message has the sums of a counter's sources. Raises StoreError, ChunkError."""
    mapper = Mapper(transform, "0" * 16, with_ids=False, live=spec.live, marks=spec.marks)
    mapper.begin(after=None)
    names = ("seq", "time_ns", "subject", "subject_bytes", "headers")
    for chunk in (chunk for page in chosen.pages(workspace) for chunk in page):
        for batch in _batches(workspace, chunk, spec, names, dictionary=True):
            selected, _ = mapper.select(batch)
            if pc.any(pc.match_substring(selected.column("headers"), _COUNTER_SOURCES)).as_py():
                return True
    return False


def sizes(
    workspace: Workspace, spec: ReplaySpec, transform: Transform, chosen: Chosen, limit: int, *, with_ids: bool
) -> Sizes:
    """The sizes of the replayed messages; exact for those that may have a header block above MAX_BLOCK or be larger
    than `limit`. `with_ids`: see replay_headers. Raises StoreError, ChunkError."""
    most = _most(chosen.extent.largest_bytes, chosen.archive.spec.stream)
    if most.block <= MAX_BLOCK and most.message <= limit:
        return most
    mapper = Mapper(transform, "0" * 16, with_ids=with_ids, live=spec.live, marks=spec.marks)
    mapper.begin(after=_LONGEST_ID if with_ids else None)
    block = message = 0
    for chunk in (chunk for page in chosen.pages(workspace) for chunk in page):
        largest = chunk.meta.largest_bytes
        bound, grown = astuple(_most(largest, chunk.meta.incarnation.stream))
        if bound > MAX_BLOCK or grown > limit:
            bound, growth = _measured(workspace, mapper, chunk, spec)
            grown = largest + growth
        if grown > limit:
            grown = max((pc.max(s).as_py() for s in _lengths(workspace, mapper, chunk, spec)), default=0)
        block, message = max(block, bound), max(message, grown)
    return Sizes(block, message)


def _most(largest: int, stream: str) -> Sizes:
    """The most that a message takes whose header block and payload have `largest` bytes, and its header block."""
    bound = block_bound(min(largest, MAX_BLOCK), stream)
    return Sizes(bound, largest + bound - min(largest, MAX_BLOCK))


def _measured(workspace: Workspace, mapper: Mapper, chunk: Chunk, spec: ReplaySpec) -> tuple[int, int]:
    """Bytes of the largest header block as it is replayed, and the most that one grows."""
    block = growth = 0
    names = ("seq", "time_ns", "subject", "subject_bytes", "headers")
    for batch in _batches(workspace, chunk, spec, names, dictionary=True):
        selected, _ = mapper.select(batch)
        if selected.num_rows:
            before = pc.fill_null(pc.binary_length(selected.column("headers")), 0)
            after = pc.fill_null(pc.binary_length(mapper.headers(selected, chunk.meta.incarnation)), 0)
            block = max(block, pc.max(after).as_py())
            growth = max(growth, pc.max(pc.subtract(after, before)).as_py())
    return block, growth


def _lengths(workspace: Workspace, mapper: Mapper, chunk: Chunk, spec: ReplaySpec) -> Iterator[pa.Array]:
    """Bytes of header block and payload of each message as it is replayed."""
    names = ("seq", "time_ns", "subject", "subject_bytes", "headers", "data")
    for batch in _batches(workspace, chunk, spec, names, dictionary=True):
        selected, _ = mapper.select(batch)
        if selected.num_rows:
            headers = mapper.headers(selected, chunk.meta.incarnation)
            yield pc.add(pc.fill_null(pc.binary_length(headers), 0), pc.binary_length(selected.column("data")))


def _batches(
    workspace: Workspace, chunk: Chunk, spec: ReplaySpec, columns: tuple[str, ...], *, dictionary: bool = False
) -> Iterator[pa.RecordBatch]:
    """These columns of the messages whose sequences and times are selected."""
    selection, reader = spec.selection, open_ranged(workspace, chunk)
    yield from reader.batches(columns, seqs=selection.sequences, times=selection.times, dictionary=dictionary)
