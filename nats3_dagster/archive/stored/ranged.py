"""Ranged: a chunk that is read in parts, its footer first and then single row groups, each by one request.

Invariant: a footer is acted on only if its digest matches and it is that of the chunk which the catalog expects; pages
are read with their checksums. What is missing or damaged in the archive's bucket is read from a copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from nats3_dagster.archive.stored.any_bucket import from_any_bucket, from_copies
from nats3_dagster.chunks.footer import DAMAGED
from nats3_dagster.chunks.footer_cache import ParsedFooter
from nats3_dagster.chunks.read import ChunkReader, footer_length, open_parsed, parse_footer, prove_identity
from nats3_dagster.chunks.sized_file import SizedFile
from nats3_dagster.errors import ChunkError, StoreError
from nats3_dagster.model import Chunk, ChunkMeta, SeqRange
from nats3_dagster.objects import Bucket

if TYPE_CHECKING:  # it imports the catalog, which workers do without
    from nats3_dagster.workspace import Workspace

# Read from the end of an object at once. The footer of 63 row groups, which is the most that a chunk of 64 MiB has,
# with subjects of 200 bytes and 8 KB of configuration takes 76 KB; a longer one costs one more request.
TAIL_BYTES = 128 << 10


@dataclass(frozen=True, slots=True)
class RangedChunk:
    """A chunk whose footer is here. Its row groups may be read by several threads, each with a reader of its own."""

    chunk: Chunk
    # Proven, and of this chunk.
    parsed: ParsedFooter
    _file: "_Object"
    _bucket_of: Callable[[str], Bucket]

    def reader(self) -> ChunkReader:
        """A reader that fetches each row group, from the first to the last column wanted, by one request."""
        return self._open(self._file.again())

    def reader_of(self, start: int, length: int) -> ChunkReader:
        """A reader that has these bytes of the object, by one request. Raises StoreError, ObjectMissing."""
        file = self._file.again()
        try:
            file.fetch(start, length)
        except StoreError:
            if not self.chunk.copies:
                raise
            # Each row group is then read from a copy.
        return self._open(file)

    def _open(self, file: "_Object") -> ChunkReader:
        meta = self.chunk.meta
        return open_parsed(
            self.parsed,
            pa.PythonFile(file, mode="r"),
            sha256=meta.sha256,
            stored_bytes=meta.stored_bytes,
            prepare=file.fetch,
            otherwise=self._from_copies if self.chunk.copies else None,
        )

    def _from_copies(self, error: StoreError) -> ChunkReader | None:
        """A reader of the first copy that has the chunk; None if none has it."""
        meta = self.chunk.meta

        def read(bucket: Bucket) -> ChunkReader:
            reader = open_object(bucket, meta.key, meta.stored_bytes, meta.sha256)
            prove_identity(reader.meta, meta)
            return reader

        return from_copies(self.chunk, self._bucket_of, read, because=error)


def open_ranged(workspace: "Workspace", chunk: Chunk) -> ChunkReader:
    """A reader of the chunk's messages that fetches what it is asked for: the footer now, by one request, or none if it
    is known; and each row group, from the first to the last column wanted, by one request. An object of up to
    TAIL_BYTES is fetched as a whole. Raises StoreError, ObjectMissing or ChunkError, and so does reading."""
    return open_parts(workspace, chunk).reader()


def open_object(bucket: Bucket, key: str, stored_bytes: int, sha256: str) -> ChunkReader:
    """A reader, as that of `open_ranged`, of an object that the catalog does not know. `sha256`: of the whole object,
    which is not read. Raises StoreError, ObjectMissing or ChunkError."""
    file = _Object(bucket, key, stored_bytes)
    parsed = _footer(file)
    source = pa.PythonFile(file, mode="r")
    return open_parsed(parsed, source, sha256=sha256, stored_bytes=stored_bytes, prepare=file.fetch)


def open_part(bucket: Bucket, meta: ChunkMeta, seqs: SeqRange) -> ChunkReader:
    """A reader, as that of `open_ranged`, of these sequences of a chunk and no others. Raises StoreError, ObjectMissing
    or ChunkError."""
    reader = open_object(bucket, meta.key, meta.stored_bytes, meta.sha256)
    prove_identity(reader.meta, meta)
    return reader.part(seqs)


def open_parts(workspace: "Workspace", chunk: Chunk, count: Callable[[int], object] | None = None) -> RangedChunk:
    """The chunk with its footer, as `open_ranged` has it. `count` is called with the bytes of each request, from the
    thread that makes it. Raises StoreError, ObjectMissing or ChunkError."""
    meta = chunk.meta
    file = _Object(workspace.bucket(meta.bucket), meta.key, meta.stored_bytes, count)
    known = workspace.footers.get(meta.bucket, meta.key, meta.sha256)
    if known is None:

        def read(bucket: Bucket) -> tuple[_Object, ParsedFooter]:
            tried = _Object(bucket, meta.key, meta.stored_bytes, count)
            return tried, _footer(tried)

        file, parsed = from_any_bucket(chunk, workspace.bucket, read)
    else:
        parsed = known
    parts = RangedChunk(chunk, parsed, file, workspace.bucket)
    prove_identity(parts.reader().meta, meta)
    if known is None:
        workspace.footers.put(meta.bucket, meta.key, meta.sha256, parts.parsed)
    return parts


def _footer(file: "_Object") -> ParsedFooter:
    tail = pa.py_buffer(file.fetch(max(0, file.size - TAIL_BYTES), min(file.size, TAIL_BYTES)))
    length = footer_length(tail)
    if length > file.size:
        raise ChunkError("The object's end is not that of a Parquet file", DAMAGED)
    if length > tail.size:
        before = file.fetch(file.size - length, length - tail.size)
        tail = pa.py_buffer(bytes(before) + tail.to_pybytes())
    return parse_footer(tail, file.size)


class _Object(SizedFile):
    """An object as a file; single parts of it are here."""

    def __init__(self, bucket: Bucket, key: str, size: int, count: Callable[[int], object] | None = None) -> None:
        super().__init__(size)
        self._bucket, self._key, self._count = bucket, key, count
        # The parts that are here: the end of the object, if it was read, and the last part that was fetched.
        self._parts: dict[str, tuple[int, memoryview]] = {}

    def again(self) -> "_Object":
        """The same object, with the parts that are here, for another reader."""
        other = _Object(self._bucket, self._key, self.size, self._count)
        other._parts = dict(self._parts)
        return other

    def fetch(self, start: int, length: int) -> memoryview:
        """This part of the object, by one request unless it is here."""
        for begin, data in self._parts.values():
            if begin <= start and start + length <= begin + len(data):
                return data[start - begin : start - begin + length]
        data = self._bucket.get_range(self._key, start, length)
        if self._count is not None:
            self._count(length)
        self._parts["end" if start + length == self.size else "last"] = start, data
        return data

    def read(self, size: int = -1) -> memoryview | bytes:
        rest = max(0, self.size - self._at)
        length = rest if size < 0 else min(size, rest)
        data = self.fetch(self._at, length) if length else b""
        self._at += length
        return data
