"""Live chunks: which objects of a folder are in the archive, each read as far as the catalog's row needs it.

Invariant: a chunk that a manifest names is taken as the manifest proves it. Other chunks are taken only if no manifest
contradicts them, they are proven to the last message, and they say the same where they overlap.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nats3_dagster.archive.captures.rewrite import table_of
from nats3_dagster.archive.keep.erased_search import count_in
from nats3_dagster.archive.recovery.objects import HourObjects, StoredManifest, read_manifest
from nats3_dagster.archive.recovery.stored_archive import StoredArchive
from nats3_dagster.archive.source.agreement import disagreement
from nats3_dagster.archive.stored.ranged import open_object
from nats3_dagster.chunks import open_chunk
from nats3_dagster.chunks.footer import DAMAGED, Footer
from nats3_dagster.chunks.manifest import ManifestChunk
from nats3_dagster.chunks.naming import parse_key
from nats3_dagster.errors import ChunkError, ObjectMissing, OperatorError, SourceError
from nats3_dagster.model import Archive, ChunkMeta, Incarnation, SeqRange, clipped
from nats3_dagster.objects import Bucket
from nats3_dagster.workspace import Workspace

# Requests that wait for the store at a time: each has the footer of one chunk, or the columns of one row group.
PARALLEL = 16
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A chunk of the archive, with what the catalog has of it."""

    meta: ChunkMeta
    footer: Footer
    # Messages of it that were erased: of an object that an erasure has yet to remove.
    erased: int = 0


class LiveChunks:
    """Reads the chunks of an archive. What cannot be taken is named in `found`."""

    def __init__(
        self, workspace: Workspace, bucket: Bucket, archive: Archive, found: StoredArchive, *, whole: bool
    ) -> None:
        """`whole`: objects are read to their last byte and compared with their hashes, also those of manifests."""
        self._workspace, self._bucket, self._archive, self._stored = workspace, bucket, archive, found
        self._whole = whole
        # Why the stream was not asked about objects; empty while it answers.
        self.not_asked = ""

    def of_manifests(self, hours: Iterable[HourObjects]) -> Iterator[list[LiveChunk]]:
        """The chunks that manifests name as live, hour by hour. Gaps and seals go into `found`, and chunks that no
        manifest names. Raises StoreError."""
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="rebuild") as pool:
            for hour in hours:
                yield list(self._hour(pool, hour))

    def of_no_manifest(self) -> Iterator[list[LiveChunk]]:
        """The chunks that no manifest names and none contradicts, in the order of the stream: those of hours that were
        not sealed. Raises StoreError."""
        alone: list[tuple[int, SeqRange, str]] = []
        for key in self._stored.unlisted:
            name = parse_key(key)
            assert name is not None
            known = self._stored.incarnations.get(name.created_ns)
            if known is None or not known.is_accounted(name.covers):
                alone.append((name.created_ns, name.covers, key))
        for cluster in _clusters(sorted(alone)):
            yield list(self._chosen(cluster))

    def _hour(self, pool: ThreadPoolExecutor, hour: HourObjects) -> Iterator[LiveChunk]:
        found, newest = self._stored, self._newest(hour)
        entries: list[tuple[Incarnation, ManifestChunk]] = []
        for part in newest.manifest.parts if newest else ():
            one = found.incarnation(part.created_ns, part.first_seq)
            for gap in part.gaps:
                found.add_gap(one.created_ns, gap)
            incarnation = Incarnation(self._archive.spec.stream, one.created_ns)
            entries += [(incarnation, entry) for entry in part.chunks]
        named = {entry.key for _, entry in entries}
        found.unlisted |= {key: size for key, (size, _) in hour.chunks.items() if key not in named}

        def read(item: tuple[Incarnation, ManifestChunk]) -> LiveChunk | str:
            try:
                size, _ = hour.chunks.get(item[1].key, (None, None))
                return self._read_named(hour.hour, *item, size)
            except (ChunkError, ObjectMissing) as error:
                return error.what

        for (incarnation, entry), chunk in zip(entries, _ahead(pool, read, entries), strict=True):
            if isinstance(chunk, str):
                found.missing[entry.key] = chunk
            elif found.incarnation(incarnation.created_ns, entry.first_seq).covers_any(chunk.meta.covers):
                found.contradictions.append(f"manifests name two chunks of the sequences {chunk.meta.covers}")
            else:
                self._add_chunk(chunk)
                yield chunk

    def _newest(self, hour: HourObjects) -> StoredManifest | None:
        """The manifest with the highest number; the earlier ones go into `found`."""
        spec, newest = self._archive.spec, None
        for key in hour.manifests:
            is_last = key == hour.manifests[-1]
            try:
                manifest = read_manifest(self._bucket, key, spec.name, spec.prefix)
            except ChunkError as error:
                # An earlier one says nothing that counts.
                if is_last:
                    self._stored.contradictions.append(f"{key}: {error.what}")
                continue
            if newest and newest.manifest.number == manifest.manifest.number:
                self._stored.contradictions.append(f"{newest.key} and {key} have the same number")
            if newest:
                self._stored.former_seals.append(newest)
            newest = manifest
        if newest:
            self._stored.seals.append(newest)
        return newest

    def _read_named(
        self, hour: str, incarnation: Incarnation, entry: ManifestChunk, stored_bytes: int | None
    ) -> LiveChunk:
        """Raises ChunkError, ObjectMissing."""
        if stored_bytes is None:
            raise ObjectMissing(f"{entry.key} is not in the bucket {self._bucket.name!r}")
        if stored_bytes != entry.stored_bytes:
            raise ChunkError(f"{entry.key} has {stored_bytes} bytes and should have {entry.stored_bytes}", DAMAGED)
        if self._whole:
            reader = open_chunk(self._bucket.get(entry.key))
            meta = reader.verify()
        else:
            reader = open_object(self._bucket, entry.key, entry.stored_bytes, entry.sha256)
            meta = reader.count()
        own = ManifestChunk(
            meta.key,
            meta.sha256,
            meta.stored_bytes,
            *meta.covers,
            meta.messages,
            meta.payload_bytes,
            meta.first_ns,
            meta.last_ns,
            meta.absent_reason,
        )
        if own != entry or (meta.hour, meta.incarnation) != (hour, incarnation):
            raise ChunkError(f"{entry.key} is another chunk than its manifest names", DAMAGED)
        return LiveChunk(replace(meta, bucket=self._bucket.name), reader.footer)

    def _add_chunk(self, chunk: LiveChunk) -> None:
        meta = chunk.meta
        one = self._stored.incarnation(meta.incarnation.created_ns, meta.covers.first)
        one.cover(meta.covers)
        one.newest = max(one.newest, (meta.covers.last, meta.key, meta.stored_bytes))
        one.configs.setdefault(chunk.footer.stream_config, chunk.footer.config)

    def _chosen(self, cluster: list[tuple[int, SeqRange, str]]) -> Iterator[LiveChunk]:
        """Yields chunks of some objects whose sequences overlap: those that do not overlap and have the most messages
        together."""
        chunks: dict[str, LiveChunk] = {}
        for _, _, key in cluster:
            opened = self._open(key)
            if isinstance(opened, str):
                self._stored.refused[key] = opened
                continue
            for other in chunks.values():
                if fault := self._difference(opened.meta, other.meta):
                    self._stored.contradictions.append(f"{key} and {other.meta.key}: {fault}")
            chunks[key] = opened
        for key in _most(chunks):
            self._add_chunk(chunks[key])
            del self._stored.unlisted[key]
            yield chunks[key]

    def _open(self, key: str) -> LiveChunk | str:
        """The object, proven to its last message; or why it is not taken. Raises StoreError."""
        try:
            reader = open_chunk(self._bucket.get(key))
            meta = reader.verify()
        except (ChunkError, ObjectMissing) as error:
            return error.what
        spec = self._archive.spec
        if (meta.key, meta.archive, meta.incarnation.stream) != (key, spec.name, spec.stream):
            return "it is not the object of its key"
        filters = [subjects for _, subjects in self._archive.filters(meta.incarnation, meta.covers)]
        if [set(subjects) for subjects in filters] != [set(reader.footer.subjects)]:
            return "it was captured by another subject filter"
        try:
            if not self.not_asked and (reason := disagreement(self._workspace.link, reader, meta.incarnation)):
                return reason
        except (SourceError, OperatorError) as error:
            self.not_asked = error.what
        ranges = clipped(self._stored.erased.get(meta.incarnation.created_ns, ()), meta.covers)
        erased = count_in(reader, ranges) if ranges else 0
        return LiveChunk(replace(meta, bucket=self._bucket.name), reader.footer, erased)

    def _difference(self, one: ChunkMeta, other: ChunkMeta) -> str:
        """The difference of two objects in the messages that both have; empty where there is none."""
        both = SeqRange(max(one.covers.first, other.covers.first), min(one.covers.last, other.covers.last))
        if both.size < 1:
            return ""
        first, second = (table_of(open_chunk(self._bucket.get(meta.key)).batches(seqs=both)) for meta in (one, other))
        shared = pa.array(np.intersect1d(first["seq"], second["seq"]))
        first, second = (table.filter(pc.is_in(table["seq"], shared)) for table in (first, second))
        return "" if first.equals(second) else f"they have other messages of the sequences {both}"


