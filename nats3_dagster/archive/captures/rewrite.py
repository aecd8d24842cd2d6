"""Rewriting: messages that are at hand become chunks in the store, of the sequences that are asked for."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from nats3_dagster.chunks import ChunkWriter, open_chunk
from nats3_dagster.chunks.columns import CHUNK_BYTES, CHUNK_MESSAGES, as_wire
from nats3_dagster.model import ArchiveSpec, ChunkMeta, Incarnation, Reason, SeqRange
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.objects import Bucket


@dataclass(frozen=True, slots=True)
class Origin:
    """The metadata of new chunks."""

    spec: ArchiveSpec
    incarnation: Incarnation
    hour: str
    # The stream's configuration when the messages were captured.
    config: Mapping[str, Any]
    # The subjects that the archive takes of these sequences; empty for all.
    subjects: tuple[str, ...] = ()

    def writer(self) -> ChunkWriter:
        spec = self.spec
        return ChunkWriter(
            spec.name,
            self.incarnation,
            self.hour,
            spec.bucket,
            spec.prefix,
            spec.zstd_level,
            self.config,
            self.subjects,
        )


def write_chunks(
    bucket: Bucket, origin: Origin, covers: SeqRange, absent_reason: Reason, batches: Iterable[pa.RecordBatch]
) -> Iterator[ChunkMeta]:
    """Put batches of MESSAGES, sequences ascending, as chunks that tile `covers`; none where there are no messages.
    The other sequences are absent for the reason given."""
    writer: ChunkWriter | None = None
    start = after = covers.first
    for batch in batches:
        rest = batch
        while rest.num_rows:
            writer = writer or origin.writer()
            rows = writer.room(rest, max_bytes=CHUNK_BYTES, max_messages=CHUNK_MESSAGES)
            if rows:
                writer.write(rest.slice(0, rows))
                after = int(rest.column("seq")[rows - 1].as_py()) + 1
                rest = rest.slice(rows)
            else:
                yield _put(bucket, writer, SeqRange(start, after - 1), absent_reason)
                writer, start = None, after
    if writer:
        yield _put(bucket, writer, SeqRange(start, covers.last), absent_reason)


def merge(bucket_of: Callable[[str], Bucket], spec: ArchiveSpec, old: ChunkMeta, found: pa.Table) -> list[ChunkMeta]:
    """New chunks for the place of one: its messages, and those found of sequences that it says are absent. Raises
    StoreError, ChunkError."""
    reader = open_chunk(bucket_of(old.bucket).get(old.key), old)
    merged = pa.concat_tables([table_of(reader.batches()), found]).sort_by("seq").combine_chunks()
    origin = Origin(spec, old.incarnation, old.hour, reader.footer.config, reader.footer.subjects)
    bucket = bucket_of(spec.bucket)
    return list(write_chunks(bucket, origin, old.covers, old.absent_reason or "deleted", merged.to_batches()))


def table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """The batches of MESSAGES as one table."""
    return pa.Table.from_batches([as_wire(batch) for batch in batches], MESSAGES)


def _put(bucket: Bucket, writer: ChunkWriter, covers: SeqRange, absent_reason: Reason) -> ChunkMeta:
    data, meta = writer.finish(covers, absent_reason)
    bucket.put_new(meta.key, data, meta.sha256)
    return meta
