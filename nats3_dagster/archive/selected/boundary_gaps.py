"""Returns the missing sequences at the edges of a selection, where no two of its chunks enclose them, by the stream as
it is now.

A chunk says nothing of what comes after it. The stream's server says which sequences an hour or a time has, and what it
still holds; of a stream that is gone the catalog knows how far it was seen.
"""

from collections.abc import Iterator

from nats3_dagster.archive.selected.held import Held
from nats3_dagster.archive.source.clocks import ask_clocks
from nats3_dagster.archive.source.windows import first_at
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, Coverage, Incarnation, Selection, SeqRange, StreamState, clipped
from nats3_dagster.workspace import Workspace

# After every sequence and every time.
_NO_END = 2**63 - 1


def uncaptured(
    workspace: Workspace,
    archive: Archive,
    selection: Selection,
    stream: StreamState | None,
    *,
    up_to_now: bool = False,
) -> Iterator[tuple[Incarnation, SeqRange]]:
    """The sequences of the selection that are in no chunk and no gap, and that the stream still has, or had when it was
    last seen. `stream`: as it is now, None if it is gone. Raises SourceError.

    A selection without an end ends with what is archived: new messages come all the time, and no capture could ever
    be complete up to them. `up_to_now`: so does one whose end has not come yet; of hours, the open one does."""
    now_ns = ask_clocks(workspace, stream).earliest_ns if up_to_now and _has_end(selection) else _NO_END
    for coverage in workspace.catalog.coverage.all(archive):
        if stream is not None and stream.incarnation == coverage.incarnation:
            windows = _in_stream(workspace, archive, stream, selection, coverage, now_ns)
        else:
            windows = _as_last_seen(workspace, selection, coverage)
        for window in windows:
            for missing in workspace.catalog.coverage.missing(archive, coverage.incarnation, window):
                yield coverage.incarnation, missing


def expired(
    workspace: Workspace, archive: Archive, stream: StreamState | None
) -> Iterator[tuple[Incarnation, SeqRange]]:
    """The sequences of any time that the stream no longer has, and that are in no chunk and no gap: the next capture
    records them as lost."""
    if archive.spec.mode == "consumer" and archive.spec.subjects:
        return  # what its own consumers took is not the archive's, and nothing tells it from what was lost
    known = workspace.catalog.coverage.incarnations(archive)
    if stream is not None and stream.incarnation in known and stream.first_seq > 1:
        below = SeqRange(1, stream.first_seq - 1)
        for missing in workspace.catalog.coverage.missing(archive, stream.incarnation, below):
            yield stream.incarnation, missing


def without_chunks(
    workspace: Workspace, archive: Archive, selection: Selection, held: Held
) -> Iterator[tuple[Incarnation, SeqRange]]:
    """Yields the sequences that an incarnation may have had in selected hours without a chunk: those between the hours
    before and those after."""
    if not selection.hours:
        return
    coverages = workspace.catalog.coverage.all(archive)
    # An incarnation begins when the stream is made again, and ends when the next one begins. The first one may have
    # older messages: a stream that was restored has.
    made = [hour_of(c.incarnation.created_ns) for c in coverages[1:]]
    for coverage, begin, end in zip(coverages, ["", *made], [*made, "9"], strict=True):
        incarnation = coverage.incarnation
        seen = held.hours_of(incarnation)
        for first_ns, end_ns in times_of(selection):
            first, last = hour_of(first_ns), hour_of(end_ns - 1)
            if any(first <= hour <= last for hour in seen) or end < first or last < begin:
                continue
            after, before = workspace.catalog.hours.beside(archive, incarnation, first, last)
            after, before = coverage.start - 1 if after is None else after, before or _NO_END
            if after + 1 < before:
                yield incarnation, SeqRange(after + 1, before - 1)


def _in_stream(
    workspace: Workspace,
    archive: Archive,
    stream: StreamState,
    selection: Selection,
    coverage: Coverage,
    now_ns: int,
) -> Iterator[SeqRange]:
    """The sequences that the selection takes of what the stream has now: up to the end of its times, or, where that
    comes after `now_ns`, up to what is archived. Its hours that have ended are taken whole. Times in sealed hours are
    left out: nothing of them is missing, and the stream's server is not asked where they are."""
    link = workspace.link
    for from_ns, to_ns in times_of(selection):
        bounded = from_ns > 0 and to_ns < _NO_END
        if bounded and workspace.catalog.hours.are_sealed(archive, hour_of(from_ns), hour_of(to_ns - 1)):
            continue
        first = first_at(link, archive.spec, from_ns) if from_ns else coverage.start
        last = stream.last_seq if selection.sequences else coverage.last
        if to_ns < _NO_END and to_ns <= now_ns:
            last = first_at(link, archive.spec, to_ns) - 1
        elif to_ns < _NO_END and selection.hours and from_ns < (ended_ns := hour_start(hour_of(now_ns))):
            last = max(last, first_at(link, archive.spec, ended_ns) - 1)
        if selection.sequences:
            first, last = max(first, selection.sequences.first), min(last, selection.sequences.last)
        first = max(first, stream.first_seq)
        if first <= last:
            yield SeqRange(first, last)


def _as_last_seen(workspace: Workspace, selection: Selection, coverage: Coverage) -> Iterator[SeqRange]:
    """Yields the sequences that the selection may have of a stream that is gone: those of its sequences, or the ones
    seen after the last archived one if a time of these may be selected."""
    state = workspace.catalog.coverage.last_state(coverage.incarnation)
    if state is None:
        return
    every = SeqRange(coverage.start, state.last_seq)
    if selection.sequences:
        yield from clipped([selection.sequences], every)
        return
    since_ns = coverage.last_ns or 0
    after = clipped([SeqRange(coverage.last + 1, state.last_seq)], every)
    if any(to_ns < _NO_END and from_ns <= state.last_ns and since_ns < to_ns for from_ns, to_ns in times_of(selection)):
        yield from after


def _has_end(selection: Selection) -> bool:
    return bool(selection.hours) or selection.to_ns is not None


def times_of(selection: Selection) -> Iterator[tuple[int, int]]:
    """The times `[from, to)` of the selection: one for each row of adjacent hours, cut by its times; 0 and _NO_END
    where it has no bound."""
    times = selection.times or (0, _NO_END)
    runs: list[tuple[int, int]] = []
    for start in sorted(hour_start(hour) for hour in set(selection.hours)):
        if runs and runs[-1][1] == start:
            runs[-1] = runs[-1][0], start + HOUR_NS
        else:
            runs.append((start, start + HOUR_NS))
    for from_ns, to_ns in runs or [(0, _NO_END)]:
        if max(from_ns, times[0]) < min(to_ns, times[1]):
            yield max(from_ns, times[0]), min(to_ns, times[1])
