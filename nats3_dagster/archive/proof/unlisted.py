"""Unlisted objects: what the bucket holds that no chunk of the archive lists, message by message, and its adoption."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nats3_dagster.archive.captures.adopt import adopt, messages_of, missing_in
from nats3_dagster.archive.captures.orphans import Orphans
from nats3_dagster.archive.captures.rewrite import merge
from nats3_dagster.archive.stored import folder
from nats3_dagster.archive.stored.erased import erased_of
from nats3_dagster.archive.stored.removal import remove_objects
from nats3_dagster.chunks import ChunkReader, open_chunk
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.model import REMOVED, Archive, Gap, Incarnation, SeqRange, clipped
from nats3_dagster.model.numbers import Int64s
from nats3_dagster.workspace import Workspace

# How long an erasure may run meanwhile.
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Unlisted:
    """An object of the archive's folder that no chunk lists."""

    key: str
    stored_bytes: int
    # Those that the archive takes; 0 where it cannot be told.
    messages: int = 0
    # Messages among them that no chunk of the archive has, and that were not retired.
    missing: int = 0
    # Why the object is not adopted; empty where it may be.
    reason: str = ""


def examine(workspace: Workspace, archive: Archive, orphans: Orphans | None = None) -> Iterator[Unlisted]:
    """Each unlisted object, opened, proven and compared with the stream; also what deleted archives of this folder had
    at their end, and objects with messages under other names than those of chunks. `orphans`: of a bucket that was
    listed before. Raises StoreError, SourceError."""
    orphans = orphans or unlisted_orphans(workspace, archive)
    incarnations = workspace.catalog.coverage.incarnations(archive)
    for key, size in orphans.all().items():
        owner = next((own for own in incarnations if orphans.covers(key, own)), None)
        if owner is None:
            yield Unlisted(key, size, reason="it is of a stream that the archive does not hold")
        elif orphan := orphans.open(key, owner):
            seqs = _seqs(archive, orphan.reader)
            yield Unlisted(key, size, len(seqs), _missing(workspace, archive, orphan.reader, seqs))
        else:
            yield Unlisted(key, size, reason=orphans.refused[key])
    for key, size in orphans.foreign().items():
        if reason := _foreign_reason(workspace, archive, key):
            yield Unlisted(key, size, reason=reason)


def _foreign_reason(workspace: Workspace, archive: Archive, key: str) -> str:
    """Returns the reason why an object with the name of no chunk is not adopted, with the messages that it has; empty
    if it has none that can be read. Raises StoreError."""
    try:
        reader = open_chunk(workspace.bucket(archive.spec.bucket).get(key))
        meta = reader.verify()
    except (ChunkError, ObjectMissing):
        return ""
    text = f"{meta.messages:,} messages of the sequences {meta.covers}: it has not the name of a chunk"
    if meta.archive == archive.name and (missing := missing_of(workspace, archive, reader)):
        text += f". The archive misses {missing:,} of them: copy it to {meta.key}, and adopt that"
    return text


def unlisted_orphans(workspace: Workspace, archive: Archive) -> Orphans:
    """Returns the orphans for `examine` and `adopt_unlisted`; both may share them."""
    return Orphans(workspace, archive, with_deleted=True)


def adopt_unlisted(workspace: Workspace, archive: Archive, orphans: Orphans | None = None) -> int:
    """Put the messages into the archive that unlisted objects hold and that it says are absent, or that are before its
    first sequence; the number of them. What is between those and its first sequence is then a gap `missing`. Each chunk
    is replaced in a transaction of its own. Raises Conflict if the archive changed meanwhile, StoreError,
    SourceError."""
    folder.require(workspace, archive)
    with workspace.catalog.locks.rewriting(archive, PATIENCE_S):
        return _adopt_all(workspace, archive, orphans or unlisted_orphans(workspace, archive))


