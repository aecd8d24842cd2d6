"""Repair: capture again what bad chunks held, while the stream still has it.

The bad object goes first, then the catalog lets go of the chunk, then the hour is captured. So a process that dies in
between leaves a chunk that is still known as bad, or a hole that the next capture fills.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.verify import Verified
from nats3_dagster.errors import ObjectMissing, OperatorError, SourceError
from nats3_dagster.model import Archive, Chunk, ChunkMeta, StreamState
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Repair:
    """What can be done about bad chunks."""

    # The stream still has every sequence of these.
    possible: tuple[Chunk, ...]
    # Only a copy of the bucket can bring these back.
    too_late: tuple[Chunk, ...]
    # These cannot be read though their objects are what was written, by a newer release for instance: left alone.
    as_written: tuple[Chunk, ...]

    @property
    def messages(self) -> int:
        """What the chunks that can be repaired held."""
        return sum(c.meta.messages for c in self.possible)


def plan_repair(
    workspace: Workspace, archive: Archive, state: StreamState, bad: Sequence[Verified], *, every: int | None = None
) -> Repair:
    """What can be done about chunks that could not be verified. `every`: how many chunks the archive has, where all of
    them were verified.

    Raises StoreError; OperatorError when none of all objects is there: that is another store."""
    missing = sum(isinstance(verified.error, ObjectMissing) for verified in bad)
    if every is not None and missing == every > 1:
        raise OperatorError(
            f"None of the {missing} objects of archive {archive.name} is in {workspace.settings.store.place}",
            Next.NAME_HOURS_TO_REPAIR(),
        )
    chunks = [verified.chunk for verified in bad]
    as_written = tuple(c for c in chunks if _is_as_written(workspace, c.meta))
    rest = [c for c in chunks if c not in as_written]

    def in_stream(chunk: Chunk) -> bool:
        return chunk.meta.incarnation == state.incarnation and chunk.meta.covers.first >= state.first_seq

    return Repair(tuple(c for c in rest if in_stream(c)), tuple(c for c in rest if not in_stream(c)), as_written)


def repair(workspace: Workspace, archive: Archive, planned: Repair, capture: Callable[[Sequence[str]], object]) -> int:
    """How many messages are in the place of the bad chunks now. `capture(hours)` captures hours of the archive. Raises
    Nats3Error."""
    for chunk in planned.possible:
        workspace.bucket(chunk.meta.bucket).delete(chunk.meta.key)
    workspace.catalog.chunks.retire(archive, [c.id for c in planned.possible], recapture=True)
    capture(sorted({c.meta.hour for c in planned.possible}))
    return sum(_captured_again(workspace, archive, chunk.meta) for chunk in planned.possible)


def _captured_again(workspace: Workspace, archive: Archive, before: ChunkMeta) -> int:
    """Messages that the archive has of the sequences that a chunk covered."""
    catalog = workspace.catalog
    if catalog.coverage.missing(archive, before.incarnation, before.covers):
        raise SourceError(f"Sequences {before.covers} were not captured again", Next.CAPTURE(archive=archive.name))
    chunks = catalog.chunks.select(archive, incarnation=before.incarnation, seqs=before.covers)
    return sum(c.meta.messages for c in chunks if c.meta.covers.first >= before.covers.first)


def _is_as_written(workspace: Workspace, meta: ChunkMeta) -> bool:
    """Asked of the store once more: what is bad will be deleted, and one bad answer is too little for that."""
    try:
        data = workspace.bucket(meta.bucket).get(meta.key)
    except ObjectMissing:
        return False
    return hashlib.sha256(data).hexdigest() == meta.sha256
