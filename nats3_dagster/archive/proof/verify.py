"""Verifying: objects are what was written, and every sequence is accounted for.

Nothing is believed: each object is fetched, proven by its hash, read to its last message, and compared with all that
the catalog keeps of it.
"""

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import get_args

from nats3_dagster.archive.source.absence import lost_by_reason
from nats3_dagster.archive.stored.erased import may_have_erased
from nats3_dagster.archive.stored.fetch import fetch_each
from nats3_dagster.catalog.contents.subjects import SubjectIndex
from nats3_dagster.chunks.footer import DAMAGED
from nats3_dagster.chunks.manifest import decode_manifest
from nats3_dagster.errors import ChunkError, Nats3Error, ObjectMissing
from nats3_dagster.model import LOSSES, Archive, Chunk, ChunkMeta, Incarnation, Reason, Seal, SeqRange
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

# Chunks fetched while one is checked: at 64 MiB a chunk, more would be memory and no speed.
AHEAD = 2
# How often a sequence is drawn for each chunk that is wanted.
TRIES = 20
# Chunks whose subjects are asked of the catalog at a time: they are many.
PAGE = 200
# What the catalog keeps of a chunk and its footer does not say.
_COUNTED = ("deleted", "subjects", "minutes")
_RANDOM = random.SystemRandom()
_RESTORE = "Restore the catalog from a backup"


@dataclass(frozen=True, slots=True)
class Verified:
    """A chunk, and what is wrong with it."""

    chunk: Chunk
    error: Nats3Error | None


@dataclass(frozen=True, slots=True)
class Holes:
    """Sequences up to the newest captured one that are in no chunk and no gap; and what was lost."""

    # Ascending within each incarnation.
    ranges: tuple[SeqRange, ...]
    # Whether the stream no longer has the first of some hole: only a capture can record it then.
    gone: bool
    # Sequences in gaps by reason, 0 where there is none.
    gaps: dict[Reason, int]
    # Sequences that were lost, in gaps and between the messages of chunks, by reason, 0 where there is none.
    losses: dict[Reason, int]
    # Removed streams that may have had messages that no process saw: a loss of unknown size. Each with the last
    # sequence that it was seen with, oldest first.
    unknown_ends: tuple[tuple[Incarnation, int], ...] = ()

    @property
    def sequences(self) -> int:
        return sum(r.size for r in self.ranges)


def chunks_to_verify(workspace: Workspace, archive: Archive, hours: Sequence[str] | None = None) -> Iterator[Chunk]:
    """The live chunks, or those of some hours, with all that the catalog keeps of each, page by page."""
    pages = workspace.catalog.chunks.pages(archive, PAGE, hours=hours or None, with_subjects=True, with_deleted=True)
    return chain.from_iterable(pages)


def sample_chunks(workspace: Workspace, archive: Archive, count: int) -> tuple[Iterable[Chunk], int]:
    """`count` chunks chosen at random, 0 for all, with all that the catalog keeps of each; and how many there are. They
    are chosen by their sequences: a chunk with twice the number is met twice as often."""
    coverages = workspace.catalog.coverage.all(archive)
    total = sum(coverage.chunks for coverage in coverages)
    if not count or count >= total:
        return chunks_to_verify(workspace, archive), total
    chosen: set[int] = set()
    for _ in range(TRIES * count):
        (coverage,) = _RANDOM.choices(coverages, [coverage.chunks for coverage in coverages])
        seq = _RANDOM.randint(coverage.start, coverage.last)
        chunk = workspace.catalog.points.last_to(archive, coverage.incarnation, seq)
        if chunk is not None:
            chosen.add(chunk.id)
        if len(chosen) == count:
            break
    # Where few chunks have most of the sequences, they are met again and again.
    rest = workspace.catalog.chunks.select(archive, with_minutes=False, limit=2 * count)
    chosen.update([chunk.id for chunk in rest if chunk.id not in chosen][: count - len(chosen)])
    return [chunk for chunk_id in chosen if (chunk := workspace.catalog.chunks.find(chunk_id))], total


