"""Partitions of an archive: which chunks a read takes, grouped into Spark's partitions. The driver alone asks the
catalog.

Invariant: what is in no chunk and may be lost is an error, by the same rule as a replay's, unless the read allows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql.datasource import InputPartition

from nats3_dagster.archive.selected.archive_selection import ArchiveSelection
from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.uncovered import lost_of_selection, uncovered
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Chunk, Selection, SeqRange
from nats3_dagster.workspace import Workspace

# A partition of many small chunks: each costs the planner and the executor a request.
MAX_CHUNKS = 256
_LOSS_HINT = (
    "Capture those hours while the stream still has them, or set failOnDataLoss to false and read what there is"
)


@dataclass(eq=False)
class ChunkGroup(InputPartition):
    """Chunks that one task reads, in the order of the stream."""

    chunks: tuple[Chunk, ...]
    # What of their sequences and times is read, as ChunkReader.batches takes them.
    seqs: SeqRange | None
    times: tuple[int, int] | None


def partitions_of(
    workspace: Workspace,
    name: str,
    selection: Selection,
    *,
    fail_on_data_loss: bool,
    partition_bytes: int,
) -> list[ChunkGroup]:
    """The partitions of a read, in the order of the stream; none if it takes nothing. `partition_bytes`: of subjects,
    headers and payloads that a partition has at most, unless one chunk has more.

    Raises OperatorError if there is no such archive, or sequences may be lost; SourceError if the stream cannot be
    asked about that."""
    selected = ArchiveSelection(workspace, workspace.catalog.archives.get(name), selection)
    return selected.of_one_state(partial(_partitions_of, selected, fail_on_data_loss, partition_bytes))


def _partitions_of(selected: ArchiveSelection, fail_on_data_loss: bool, partition_bytes: int) -> list[ChunkGroup]:
    chunks, selection = selected.chunks(), selected.selection
    if fail_on_data_loss:
        _check_whole(selected, chunks)
    # The counts by subject are for the plan alone: thousands of them would travel with every task.
    light = [
        replace(c, meta=replace(c.meta, subjects=None, minutes=None, deleted=None))
        for c in selected.with_subjects(chunks)
    ]
    return [ChunkGroup(group, selection.sequences, selection.times) for group in _groups(light, partition_bytes)]


def _check_whole(selected: ArchiveSelection, chunks: Sequence[Chunk]) -> None:
    """Raises OperatorError if sequences of the selection may be lost, or are not captured yet though its end has
    come."""
    lost = uncovered(selected, Held.of_chunks(chunks), up_to_now=True)
    if lost:
        what, _ = lost_of_selection(selected.archive, lost)
        raise OperatorError(what, _LOSS_HINT)


def _groups(chunks: Sequence[Chunk], size: int) -> Iterator[tuple[Chunk, ...]]:
    group: list[Chunk] = []
    held = 0
    for chunk in chunks:
        if group and (held + chunk.meta.payload_bytes > size or len(group) == MAX_CHUNKS):
            yield tuple(group)
            group, held = [], 0
        group.append(chunk)
        held += chunk.meta.payload_bytes
    if group:
        yield tuple(group)
