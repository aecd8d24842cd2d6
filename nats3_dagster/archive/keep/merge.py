"""Merging: the messages of some chunks become those of one, which is read again from the store before it counts.

Invariant: the new chunk has the same rows, in the same order, with the same bytes, and the same sequences are absent
for the same reason. Anything else is an error, and nothing was changed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from nats3_dagster.archive.captures.rewrite import Origin
from nats3_dagster.archive.keep.runs import Run
from nats3_dagster.archive.stored.fetch import fetch_chunks
from nats3_dagster.chunks import ChunkReader, ChunkWriter, open_chunk
from nats3_dagster.chunks.footer import Footer
from nats3_dagster.chunks.rows_digest import RowsDigest
from nats3_dagster.errors import ChunkError, ObjectMissing
from nats3_dagster.fault_points import fault_point
from nats3_dagster.model import ArchiveSpec, Chunk, ChunkMeta, Reason, SeqRange
from nats3_dagster.model.stream import without
from nats3_dagster.objects import Bucket
from nats3_dagster.steps import Next

# Small objects that are fetched while one is read: their time is the store's answer.
AHEAD = 8


@dataclass(frozen=True, slots=True)
class Merged:
    """A chunk that is in the store and not yet in the catalog."""

    # The ids of the chunks in whose place it comes, ascending by sequence.
    old: tuple[int, ...]
    meta: ChunkMeta


@dataclass(slots=True)
class _Open:
    """The chunk that is written."""

    footer: Footer
    writer: ChunkWriter
    digest: RowsDigest = field(default_factory=RowsDigest)
    old: list[Chunk] = field(default_factory=list[Chunk])


def merge(bucket_of: Callable[[str], Bucket], spec: ArchiveSpec, run: Run, put: list[ChunkMeta]) -> Iterator[Merged]:
    """One chunk of a run, or several where the stream's configuration or the archive's filter changed in it: each for
    two or more old ones. `put` takes each object that this call added to the store, as soon as it is there.
    Raises ChunkError, naming what to do, if an old chunk is not as it was written; ObjectMissing; StoreError."""
    under_way: _Open | None = None
    for chunk, reader in _readers(bucket_of, spec, run):
        footer = reader.footer
        if under_way and (under_way.footer.stream_config, under_way.footer.subjects) != (
            footer.stream_config,
            footer.subjects,
        ):
            yield from _close(bucket_of, spec.name, under_way, put)
            under_way = None
        if under_way is None:
            meta = chunk.meta
            origin = Origin(spec, meta.incarnation, meta.hour, footer.config, footer.subjects)
            under_way = _Open(footer, origin.writer())
        for batch in reader.batches():
            under_way.digest.add(batch)
            under_way.writer.write(batch)
        under_way.old.append(chunk)
        fault_point("compact.chunk_read")
    if under_way:
        yield from _close(bucket_of, spec.name, under_way, put)


def _readers(bucket_of: Callable[[str], Bucket], spec: ArchiveSpec, run: Run) -> Iterator[tuple[Chunk, ChunkReader]]:
    try:
        yield from fetch_chunks(bucket_of, run, AHEAD)
    except ChunkError as error:
        raise damaged(spec.name, error) from error


def damaged(archive: str, error: ChunkError | ObjectMissing) -> ChunkError:
    """The error of a chunk that cannot be merged as it is."""
    return ChunkError(
        f"A chunk of archive {archive} is not as it was written, and its hour stays as it is: {error.what}",
        Next.REPAIR(archive=archive),
    )


def _close(bucket_of: Callable[[str], Bucket], archive: str, done: _Open, put: list[ChunkMeta]) -> Iterator[Merged]:
    if len(done.old) < 2:
        return
    metas = [chunk.meta for chunk in done.old]
    covers = SeqRange(metas[0].covers.first, metas[-1].covers.last)
    reasons: list[Reason] = [meta.absent_reason for meta in metas if meta.absent_reason]
    reason = reasons[0] if reasons else "deleted"
    data, meta = done.writer.finish(covers, reason)
    bucket = bucket_of(meta.bucket)
    if bucket.put_new(meta.key, data, meta.sha256):
        put.append(meta)
    fault_point("compact.object_put")
    # What the store answers counts, and not what was sent to it.
    _prove(archive, metas, meta, done.digest, open_chunk(bucket.get(meta.key), meta))
    fault_point("compact.proven")
    yield Merged(tuple(chunk.id for chunk in done.old), meta)


def _prove(archive: str, old: Sequence[ChunkMeta], new: ChunkMeta, digest: RowsDigest, reader: ChunkReader) -> None:
    """Raises ChunkError unless the object in the store, which the reader has read, has what the old chunks had."""
    again = RowsDigest()
    for batch in reader.batches():
        again.add(batch)
    seen = reader.verify()
    checks: dict[str, tuple[object, object]] = {
        "rows": (again.hexdigest(), digest.hexdigest()),
        "messages": (again.messages, sum(m.messages for m in old)),
        "metadata": (seen, new),
        "bytes": (seen.payload_bytes, sum(m.payload_bytes for m in old)),
        "largest message": (seen.largest_bytes, max(m.largest_bytes for m in old)),
        "first time": (seen.first_ns, min(m.first_ns for m in old)),
        "last time": (seen.last_ns, max(m.last_ns for m in old)),
        "absent sequences": (seen.absent, sum(m.absent for m in old)),
        "reasons": ({seen.absent_reason} - {None}, {m.absent_reason for m in old} - {None}),
    }
    if seen.absent_reason != "unselected":
        was = [r for m in old for r in m.deleted or ()]
        checks["ranges of absent sequences"] = (without(was, seen.deleted or ()), without(seen.deleted or (), was))
    if wrong := [name for name, (one, other) in checks.items() if one != other]:
        raise ChunkError(
            f"Chunks of archive {archive} could not be merged: {', '.join(wrong)} would differ",
            "Nothing was changed. This is a defect: report it",
        )
