"""Orphans: chunks in the store that the catalog does not list, of captures that were killed or committed too late.

Invariant: an orphan is adopted only when it proves itself to the last message, and only of sequences that would be lost
without it. What was retired, or is being removed, is no orphan.
"""

import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.proof.rewrite import Origin, merge, table_of, write_chunks
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.chunks.naming import archive_prefix, hour_folder
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ChunkMeta, Gap, Incarnation, SeqRange, clipped, without
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.workspace import Workspace

log = logging.getLogger(__name__)
_NAME = re.compile(r"/([0-9TZ]+)-(\d{20})-(\d{20})-[0-9a-f]{12}\.parquet$")
# Above so many days all of the archive is listed at once.
_DAYS = 30


def adopt(workspace: Workspace, archive: Archive, gaps: Iterable[Gap]) -> tuple[tuple[ChunkMeta, ...], tuple[Gap, ...]]:
    """Chunks that orphans hold of sequences which would be recorded as lost, to be committed together with the gaps
    that remain. The store is listed only if there is a loss. Raises StoreError."""
    adopted: list[ChunkMeta] = []
    remaining: list[Gap] = []
    for gap in gaps:
        lost = gap.ranges
        for reader in _readers(workspace, archive, gap) if gap.is_loss else ():
            seqs_held = clipped(lost, reader.meta.covers)
            taken = [meta for seqs in seqs_held for meta in _take(workspace, archive, reader, seqs)]
            lost = without(lost, [meta.covers for meta in taken])
            adopted += taken
        if lost:
            remaining.append(Gap(gap.incarnation, tuple(lost), gap.reason))
    if adopted:
        messages = sum(meta.messages for meta in adopted)
        log.warning("%s: %d messages were found in objects that no chunk had", archive.name, messages)
    return tuple(adopted), tuple(remaining)


def fill(workspace: Workspace, archive: Archive, chunks: Sequence[ChunkMeta]) -> tuple[ChunkMeta, ...]:
    """The chunks that are to be committed, with the messages that orphans hold of sequences which they say were lost.
    The store is listed only if there are such. Raises StoreError."""
    own = {meta.key for meta in chunks}
    filled: list[ChunkMeta] = []
    for meta in chunks:
        found = _found(workspace, archive, meta, own) if meta.lost and meta.deleted else None
        filled += merge(workspace, archive, meta, found) if found else [meta]
    return tuple(filled)


def _found(workspace: Workspace, archive: Archive, meta: ChunkMeta, own: set[str]) -> pa.Table | None:
    """What orphans hold of a chunk's absent sequences, each once, ascending; None where they hold nothing."""
    absent: Int64s = np.array(meta.deleted, np.int64)
    parts: list[pa.Table] = []
    for reader in _readers(workspace, archive, Gap(meta.incarnation, meta.deleted or (), "expired"), own):
        table = table_of(reader.batches(seqs=meta.covers))
        seqs: Int64s = table.column("seq").to_numpy()
        at = np.searchsorted(absent[:, 0], seqs, side="right") - 1
        parts.append(table.filter(pa.array((at >= 0) & (seqs <= absent[at, 1]))))
    if not sum(part.num_rows for part in parts):
        return None
    found = pa.concat_tables(parts).sort_by("seq")
    seqs = found.column("seq").to_numpy()
    return found.filter(pa.array(np.diff(seqs, prepend=seqs[0] - 1) > 0))


def list_orphans(workspace: Workspace, archive: Archive) -> Iterator[tuple[str, int]]:
    """Key and size of the chunks in the archive's bucket that the catalog does not know, also those of captures that
    are under way."""
    spec = archive.spec
    listed = workspace.bucket(spec.bucket).list(archive_prefix(spec.prefix, spec.name))
    yield from _unknown(workspace, archive, ((key, size) for key, size in listed if _NAME.search(key)))


def _readers(workspace: Workspace, archive: Archive, gap: Gap, own: Collection[str] = ()) -> Iterator[ChunkReader]:
    """The orphans that hold sequences of the gap, proven; those with the most messages first. `own`: keys that are no
    orphans, because they are about to be committed."""
    bucket = workspace.bucket(archive.spec.bucket)
    # Compared first: a gap may have many ranges, and a day has many objects.
    within = [SeqRange(gap.ranges[0].first, gap.ranges[-1].last)]
    keys = [
        (key, size)
        for folder in _folders(workspace, archive, gap.incarnation, gap.ranges)
        for key, size in bucket.list(folder)
        if key not in own
        and (seqs := _covers(key, gap.incarnation))
        and clipped(within, seqs)
        and clipped(gap.ranges, seqs)
    ]
    found: list[ChunkReader] = []
    for key, _ in _unknown(workspace, archive, keys):
        try:
            reader = open_chunk(bucket.get(key))
            meta = reader.verify()
        except (ChunkError, ObjectMissing) as error:
            log.warning("%s: the object %s is not adopted: %s", archive.name, key, error.what)
            continue
        if (meta.key, meta.archive, meta.incarnation) == (key, archive.name, gap.incarnation):
            found.append(reader)
    yield from sorted(found, key=lambda reader: -reader.meta.messages)


def _take(workspace: Workspace, archive: Archive, reader: ChunkReader, seqs: SeqRange) -> Iterator[ChunkMeta]:
    """The orphan itself, if it covers no more than `seqs`; else new chunks of what it has of these."""
    meta, footer = reader.meta, reader.footer
    if meta.covers == seqs and meta.bucket == archive.spec.bucket:
        yield reader.verify()
        return
    origin = Origin(archive.spec, meta.incarnation, meta.hour, footer.config)
    bucket = workspace.bucket(archive.spec.bucket)
    yield from write_chunks(bucket, origin, seqs, footer.absent_reason or "deleted", reader.batches(seqs=seqs))


def _unknown(workspace: Workspace, archive: Archive, keys: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Those of the objects that no chunk has or had, and that nobody removes."""
    sized = dict(keys)
    known = workspace.catalog.removals.known(archive.spec.bucket, list(sized))
    yield from ((key, size) for key, size in sized.items() if key not in known)


def _folders(
    workspace: Workspace, archive: Archive, incarnation: Incarnation, ranges: Sequence[SeqRange]
) -> Iterator[str]:
    """Where chunks of these sequences may lie: in the days between the hours before them and behind them."""
    spec = archive.spec
    within = SeqRange(ranges[0].first, ranges[-1].last)
    first, last = workspace.catalog.hours.around(archive, incarnation, within)
    end_ns = hour_start(last) if last else time.time_ns() + HOUR_NS  # clocks differ
    days = range(hour_start(first) // (24 * HOUR_NS), end_ns // (24 * HOUR_NS) + 1) if first else range(0)
    if not 0 < len(days) <= _DAYS:
        yield archive_prefix(spec.prefix, spec.name)
        return
    for day in days:
        yield hour_folder(spec.prefix, spec.name, hour_of(day * 24 * HOUR_NS)).rpartition("/")[0]


def _covers(key: str, incarnation: Incarnation) -> SeqRange | None:
    """The sequences that a chunk of this incarnation covers by its key; None for other objects."""
    match = _NAME.search(key)
    return SeqRange(int(match[2]), int(match[3])) if match and match[1] == incarnation.token else None
