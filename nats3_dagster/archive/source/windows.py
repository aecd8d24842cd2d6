"""Windows: the hour that a sequence is captured in, and so the hours that are missing in an archive.

Invariant: hours tile the sequences by the server's own answer about time (docs/decisions.md, 1 and 21), never by the
store time of a message: a clock may have been set back.
"""

import time
from collections.abc import Iterator

from nats3_dagster.hours import HOUR_NS, hour_bounds, hour_of
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import message_from
from nats3_dagster.jetstream.read.times import first_held_at, first_seq_at
from nats3_dagster.model import Archive, ArchiveSpec, Incarnation, SeqRange, StreamState
from nats3_dagster.workspace import Workspace

# A day: quiet hours within one are named without asking. Between two stretches there may be fifty years, where one
# message has a time of 1970.
STRETCH_HOURS = 24


def hours_to_capture(
    workspace: Workspace, archive: Archive, state: StreamState, before: int | None = None
) -> list[str]:
    """Returns the hours with missing sequences, ascending, and quiet ones between hours of a day that have some; empty
    when the archive is complete. With `before`, those of sequences below it."""
    coverage = workspace.catalog.coverage
    start = coverage.start(archive, state.incarnation)
    last = state.last_seq if before is None else min(state.last_seq, before - 1)
    hours: dict[str, None] = {}
    windows = _Windows(workspace.link, state)
    for missing in coverage.missing(archive, state.incarnation, SeqRange(start, last)) if start <= last else ():
        if not state.messages:
            return [hour_of(time.time_ns())]  # any capture records what is gone from the stream
        first, last = (max(seq, state.first_seq) for seq in missing)
        for stretch in windows.stretches(SeqRange(first, last)):
            hours.update(dict.fromkeys(stretch))
    return sorted(hours)


def first_at(link: Link, spec: ArchiveSpec, time_ns: int) -> int:
    """The first sequence that the archive's stream has of `time_ns` or later; the last one plus 1 if there is none.
    Raises SourceError."""
    # A work queue refuses the consumer that `first_seq_at` makes. What such a stream does not hold is accounted for.
    return (first_held_at if spec.mode == "consumer" else first_seq_at)(link, spec.stream, time_ns)


def begin_of(workspace: Workspace, archive: Archive, incarnation: Incarnation, start_ns: int) -> int | None:
    """The first sequence of the chunks in the hour that starts at `start_ns` and in later ones: the hour begins there
    or before, and later sequences are in no earlier hour. None where the archive has no such chunk, or has sequences
    in another order than their hours, because a clock stepped. The stream's server is not asked."""
    before, first = workspace.catalog.hours.beside(archive, incarnation, hour_of(start_ns), hour_of(start_ns - 1))
    return first if first is not None and (before or 0) < first else None


def end_of(workspace: Workspace, archive: Archive, state: StreamState, hour: str) -> int:
    """The last sequence of the stream that was stored before the end of the hour, which has ended; where the archive
    has later chunks, the last one before these. Raises SourceError."""
    end_ns = hour_bounds(hour)[1]
    known = None if archive.spec.mode == "consumer" else begin_of(workspace, archive, state.incarnation, end_ns)
    return (first_at(workspace.link, archive.spec, end_ns) if known is None else known) - 1


class _Windows:
    """The hour in which a sequence is captured: the one whose window in a capture's plan holds it.

    That is mostly the hour of its store time. Where the server's clock was set back it is not, and a deleted message
    has no time; but the windows tile the sequences whatever the clock did, and only they decide."""

    def __init__(self, link: Link, state: StreamState) -> None:
        self._link, self._state = link, state
        self._first_seqs: dict[int, int] = {}  # by hour since 1970

    def stretches(self, seqs: SeqRange) -> Iterator[list[str]]:
        """The hours whose windows hold these sequences, ascending. Each stretch begins and ends with an hour that has
        some; quiet hours inside of it are named as well, for they cost a capture nothing and a question here."""
        first = seqs.first
        while first <= seqs.last:
            begin = self._hour(first)
            following = self._first_seq(begin + STRETCH_HOURS)
            end = self._hour(min(following - 1, seqs.last))
            yield [hour_of(hour * HOUR_NS) for hour in range(begin, end + 1)]
            first = following

    def _hour(self, seq: int) -> int:
        """The hour since 1970 whose window holds the sequence."""
        message = message_from(self._link, self._state.read_stream, seq)
        guess = (message[1] if message else max(self._state.last_ns, 0)) // HOUR_NS
        # Near the guess first, then further and further: the clock may have been wrong by months.
        step, low, high = 1, guess, guess + 1
        while low > 0 and self._first_seq(low) > seq:
            low, high, step = max(low - step, 0), low, step * 2
        step = 1
        while self._first_seq(high) <= min(seq, self._state.last_seq):
            low, high, step = high, high + step, step * 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._first_seq(middle) <= seq else (low, middle)
        return low

    def _first_seq(self, hour: int) -> int:
        """The first sequence of the hour's window."""
        if hour not in self._first_seqs:
            self._first_seqs[hour] = first_seq_at(self._link, self._state.read_stream, hour * HOUR_NS)
        return self._first_seqs[hour]