def _clusters(objects: list[tuple[int, SeqRange, str]]) -> Iterator[list[tuple[int, SeqRange, str]]]:
    """Objects, ascending, in groups: those of one group overlap, and no two of different groups do."""
    cluster: list[tuple[int, SeqRange, str]] = []
    last = 0
    for one in objects:
        if cluster and (one[0] != cluster[0][0] or one[1].first > last):
            yield cluster
            cluster, last = [], 0
        cluster.append(one)
        last = max(last, one[1].last)
    if cluster:
        yield cluster


def _most(chunks: dict[str, LiveChunk]) -> list[str]:
    """The keys of chunks that do not overlap and have the most messages together that were not erased, ascending; of
    two such choices that with fewer erased ones, then that with fewer chunks."""
    # Each: messages, minus the erased ones, minus the number of chunks; their keys, the last sequence.
    choices: list[tuple[tuple[int, int, int], list[str], int]] = [((0, 0, 0), [], 0)]
    for key, chunk in sorted(chunks.items(), key=lambda item: item[1].meta.covers.last):
        covers = chunk.meta.covers
        (kept, erased, count), keys, _ = max((c for c in choices if c[2] < covers.first), key=lambda choice: choice[0])
        kept += chunk.meta.messages - chunk.erased
        choices.append(((kept, erased - chunk.erased, count - 1), [*keys, key], covers.last))
    return max(choices, key=lambda choice: choice[0])[1]


def _ahead(pool: ThreadPoolExecutor, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results in order, with PARALLEL calls under way."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(function, item))
        if len(waiting) > PARALLEL:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
