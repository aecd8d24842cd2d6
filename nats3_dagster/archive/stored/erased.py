"""The erased sequences of an archive, as all that writes messages into it asks for them.

Invariant: an erased message is not written again, and its absence has the reason `erased`, whatever else could have
removed it.
"""

from collections.abc import Iterable, Iterator, Sequence

from nats3_dagster.model import Archive, ChunkMeta, Gap, Incarnation, SeqRange, shared, without
from nats3_dagster.workspace import Workspace


def erased_of(
    workspace: Workspace, archive: Archive, incarnation: Incarnation, ranges: Sequence[SeqRange]
) -> tuple[SeqRange, ...]:
    """Returns the parts of the sequences that were erased, ascending. `ranges`: ascending."""
    if not ranges:
        return ()
    within = SeqRange(ranges[0].first, ranges[-1].last)
    return shared(ranges, workspace.catalog.erasures.of(archive, incarnation, within))


def apart(workspace: Workspace, archive: Archive, gaps: Iterable[Gap]) -> Iterator[Gap]:
    """The gaps, with erased sequences in gaps of their own."""
    for gap in gaps:
        erased = erased_of(workspace, archive, gap.incarnation, gap.ranges)
        if rest := without(gap.ranges, erased):
            yield Gap(gap.incarnation, rest, gap.reason)
        if erased:
            yield Gap(gap.incarnation, erased, "erased")


def may_have_erased(workspace: Workspace, archive: Archive, chunk: ChunkMeta) -> bool:
    """True if the chunk may have an erased message: an erasure that knows it is not finished. `chunk`: with its absent
    sequences."""
    erased = erased_of(workspace, archive, chunk.incarnation, [chunk.covers])
    return bool(without(erased, chunk.deleted or ()))
