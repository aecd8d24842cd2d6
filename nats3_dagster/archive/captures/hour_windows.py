"""Hour windows: the sequences of each hour that a job captures.

Invariant: the windows of a job are disjoint and ascend with their hours. Both bounds come from the one function of time
that the server has, so that hours tile the sequences whatever the clock did.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from nats3_dagster.hours import HOUR_NS, hour_bounds
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.times import first_seq_at, first_seqs_at
from nats3_dagster.model import SeqRange, StreamState

# A job has this number of hours at most. Its results are in the driver's memory at a time, and a process that dies
# before the commit loses the reading of one job.
JOB_HOURS = 500
# A job of several hours has this number of sequences at most: some seconds of reading.
JOB_SEQS = 1_000_000


@dataclass(frozen=True, slots=True)
class HourWindow:
    """The sequences of one hour."""

    hour: str
    # None where the stream has none of the hour.
    seqs: SeqRange | None


def job_windows(link: Link, state: StreamState, hours: Sequence[str], start: int) -> tuple[HourWindow, ...]:
    """The windows of the first of these hours, ascending ones, that one job captures: one hour at least. `start`: the
    first sequence that the archive accounts for. Raises OperatorError for a bad hour, SourceError."""
    bounds = [hour_bounds(hour) for hour in hours[:JOB_HOURS]]
    first_seqs = {bounds[0][0]: first_seq_at(link, state.read_stream, bounds[0][0])}
    count = min(len(bounds), _likely(state))
    while True:
        end_ns = bounds[count - 1][1]
        # The end of a single hour is asked for last, so that an open hour takes all that is there.
        first_seqs[end_ns] = first_seq_at(link, state.read_stream, end_ns)
        if count == 1 or first_seqs[end_ns] - first_seqs[bounds[0][0]] <= JOB_SEQS:
            break
        count = (count + 1) // 2
    rest = sorted({time_ns for pair in bounds[:count] for time_ns in pair} - first_seqs.keys())
    first_seqs |= zip(rest, first_seqs_at(link, state.read_stream, rest), strict=True)
    windows: list[HourWindow] = []
    for hour, (start_ns, end_ns) in zip(hours, bounds[:count], strict=False):
        # A clock that was set back may let a later time have an earlier sequence.
        start = max(start, first_seqs[start_ns])
        last = first_seqs[end_ns] - 1
        if state.origin:
            # What came since may be of another incarnation: the stream was not asked after it.
            last = min(last, state.last_seq)
        windows.append(HourWindow(hour, SeqRange(start, last) if start <= last else None))
        start = max(start, last + 1)
    return tuple(windows)


def by_hour(windows: Sequence[HourWindow], ranges: Iterable[SeqRange]) -> dict[str, list[SeqRange]]:
    """The parts of the ranges that lie in windows, by hour. Hours without any are left out."""
    filled = [(window.hour, window.seqs) for window in windows if window.seqs]
    lasts = [seqs.last for _, seqs in filled]
    parts: dict[str, list[SeqRange]] = {}
    for whole in ranges:
        for hour, seqs in islice(filled, bisect_left(lasts, whole.first), None):
            if seqs.first > whole.last:
                break
            part = SeqRange(max(seqs.first, whole.first), min(seqs.last, whole.last))
            parts.setdefault(hour, []).append(part)
    return parts


def _likely(state: StreamState) -> int:
    """Returns the number of hours that have JOB_SEQS sequences at the stream's mean rate, 1 at least: by it, an hour of
    many messages is asked for no other hour's bounds."""
    span_ns = max(state.last_ns - state.first_ns, HOUR_NS)
    return max(1, JOB_SEQS * span_ns // (HOUR_NS * max(state.last_seq - state.first_seq, 1)))
