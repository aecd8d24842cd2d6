"""Runs: which chunks of an hour become one, by what the catalog knows of them.

Invariant: the chunks of a run are adjacent, of one hour and incarnation, and together no larger than a chunk may be.
Once each run is one chunk, there is nothing more to merge.
"""

from collections.abc import Iterable, Sequence

from nats3_dagster.chunks.columns import CHUNK_BYTES, CHUNK_MESSAGES
from nats3_dagster.model import Chunk

Run = tuple[Chunk, ...]


def runs_of(chunks: Iterable[Chunk], below: int) -> list[Run]:
    """The runs of at least two chunks among those of an hour, which are in the order of the stream. A chunk with
    `below` bytes of subjects, headers and payloads or more is left alone."""
    runs: list[list[Chunk]] = []
    for chunk in chunks:
        if chunk.meta.payload_bytes >= below:
            runs.append([])
        elif runs and runs[-1] and _fits(runs[-1], chunk):
            runs[-1].append(chunk)
        else:
            runs.append([chunk])
    return [tuple(run) for run in runs if len(run) > 1]


def _fits(run: Sequence[Chunk], chunk: Chunk) -> bool:
    metas, last = [one.meta for one in (*run, chunk)], run[-1].meta
    return (
        (last.incarnation, last.hour, last.covers.last + 1)
        == (chunk.meta.incarnation, chunk.meta.hour, chunk.meta.covers.first)
        and sum(meta.payload_bytes for meta in metas) <= CHUNK_BYTES
        and sum(meta.messages for meta in metas) <= CHUNK_MESSAGES
        # A chunk names one reason for all that is absent in it.
        and len({meta.absent_reason for meta in metas} - {None}) <= 1
    )
