"""Adoption: messages of objects that the catalog does not know take the place of an absence before it is written down.

Invariant: whatever the reason of an absence, the bucket is asked first. An object of another archive or of another
filter gives messages only, and never what it says of absences.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.captures.orphans import Orphan, Orphans
from nats3_dagster.archive.captures.rewrite import Origin, merge, table_of, write_chunks
from nats3_dagster.archive.stored.erased import apart
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.model import REMOVED, Archive, ChunkMeta, Gap, Reason, SeqRange, clipped, without
from nats3_dagster.model.messages import selected
from nats3_dagster.model.numbers import Int64s

log = logging.getLogger(__name__)


def settle_absences(
    orphans: Orphans, chunks: Sequence[ChunkMeta], gaps: Iterable[Gap]
) -> tuple[tuple[ChunkMeta, ...], tuple[Gap, ...]]:
    """Chunks and gaps that are about to be committed, with what the bucket has of the sequences that they call absent:
    the chunks to commit instead, and the gaps that remain. Raises StoreError, SourceError."""
    adopted, remaining = adopt(orphans, gaps)
    return (*fill(orphans, chunks), *adopted), remaining


def adopt(orphans: Orphans, gaps: Iterable[Gap]) -> tuple[tuple[ChunkMeta, ...], tuple[Gap, ...]]:
    """Chunks of what orphans hold of these gaps, to be committed together with the gaps that remain. The store is
    listed only if there is a gap. Raises StoreError, SourceError."""
    adopted: list[ChunkMeta] = []
    remaining: list[Gap] = []
    for gap in apart(orphans.workspace, orphans.archive, gaps):
        rest: Sequence[SeqRange] = gap.ranges
        for orphan in orphans.overlapping(gap.incarnation, gap.ranges) if gap.reason not in REMOVED else ():
            chunks = [
                meta
                for seqs in clipped(rest, orphan.meta.covers)
                for meta in _chunks(orphans, orphan, seqs, gap.reason)
            ]
            rest = without(rest, [meta.covers for meta in chunks])
            adopted += chunks
        if rest:
            remaining.append(Gap(gap.incarnation, tuple(rest), gap.reason))
    if adopted:
        _report(orphans.archive, sum(meta.messages for meta in adopted))
    return tuple(adopted), tuple(remaining)


def fill(orphans: Orphans, chunks: Sequence[ChunkMeta]) -> tuple[ChunkMeta, ...]:
    """The chunks that are to be committed, with the messages that orphans hold of sequences which they say are absent.
    The store is listed only if there are such. Raises StoreError, SourceError."""
    filled: list[ChunkMeta] = []
    for meta in chunks:
        messages = missing_in(orphans, meta) if meta.messages < meta.covers.size else None
        if messages is None:
            filled.append(meta)
        else:
            _report(orphans.archive, messages.num_rows)
            filled += merge(orphans.workspace.bucket, orphans.archive.spec, meta, messages)
    return tuple(filled)


def missing_in(orphans: Orphans, meta: ChunkMeta) -> pa.Table | None:
    """Returns the orphans' messages of a chunk's absent sequences, each once, ascending; None if they have none."""
    ranges = meta.deleted or (meta.covers,)
    held: Int64s | None = None
    parts: list[pa.Table] = []
    for orphan in orphans.overlapping(meta.incarnation, ranges):
        if held is None:
            own = open_chunk(orphans.workspace.bucket(meta.bucket).get(meta.key), meta)
            held = np.concatenate([batch.column("seq").to_numpy() for batch in own.batches(["seq"])])
        part = table_of(messages_of(orphans.archive, orphan.reader, meta.covers))
        seqs: Int64s = part.column("seq").to_numpy()
        part = part.filter(pa.array(~np.isin(seqs, held)))
        held = np.union1d(held, seqs)
        if part.num_rows:
            parts.append(part)
    return pa.concat_tables(parts).sort_by("seq") if parts else None


def messages_of(archive: Archive, reader: ChunkReader, seqs: SeqRange) -> Iterator[pa.RecordBatch]:
    """The messages of an object in these sequences that the archive takes, in batches of MESSAGES."""
    for part, subjects in archive.filters(reader.meta.incarnation, seqs):
        for batch in reader.batches(seqs=part):
            taken = selected(batch, subjects) if subjects else batch
            if taken.num_rows:
                yield taken


def _chunks(orphans: Orphans, orphan: Orphan, seqs: SeqRange, reason: Reason) -> Iterator[ChunkMeta]:
    """Chunks of what the orphan has of `seqs`; or the orphan itself, where it covers just these. `reason`: of absences
    that the orphan does not explain."""
    archive, reader, meta, footer = orphans.archive, orphan.reader, orphan.meta, orphan.reader.footer
    bucket = orphans.workspace.bucket(archive.spec.bucket)
    for part, subjects in archive.filters(meta.incarnation, seqs):
        is_same_filter = set(subjects) == set(footer.subjects)
        if is_same_filter and meta.covers == part and meta.bucket == archive.spec.bucket:
            yield meta
            continue
        origin = Origin(archive.spec, meta.incarnation, meta.hour, footer.config, subjects)
        if is_same_filter:
            yield from write_chunks(bucket, origin, part, footer.absent_reason or "deleted", reader.batches(seqs=part))
        elif not footer.subjects:
            # It took every subject: what it has not is absent, and what the filter leaves out is there.
            yield from write_chunks(bucket, origin, part, "unselected", messages_of(archive, reader, part))
        elif covers := _reach(messages_of(archive, reader, part)):
            yield from write_chunks(bucket, origin, covers, reason, messages_of(archive, reader, part))


def _report(archive: Archive, messages: int) -> None:
    log.warning("%s: %d messages were found in objects that no chunk had", archive.name, messages)


def _reach(batches: Iterable[pa.RecordBatch]) -> SeqRange | None:
    """Returns the range from the first to the last sequence; None for no message."""
    ends = [(batch.column("seq")[0].as_py(), batch.column("seq")[-1].as_py()) for batch in batches]
    return SeqRange(ends[0][0], ends[-1][1]) if ends else None
