"""Live: what the stream has behind the archive, read as a capture reads it.

Invariant: a sequence is passed without a message only where the stream's leader has none, nothing but somebody's will
may have removed it, and the archive does not have it either.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.captures.absence import Absences
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import LOSSES, Archive, Incarnation, SeqRange, StreamState
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the stream that was read."""

    # Of the columns MESSAGES; without rows where there was no message.
    batch: pa.RecordBatch
    # The last sequence that is accounted for.
    last: int


def read_live(
    workspace: Workspace, archive: Archive, state: StreamState, seqs: SeqRange, *, over_gaps: bool
) -> Generator[Part, None, SeqRange | None]:
    """The messages of these sequences, which the stream has reached, ascending, that the archive takes. The generator's
    value: sequences behind the last part of which only the archive can tell, because the stream no longer has them or
    the archive has them by now; None where all were read. `state`: the stream before this read. `over_gaps`: pass what
    was lost. Raises StreamChanged, SourceError."""
    life = state.incarnation
    removing = workspace.catalog.coverage.removing_settings(life)
    for part, filters in archive.filters(life, seqs):
        absences = Absences(state, removing, filtered=bool(filters))
        following = part.first
        for batch in read_batches(workspace.settings.nats, ReadSpec(life, part, filters)):
            numbers = batch.column("seq").to_numpy()
            last = int(numbers[-1])
            if last - following + 1 != len(numbers):
                before = np.concatenate(([following - 1], numbers[:-1]))
                gaps = np.flatnonzero(numbers - before > 1)
                absent = [SeqRange(int(before[at]) + 1, int(numbers[at]) - 1) for at in gaps]
                unsure = _unsure(workspace, archive, life, absences, absent, SeqRange(following, last), over_gaps)
                if unsure:
                    rows = int(np.searchsorted(numbers, unsure.first))
                    if rows:
                        yield Part(batch.slice(0, rows), unsure.first - 1)
                    return unsure
            yield Part(batch, last)
            following = last + 1
        if following <= part.last:
            rest = SeqRange(following, part.last)
            unsure = _unsure(workspace, archive, life, absences, [rest], rest, over_gaps)
            if unsure:
                return unsure
            yield Part(pa.RecordBatch.from_pylist([], schema=MESSAGES), part.last)
    return None


def _unsure(
    workspace: Workspace, archive: Archive, life: Incarnation, absences: Absences, absent: list[SeqRange],
    within: SeqRange, over_gaps: bool,
) -> SeqRange | None:  # fmt: skip
    """The first of the absent sequences, and what follows, of which only the archive can tell; None where nothing is
    missing. `within`: what was read. The stream and the archive are asked after the absence was seen."""
    state = same_stream(workspace.link, life)
    absences.look(state)
    if workspace.catalog.coverage.covered(archive, life, within):
        return SeqRange(absent[0].first, within.last)
    if over_gaps:
        return None
    for lost in _lost(absences, state, absent):
        return lost
    return None


def _lost(absences: Absences, state: StreamState, absent: list[SeqRange]) -> Iterator[SeqRange]:
    inside = absences.inside in LOSSES
    for seqs in absent:
        if inside:
            yield seqs
        elif seqs.first < state.first_seq or state.damaged:
            yield from (part for part, reason in absences.gaps(seqs) if reason in LOSSES)

