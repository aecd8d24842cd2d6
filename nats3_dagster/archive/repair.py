"""Repair: capture again what bad chunks held, while the stream still has it.

The rule kept here: the bad object goes first, then the catalog lets go of the chunk, then the hour is captured. So a
process that dies in between leaves a chunk that is still known as bad, or a hole that the next capture fills.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nats3_dagster.cli.captures import capture_hours
from nats3_dagster.errors import ObjectMissing, SourceError
from nats3_dagster.steps import Next

if TYPE_CHECKING:
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.model import Archive, Chunk, ChunkMeta, StreamState
    from nats3_dagster.objects import StoreOptions
    from nats3_dagster.settings import Settings


@dataclass(frozen=True, slots=True)
class Repair:
    """Bad chunks: those of which the stream still has every sequence, and those that only a copy can bring back. Apart
    from them, chunks that cannot be read though their objects are what was written, by a newer release for instance:
    they are left alone."""

    possible: tuple["Chunk", ...]
    too_late: tuple["Chunk", ...]
    as_written: tuple["Chunk", ...]

    @classmethod
    def of(cls, chunks: Sequence["Chunk"], state: "StreamState", options: "StoreOptions") -> "Repair":
        """`chunks` are those that could not be verified. Raises StoreError."""
        as_written = tuple(c for c in chunks if _is_as_written(options, c.meta))
        bad = [c for c in chunks if c not in as_written]

        def there(chunk: "Chunk") -> bool:
            return chunk.meta.incarnation == state.incarnation and chunk.meta.covers.first >= state.first_seq

        return cls(tuple(c for c in bad if there(c)), tuple(c for c in bad if not there(c)), as_written)

    @property
    def messages(self) -> int:
        """What the chunks that can be repaired held."""
        return sum(c.meta.messages for c in self.possible)

    def run(self, settings: "Settings", catalog: "Catalog", archive: "Archive") -> int:
        """How many messages are in the place of the bad chunks now. Raises Nats3Error."""
        from nats3_dagster.objects import Bucket

        for chunk in self.possible:
            Bucket(settings.store, chunk.meta.bucket).delete(chunk.meta.key)
        catalog.chunks.retire(archive, [c.id for c in self.possible], recapture=True)
        capture_hours(settings, archive.name, sorted({c.meta.hour for c in self.possible}), [])
        return sum(self._held(catalog, archive, chunk.meta) for chunk in self.possible)

    def _held(self, catalog: "Catalog", archive: "Archive", was: "ChunkMeta") -> int:
        """Messages that the archive has of the sequences that a chunk covered."""
        if catalog.coverage.missing(archive, was.incarnation, was.covers):
            raise SourceError(f"Sequences {was.covers} were not captured again", Next.CAPTURE(archive=archive.name))
        held = catalog.chunks.select(archive, incarnation=was.incarnation, seqs=was.covers)
        return sum(c.meta.messages for c in held if c.meta.covers.first >= was.covers.first)


def _is_as_written(options: "StoreOptions", meta: "ChunkMeta") -> bool:
    """Asked of the store once more: what is bad will be deleted, and one bad answer is too little for that."""
    from nats3_dagster.objects import Bucket

    try:
        return hashlib.sha256(Bucket(options, meta.bucket).get(meta.key)).hexdigest() == meta.sha256
    except ObjectMissing:
        return False
