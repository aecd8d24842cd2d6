"""Partitions of an archive: which chunks a read takes, grouped into Spark's partitions. Asked of the catalog, on the
driver alone.

Invariant: what is in no chunk and may be lost is an error, by the same rule as a replay's, unless the read allows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.selected.lookup import chunks_of, lost_of_selection, uncovered, with_subjects
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import hour_start, hours_between
from nats3_dagster.model import Archive, Chunk, Selection, SeqRange, clipped
from nats3_dagster.pipeline.sources.narrowing import Narrowing
from nats3_dagster.subjects import readable
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
    narrowing: Narrowing,
    *,
    fail_on_data_loss: bool,
    partition_bytes: int,
) -> list[ChunkGroup]:
    """The partitions of a read, in the order of the stream; none if it takes nothing. `partition_bytes`: of subjects,
    headers and payloads that a partition has at most, unless one chunk has more.

    Raises OperatorError if there is no such archive, or sequences may be lost; SourceError if the stream cannot be
    asked about that."""
    archive = workspace.catalog.archives.get(name)
    narrowed = narrowing.selection(selection)
    if narrowed is None:
        return []
    while True:
        # A chunk that is committed between two of the questions would be passed over: it is covered by then.
        revision = workspace.catalog.hours.revision(archive)
        found = _partitions_of(workspace, archive, narrowed, narrowing, fail_on_data_loss, partition_bytes)
        if workspace.catalog.hours.revision(archive) == revision:
            return found


def _partitions_of(
    workspace: Workspace,
    archive: Archive,
    narrowed: Selection,
    narrowing: Narrowing,
    fail_on_data_loss: bool,
    partition_bytes: int,
) -> list[ChunkGroup]:
    chunks = chunks_of(workspace, archive, narrowed)
    if narrowing.hour_filters:
        hours = tuple(hour for hour in _hours(narrowed, chunks) if narrowing.takes_hour(hour))
        if not hours:
            return []
        narrowed, chunks = replace(narrowed, hours=hours), tuple(c for c in chunks if c.meta.hour in set(hours))
    seqs = SeqRange(*narrowing.seqs) if narrowing.narrows_seqs else None
    if seqs:
        chunks = tuple(c for c in chunks if clipped([c.meta.covers], seqs))
    if fail_on_data_loss:
        _check_whole(workspace, archive, narrowed, chunks, seqs)
    taken = [c for c in with_subjects(workspace, chunks, narrowed) if _may_have(c, narrowing)]
    # The counts by subject are for the plan alone: thousands of them would travel with every task.
    light = [replace(c, meta=replace(c.meta, subjects=None, minutes=None, deleted=None)) for c in taken]
    return [ChunkGroup(group, narrowed.sequences or seqs, narrowed.times) for group in _groups(light, partition_bytes)]


def _hours(selection: Selection, chunks: Sequence[Chunk]) -> Iterator[str]:
    """The hours of the selection; without any, those from the first chunk to the last one."""
    if selection.hours:
        return iter(selection.hours)
    starts = [hour_start(chunk.meta.hour) for chunk in chunks]
    return hours_between(min(starts), max(starts)) if starts else iter(())


def _check_whole(
    workspace: Workspace, archive: Archive, selection: Selection, chunks: Sequence[Chunk], seqs: SeqRange | None
) -> None:
    """Raises OperatorError if sequences of the selection may be lost, or are not captured yet though its end has come.
    `seqs`: those that filters leave, where the selection itself has none."""
    lost = uncovered(workspace, archive, selection, Held.of_chunks(chunks), up_to_now=True)
    if seqs:
        lost = clipped(lost, seqs)
    if lost:
        what, _ = lost_of_selection(archive, lost)
        raise OperatorError(what, _LOSS_HINT)


def _may_have(chunk: Chunk, narrowing: Narrowing) -> bool:
    subjects = chunk.meta.subjects
    return subjects is None or any(narrowing.takes_subject(readable(subject)) for subject in subjects)


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
