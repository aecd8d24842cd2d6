"""Comparing an archive with what its stream still has: absences, gaps and contents; and correcting what is wrong.

Invariant: a chunk is replaced in one transaction by chunks that have all of its messages, and its object goes last. So
whatever is corrected, and wherever that ends, no message leaves the archive.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.captures.rewrite import Origin, merge, table_of, write_chunks
from nats3_dagster.archive.proof.verify import AHEAD, chunks_to_verify
from nats3_dagster.archive.source.observe import checked_source
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.fetch import fetch_each
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.chunks import ChunkReader
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.hours import HOUR_NS, hour_of
from nats3_dagster.jetstream.read.contents import first_held
from nats3_dagster.jetstream.read.leader_read import messages_of
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import confirm_origin
from nats3_dagster.model import REMOVED, Archive, Chunk, ChunkMeta, Gap, Reason, SeqRange, StreamState, clipped
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.model.stream import ranges_of
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Compared:
    """A chunk, or a range of a gap, beside what the stream has of its sequences."""

    # The sequences that were compared.
    seqs: SeqRange
    # Messages of the stream there that the archive takes.
    messages: int
    # One of the two.
    chunk: Chunk | None = None
    reason: Reason | None = None
    # Sequences of messages that the stream has, and the archive says are absent.
    wrong: tuple[SeqRange, ...] = ()
    # Sequences of messages that are not the same in both.
    different: tuple[SeqRange, ...] = ()
    # What the stream has of `wrong`.
    found: pa.Table = field(default_factory=lambda: MESSAGES.empty_table(), repr=False, compare=False)


def compare(workspace: Workspace, archive: Archive, hours: Sequence[str] | None = None) -> Iterator[Compared]:
    """Yields each chunk and each range of a gap whose messages the stream may still have. What was retired is left out,
    and so are objects that cannot be read: see `verify_chunks`. Raises StreamChanged, SourceError, StoreError."""
    state = checked_source(workspace, archive).state
    # A change of its subjects that this does not show is for sequences after the window.
    archive = workspace.catalog.archives.reread(archive)
    window = SeqRange(max(state.first_seq, 1), state.last_seq)
    chunks = (
        chunk
        for chunk in chunks_to_verify(workspace, archive, hours)
        if chunk.meta.incarnation == state.incarnation and clipped([chunk.meta.covers], window)
    )
    for chunk, reader in fetch_each(workspace.bucket, chunks, AHEAD):
        try:
            opened = reader.result()
        except (ChunkError, ObjectMissing):
            continue
        for seqs in clipped([chunk.meta.covers], window):
            yield _compare_chunk(workspace, archive, state, chunk, opened, seqs)
    for gap in _gaps(workspace, archive, state, hours):
        for seqs in clipped(gap.ranges, window) if gap.reason not in REMOVED else ():
            for part, _ in archive.filters(state.incarnation, seqs):
                yield _compare_gap(workspace, archive, state, gap.reason, part)


def correct(workspace: Workspace, archive: Archive, compared: Compared) -> int:
    """Put the messages into the archive that it said were absent; how many. Raises Conflict if the archive changed
    meanwhile, StoreError."""
    if not compared.found.num_rows:
        return 0
    folder.require(workspace, archive)
    begun = workspace.catalog.now()
    if compared.chunk:
        old = compared.chunk.meta
        chunks = merge(workspace.bucket, archive.spec, old, compared.found)
        workspace.catalog.chunks.replace(archive, [compared.chunk.id], chunks, (), begun=begun)
        remove_objects(workspace, old.bucket, [old.key])
    else:
        workspace.catalog.chunks.commit(archive, _of_gap(workspace, archive, compared), begun=begun, what="repaired")
    return compared.found.num_rows


def _compare_chunk(
    workspace: Workspace, archive: Archive, state: StreamState, chunk: Chunk, reader: ChunkReader, seqs: SeqRange
) -> Compared:
    streamed, stored = _read(workspace, archive, state, seqs), table_of(reader.batches(seqs=seqs))
    numbers, known = _seqs(streamed), _seqs(stored)
    both = np.intersect1d(numbers, known)
    mine, theirs = streamed.take(np.searchsorted(numbers, both)), stored.take(np.searchsorted(known, both))
    differs = np.zeros(len(both), bool)
    for name in MESSAGES.names:
        one, other = mine.column(name), theirs.column(name)
        same = pc.fill_null(pc.equal(one, other), False)
        nothing = pc.and_(pc.is_null(one), pc.is_null(other))
        differs |= ~pc.or_(same, nothing).to_numpy()
    found = streamed.filter(pa.array(~np.isin(numbers, known)))
    if chunk.meta.absent_reason in REMOVED:
        found = found.slice(0, 0)  # the stream may still have what was erased here
    return Compared(
        seqs,
        streamed.num_rows,
        chunk=chunk,
        wrong=ranges_of(_seqs(found).tolist()),
        different=ranges_of(both[differs].tolist()),
        found=found,
    )


def _compare_gap(
    workspace: Workspace, archive: Archive, state: StreamState, reason: Reason, seqs: SeqRange
) -> Compared:
    # Most gaps are right, and the leader says so with one request.
    if workspace.link.call(first_held, state.incarnation, seqs, _subjects(archive, state, seqs)) is None:
        return Compared(seqs, 0, reason=reason)
    found = _read(workspace, archive, state, seqs)
    return Compared(seqs, found.num_rows, reason=reason, wrong=ranges_of(_seqs(found).tolist()), found=found)


def _gaps(workspace: Workspace, archive: Archive, state: StreamState, hours: Sequence[str] | None) -> Iterator[Gap]:
    """The gaps of the stream as it is now; with `hours` those that these account for."""
    if not hours:
        yield from workspace.catalog.gaps.select(archive, incarnation=state.incarnation)
        return
    for key in hours:
        for part in workspace.catalog.hours.parts(archive, key):
            if part.incarnation == state.incarnation:
                yield from (Gap(part.incarnation, (gap.seqs,), gap.reason) for gap in part.gaps)


def _of_gap(workspace: Workspace, archive: Archive, compared: Compared) -> list[ChunkMeta]:
    """Chunks of the messages that were found in a gap, one for each hour in which they were stored. What lies between
    two messages stays absent for the gap's reason, and what lies outside stays a gap."""
    state = checked_source(workspace, archive).state
    bucket = workspace.bucket(archive.spec.bucket)
    hours = compared.found.column("time_ns").to_numpy() // HOUR_NS
    cuts = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(hours)]
    chunks: list[ChunkMeta] = []
    for start, end in pairwise(cuts):
        part = compared.found.slice(start, end - start).combine_chunks()
        covers = SeqRange(int(_seqs(part)[0]), int(_seqs(part)[-1]))
        hour = hour_of(int(hours[start]) * HOUR_NS)
        origin = Origin(archive.spec, state.incarnation, hour, state.config, _subjects(archive, state, covers))
        chunks += write_chunks(bucket, origin, covers, compared.reason or "expired", part.to_batches())
    return chunks


def _read(workspace: Workspace, archive: Archive, state: StreamState, seqs: SeqRange) -> pa.Table:
    """Returns the stream's messages of these sequences that the archive selects."""
    subjects = _subjects(archive, state, seqs)
    if state.config.get("retention") == "workqueue":  # it refuses a consumer beside the archive's own
        return messages_of(workspace.link, state.incarnation, seqs, subjects)
    messages = table_of(read_batches(workspace.settings.nats, ReadSpec(state.incarnation, seqs, subjects)))
    confirm_origin(workspace.link, state.incarnation)
    return messages


def _subjects(archive: Archive, state: StreamState, seqs: SeqRange) -> tuple[str, ...]:
    """The subjects that the archive takes of these sequences. Neither a chunk nor a part of a gap has two filters."""
    ((_, subjects),) = archive.filters(state.incarnation, seqs)
    return subjects


def _seqs(table: pa.Table) -> Int64s:
    return table.column("seq").to_numpy()
