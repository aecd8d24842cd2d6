"""Live: the stream's messages after the archive, read as a capture reads them.

Invariant: a sequence is passed without a message only if the stream's leader has none, it can only have been deleted on
purpose, and the archive does not have it either.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.read.cursor_state import CursorState
from nats3_dagster.archive.source.absence import Absences
from nats3_dagster.archive.source.observe import source_state
from nats3_dagster.archive.source.stream_changes import ends_before_error, recreated_error, rewritten_error
from nats3_dagster.jetstream.read.reader import ReadSpec, read_batches
from nats3_dagster.jetstream.streams import same_stream
from nats3_dagster.model import LOSSES, Archive, Coverage, Incarnation, Selection, SeqRange, StreamState
from nats3_dagster.model.messages import MESSAGES
from nats3_dagster.workspace import Workspace

# How often the stream is asked for new messages, and how long before the archive is looked at again.
POLL_S, LOOK_S = 0.25, 10.0


def tail(
    workspace: Workspace, archive: Archive, progress: CursorState, coverages: Sequence[Coverage], *, is_open: bool
) -> Generator[pa.RecordBatch, None, SeqRange | None]:
    """Reads the stream after the archived messages, for a while; a range that must be read from the archive ends it,
    and is the generator's value. `coverages`: as they were before the archive was read. `is_open`: there is a hole,
    which a capture may fill. Raises StreamChanged, SourceError."""
    newest, selection = coverages[-1], progress.selection
    life = newest.incarnation
    began = time.monotonic()
    while not progress.is_at_end:
        # Of a buffer it would have to be asked after each batch whose messages these are: a capture does so.
        state = source_state(workspace, archive).own
        if changed := recreated_error(archive, coverages, state):
            raise changed
        if state.incarnation != life:
            return None
        done = progress.done_of(life)
        if done is not None:
            if changed := ends_before_error(archive, state, done):
                raise changed
            if progress.witness and (changed := rewritten_error(workspace.link, archive, state, progress.witness)):
                raise changed
        next_seq = newest.start if done is None else done + 1
        first, last = max(next_seq, newest.last + 1), state.last_seq
        if is_open:
            own = done is not None if progress.position else len(coverages) == 1
            holes = workspace.catalog.coverage.missing(archive, life, SeqRange(next_seq, newest.last))
            if not own or selection.times or not holes:
                return None  # a capture has to fill it
            first, last = holes[0].first, min(holes[0].last, state.last_seq)
        if selection.sequences:
            first, last = max(first, selection.sequences.first), min(last, selection.sequences.last)
        if first <= last:
            parts = _read(workspace, archive, state, SeqRange(first, last), over_gaps=progress.over_gaps)
            while True:
                try:
                    part = next(parts)
                except StopIteration as end:
                    unsure: SeqRange | None = end.value
                    if unsure is not None:
                        return unsure
                    break
                yield from progress.hand_over(_timed(part.batch, selection), life, part.last)
        if is_open or time.monotonic() - began > LOOK_S:
            return None
        time.sleep(POLL_S)
    return None


def _timed(batch: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
    if not selection.times or not batch.num_rows:
        return batch
    stamps = batch.column("time_ns").to_numpy()
    first, end = selection.times
    return batch.filter(pa.array((stamps >= first) & (stamps < end)))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the stream that was read."""

    # Of the columns MESSAGES; without rows where there was no message.
    batch: pa.RecordBatch
    # The last sequence that is accounted for.
    last: int


def _read(
    workspace: Workspace, archive: Archive, state: StreamState, seqs: SeqRange, *, over_gaps: bool
) -> Generator[_Part, None, SeqRange | None]:
    """The messages of these sequences, which the stream has reached, ascending, that the archive takes. Returns the
    range after the last part that must be read from the archive, because the stream no longer has it or the archive has
    it by now; None if all was read. `state`: the stream before this read. `over_gaps`: pass what was lost. Raises
    StreamChanged, SourceError."""
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
                        yield _Part(batch.slice(0, rows), unsure.first - 1)
                    return unsure
            yield _Part(batch, last)
            following = last + 1
        if following <= part.last:
            rest = SeqRange(following, part.last)
            unsure = _unsure(workspace, archive, life, absences, [rest], rest, over_gaps)
            if unsure:
                return unsure
            yield _Part(pa.RecordBatch.from_pylist([], schema=MESSAGES), part.last)
    return None


def _unsure(
    workspace: Workspace,
    archive: Archive,
    life: Incarnation,
    absences: Absences,
    absent: list[SeqRange],
    within: SeqRange,
    over_gaps: bool,
) -> SeqRange | None:
    """Returns the range from the first absent sequence on that must be read from the archive; None if nothing is
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