def verify_chunks(workspace: Workspace, chunks: Iterable[Chunk]) -> Iterator[Verified]:
    """Each chunk with what is wrong with it. A store that cannot be reached is no bad chunk: it raises StoreError."""
    archive_of = cache(workspace.catalog.archives.get)  # a bucket may have none of a million objects
    for chunk, reader in fetch_each(workspace.bucket, chunks, AHEAD):
        try:
            seen = reader.result().verify()
            _compare(seen, chunk.meta)
            _compare_index(seen, workspace.catalog.subjects.index_of(chunk.id))
            yield Verified(chunk, None)
        except ObjectMissing as error:
            yield Verified(chunk, _erased(workspace, archive_of(chunk.meta.archive), chunk.meta) or error)
        except ChunkError as error:
            yield Verified(chunk, error)


def verify_seals(workspace: Workspace, seals: Iterable[Seal]) -> Iterator[tuple[Seal, Nats3Error | None]]:
    """Each seal with what is wrong with its manifest in the store. Raises StoreError when that does not answer."""
    for seal in seals:
        try:
            data = bytes(workspace.bucket(seal.bucket).get(seal.key, seal.stored_bytes))
            if (sha256 := hashlib.sha256(data).hexdigest()) != seal.sha256:
                raise ChunkError(f"{seal.key} has SHA-256 {sha256} and should have {seal.sha256}", DAMAGED)
            decode_manifest(data)
            yield seal, None
        except (ChunkError, ObjectMissing) as error:
            yield seal, error


def find_holes(workspace: Workspace, archive: Archive) -> Holes:
    """Returns the holes of the archive. It asks the catalog alone."""
    coverage = workspace.catalog.coverage
    parts = coverage.all(archive)
    ranges: list[SeqRange] = []
    gone = False
    for part in parts:
        if part.last >= part.start:
            missing = coverage.missing(archive, part.incarnation, SeqRange(part.start, part.last))
            seen = coverage.last_state(part.incarnation)
            gone = gone or any(seen is None or hole.first < seen.first_seq for hole in missing)
            ranges += missing
    gaps = workspace.catalog.gaps.sums(archive)
    reasons: tuple[Reason, ...] = get_args(Reason)
    lost = lost_by_reason(gaps, parts)
    return Holes(
        tuple(ranges),
        gone,
        {reason: gaps.get(reason, 0) for reason in reasons},
        {reason: lost.get(reason, 0) for reason in LOSSES},
        tuple((part.incarnation, part.unknown_after) for part in parts if part.unknown_after is not None),
    )


def _erased(workspace: Workspace, archive: Archive, meta: ChunkMeta) -> ObjectMissing | None:
    """The error for an object that an erasure has taken away, where the catalog is older; None for any other one."""
    if not may_have_erased(workspace, archive, meta):
        return None
    return ObjectMissing(
        f"{meta.key} had erased messages and is gone, and the catalog still has its chunk: it is an older one",
        Next.FINISH_ERASURES(archive=archive.name),
    )


def _compare(seen: ChunkMeta, expected: ChunkMeta) -> None:
    """Raises ChunkError unless the catalog counts what the chunk holds. What the catalog was not asked for, or does not
    keep, is not compared."""
    for name in _COUNTED:
        kept = getattr(expected, name)
        if kept is not None and kept != getattr(seen, name):
            raise _other(name, expected)


def _compare_index(seen: ChunkMeta, index: SubjectIndex | None) -> None:
    """Raises ChunkError where a lookup by subject would pass over the chunk though it has the subject. A chunk without
    counts and without a filter is never passed over, and one that was retired meanwhile always."""
    if index is None:
        return
    if index.counted is not None and (seen.subjects is None or index.listed != len(seen.subjects)):
        raise _other("subjects", seen)
    if index.bloom is not None and index.bloom != seen.bloom:
        raise ChunkError(f"The catalog has another bloom filter for {seen.key} than its subjects make", _RESTORE)


def _other(name: str, meta: ChunkMeta) -> ChunkError:
    return ChunkError(f"The catalog has other {name} for {meta.key} than the chunk holds", _RESTORE)
