"""Cut: a chunk without some of its messages, as chunks and gaps that take its place.

Invariant: they have the other messages, in the same order and with the same bytes, as the store answers them; and they
account for each sequence of the chunk, what was cut out for the reason `erased`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.captures.rewrite import Origin, table_of, write_chunks
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.chunks import open_chunk
from nats3_dagster.chunks.rows_digest import RowsDigest
from nats3_dagster.errors import ChunkError
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import Archive, Chunk, ChunkMeta, Gap, Reason, SeqRange, clipped, shared, without
from nats3_dagster.model.stream import ranges_of
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Cut:
    """Chunks and gaps for the place of a chunk: in the store, and not yet in the catalog."""

    metas: tuple[ChunkMeta, ...]
    gaps: tuple[Gap, ...]
    # The sequences that were cut out, ascending.
    erased: tuple[SeqRange, ...]


@dataclass(frozen=True, slots=True)
class _Segment:
    """A part of a chunk whose absent sequences have one reason."""

    covers: SeqRange
    reason: Reason


def cut(workspace: Workspace, archive: Archive, chunk: Chunk, ranges: Sequence[SeqRange]) -> Cut:
    """The chunk without its messages of these sequences. Puts the new objects. Raises ObjectMissing or ChunkError if
    the chunk is not as it was written, StoreError."""
    ((_, reader),) = fetch_chunks(workspace.bucket, [chunk], 1)
    table, old = table_of(reader.batches()), chunk.meta
    seqs = table.column("seq").to_numpy()
    mask = np.zeros(len(seqs), bool)
    for part in ranges:
        mask[np.searchsorted(seqs, part.first) : np.searchsorted(seqs, part.last, side="right")] = True
    # Of sequences that a filter left out, too: the catalog does not know of the chunk which these are.
    erased = ranges_of(seqs[mask].tolist()) or tuple(clipped(ranges, old.covers))
    kept = table.filter(pa.array(~mask))
    absent = without(without([old.covers], ranges_of(seqs.tolist())), erased)
    origin = Origin(archive.spec, old.incarnation, old.hour, reader.footer.config, reader.footer.subjects)
    metas: list[ChunkMeta] = []
    gaps: list[Gap] = []
    numbers = kept.column("seq").to_numpy()
    for segment in _segments(old.covers, absent, old.absent_reason or "erased", erased):
        first, end = np.searchsorted(numbers, [segment.covers.first, segment.covers.last + 1]).tolist()
        if first == end:
            gaps.append(Gap(old.incarnation, (segment.covers,), segment.reason))
            continue
        rows = kept.slice(first, end - first).combine_chunks().to_batches()
        metas += write_chunks(workspace.bucket(old.bucket), origin, segment.covers, segment.reason, rows)
    fault_point("erase.put")
    rest = Cut(tuple(metas), tuple(gaps), erased)
    _prove(workspace, old, kept, rest)
    return rest


def cut_of_orphans(workspace: Workspace, archive: Archive, chunk: Chunk, ranges: Sequence[SeqRange]) -> Cut | None:
    """The same where the chunk's object is gone, as it is for a catalog that is older than the erasure: by objects that
    no chunk lists, and that have each other message of the chunk. None if there are no such objects. Raises StoreError,
    SourceError."""
    old = chunk.meta
    erased = tuple(clipped(ranges, old.covers))
    absent, metas = old.deleted, list[ChunkMeta]()
    for orphan in Orphans(workspace, archive).overlapping(old.incarnation, [old.covers]):
        meta = orphan.meta
        inside = old.covers.first <= meta.covers.first and meta.covers.last <= old.covers.last
        is_without = not without(shared(erased, [meta.covers]), meta.deleted or ())
        if inside and is_without and meta.hour == old.hour and not any(clipped([meta.covers], m.covers) for m in metas):
            metas.append(replace(meta, bucket=archive.spec.bucket))
    metas.sort(key=lambda meta: meta.covers)
    rest = without([old.covers], [meta.covers for meta in metas])
    left = sum(meta.messages for meta in metas)
    if absent is None:
        is_whole = old.messages - left <= sum(part.size for part in erased)
    else:
        is_whole = left == old.messages - sum(part.size for part in without(erased, absent))
    if without(rest, erased) or not is_whole:
        return None
    gaps = (Gap(old.incarnation, rest, "erased"),) if rest else ()
    return Cut(tuple(metas), gaps, erased)


def _segments(
    covers: SeqRange, absent: Sequence[SeqRange], reason: Reason, erased: Sequence[SeqRange]
) -> Iterator[_Segment]:
    """Parts of a chunk, as few as may be: a chunk has one reason for all that is absent in it."""
    runs: list[tuple[SeqRange, Reason]] = [(part, reason) for part in absent]
    runs = sorted(runs + [(part, "erased") for part in erased])
    start, now = covers.first, runs[0][1]
    for part, why in runs:
        if why != now:
            yield _Segment(SeqRange(start, part.first - 1), now)
            start, now = part.first, why
    yield _Segment(SeqRange(start, covers.last), now)


def _prove(workspace: Workspace, old: ChunkMeta, kept: pa.Table, rest: Cut) -> None:
    """Raises ChunkError unless the store has the other messages of the chunk, and all its sequences are accounted
    for."""
    wanted, seen = RowsDigest(), RowsDigest()
    for batch in kept.combine_chunks().to_batches():
        wanted.add(batch)
    for meta in rest.metas:
        reader = open_chunk(workspace.bucket(meta.bucket).get(meta.key), meta)
        for batch in reader.batches():
            seen.add(batch)
        reader.verify()
    parts = sorted([meta.covers for meta in rest.metas] + [part for gap in rest.gaps for part in gap.ranges])
    after = [part.first for part in parts[1:]] + [old.covers.last + 1]
    tiled = parts[0].first == old.covers.first and [part.last + 1 for part in parts] == after
    if (seen.messages, seen.hexdigest()) != (wanted.messages, wanted.hexdigest()) or not tiled:
        raise ChunkError(
            f"{old.key} without its erased messages would not have the others as they are",
            "Nothing was changed. This is a defect: report it",
        )