def _adopt_all(workspace: Workspace, archive: Archive, orphans: Orphans) -> int:
    catalog = workspace.catalog
    keys = list(orphans.all())
    adopted = 0
    for coverage in catalog.coverage.all(archive):
        incarnation, start = coverage.incarnation, coverage.start
        held = sorted((seqs, key) for key in keys if (seqs := orphans.covers(key, incarnation)))
        for seqs, key in held:
            begun = catalog.now()
            gaps = [
                Gap(incarnation, ranges, gap.reason)
                for gap in catalog.gaps.select(archive, incarnation=incarnation, within=seqs)
                if gap.reason not in REMOVED and (ranges := tuple(clipped(gap.ranges, seqs)))
            ]
            chunks, _ = adopt(orphans, gaps)
            between: tuple[Gap, ...] = ()
            if seqs.first < start and orphans.open(key, incarnation):
                before = Gap(incarnation, (SeqRange(seqs.first, start - 1),), "missing")
                earlier, between = adopt(orphans, [before])
                if earlier:
                    chunks, start = (*earlier, *chunks), seqs.first
                    catalog.coverage.extend_back(archive, incarnation, start)
            if chunks:
                catalog.chunks.commit(archive, chunks, between, begun=begun, what="adopted")
                adopted += sum(meta.messages for meta in chunks)
            adopted += _fill_chunks(workspace, archive, orphans, incarnation, seqs)
    return adopted


def _fill_chunks(
    workspace: Workspace, archive: Archive, orphans: Orphans, incarnation: Incarnation, seqs: SeqRange
) -> int:
    catalog = workspace.catalog
    added = 0
    for chunk in catalog.chunks.select(archive, incarnation=incarnation, seqs=seqs, with_deleted=True):
        old = chunk.meta
        if old.messages == old.covers.size or old.absent_reason in REMOVED:
            continue
        begun = catalog.now()
        if (messages := missing_in(orphans, old)) is not None:
            chunks = merge(workspace.bucket, archive.spec, old, messages)
            catalog.chunks.replace(archive, [chunk.id], chunks, (), begun=begun, what="adopted")
            remove_objects(workspace, old.bucket, [old.key])
            added += messages.num_rows
    return added


def missing_of(workspace: Workspace, archive: Archive, reader: ChunkReader) -> int:
    """Returns the number of messages of an object that no live chunk has, and that were not removed."""
    return _missing(workspace, archive, reader, _seqs(archive, reader))


def _missing(workspace: Workspace, archive: Archive, reader: ChunkReader, seqs: Int64s) -> int:
    """Returns the number of the sequences that have no message in a live chunk, and no gap of a removed message."""
    meta = reader.meta
    missing = np.ones(len(seqs), bool)
    for chunk in workspace.catalog.chunks.select(
        archive, incarnation=meta.incarnation, seqs=meta.covers, with_deleted=True
    ):
        own = chunk.meta
        inside = (seqs >= own.covers.first) & (seqs <= own.covers.last)
        if own.messages < own.covers.size and own.absent_reason not in REMOVED:
            stored = open_chunk(workspace.bucket(own.bucket).get(own.key), own)
            inside &= np.isin(seqs, np.concatenate([b.column("seq").to_numpy() for b in stored.batches(["seq"])]))
        missing &= ~inside
    gaps = workspace.catalog.gaps.select(archive, incarnation=meta.incarnation, within=meta.covers)
    removed = [part for gap in gaps if gap.reason in REMOVED for part in gap.ranges]
    for part in (*removed, *erased_of(workspace, archive, meta.incarnation, [meta.covers])):
        missing &= (seqs < part.first) | (seqs > part.last)
    return int(missing.sum())


def _seqs(archive: Archive, reader: ChunkReader) -> Int64s:
    """The sequences of the messages that the archive takes."""
    columns = [batch.column("seq").to_numpy() for batch in messages_of(archive, reader, reader.meta.covers)]
    return np.concatenate(columns) if columns else np.array([], np.int64)
