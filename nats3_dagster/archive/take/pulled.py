"""Pulled messages as chunks: which are new, which hour each belongs to, and what absent sequences mean.

Invariants: chunks are disjoint, and disjoint from what is covered. The pulls of several tasks are cut as if they were
one. A chunk covers a sequence that it does not hold only
where the durable, or the stream's leader, has proven that there was no message for the archive, or as lost.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nats3_dagster.archive.source.absence import Absences
from nats3_dagster.hours import HOUR_NS, hour_start
from nats3_dagster.jetstream.take.pull import Pulled
from nats3_dagster.model import ArchiveSpec, Gap, SeqRange, StreamState
from nats3_dagster.model.numbers import Int64s


@dataclass(frozen=True, slots=True)
class Receipt:
    """Messages that can be acknowledged once the outcomes before it are committed."""

    # The subjects that acknowledge them, binary.
    replies: pa.Array
    # Messages among them that the catalog had already.
    known: int
    # As in `Pulled`.
    full: bool
    elsewhere: int
    # The same for messages that are given back: other tasks have messages before and after them.
    late: pa.Array
    # Deliveries of the messages that can be acknowledged which the catalog does not account for yet, and the most that
    # one of them took.
    accounted: int = 0
    most: int = 1


@dataclass(frozen=True, slots=True)
class PreviousTasks:
    """The messages that the tasks hold which pulled before this one."""

    # The last one of their messages that are new to the archive, and its delivery as in `Pulled`; 0 for none.
    seq: int = 0
    delivery: int = -1
    # Their latest store time, in nanoseconds.
    time_ns: int = 0
    # All messages that they hold, and the deliveries of these that the catalog does not account for yet.
    held: int = 0
    accounted: int = 0


@dataclass(frozen=True, slots=True)
class Hole:
    """Sequences between two pulled messages, in no chunk and no gap."""

    # The index of the message after it.
    at: int
    seqs: SeqRange
    # Whether the durable's own deliveries prove that there was nothing.
    proven: bool


@dataclass(frozen=True, slots=True)
class Uncaptured:
    """The pulled messages that the catalog does not cover, in the order of the stream."""

    messages: pa.Table
    seqs: Int64s
    # For each message its hour, in hours since 1970; ascending.
    hours: Int64s
    # The indexes of messages before which something covered lies.
    barriers: frozenset[int]
    # The first one may lie before all messages, after those of `ahead`.
    holes: tuple[Hole, ...]
    # For each pulled message, whether it does not come after those of the tasks before.
    late: np.ndarray[Any, np.dtype[np.bool_]]
    # For each pulled message, the deliveries of it that the catalog does not account for yet.
    deliveries: Int64s
    # For the task that pulls next.
    ahead: PreviousTasks

    @property
    def turns(self) -> list[int]:
        """The indexes of messages at which another hour begins."""
        return (np.flatnonzero(np.diff(self.hours)) + 1).tolist()


def uncaptured(
    pulled: Pulled,
    covered: tuple[SeqRange, ...],
    spans: tuple[tuple[str, SeqRange], ...],
    ahead: PreviousTasks,
    most: int = 1,
) -> Uncaptured:
    """Returns the part of it that is new to the archive. `covered`: ascending and disjoint. `spans`: see
    `assigned_hours`. `most`: the most deliveries that a message took that is in the archive and not acknowledged."""
    seqs: Int64s = pulled.messages.column("seq").to_numpy()
    firsts = np.array([r.first for r in covered], np.int64)
    lasts = np.array([r.last for r in covered], np.int64)
    # How many covered ranges begin at or before each message.
    before: Int64s = np.searchsorted(firsts, seqs, "right")
    is_known = (before > 0) & (seqs <= np.append(lasts, -1)[before - 1])
    late = seqs <= ahead.seq
    kept = np.flatnonzero(~is_known & ~late)
    messages = pulled.messages if len(kept) == len(seqs) else pulled.messages.take(pa.array(kept))
    seqs, stretch, deliveries = seqs[kept], before[kept], pulled.deliveries[kept]
    times: Int64s = np.maximum(messages.column("time_ns").to_numpy(), ahead.time_ns)
    hours = assigned_hours(seqs, times, spans)
    # The last message of the tasks before is the neighbour of the first one here.
    lead = min(ahead.seq, 1)
    chain = np.append([ahead.seq] * lead, seqs).astype(np.int64)
    stretch = np.append([np.searchsorted(firsts, ahead.seq, "right")] * lead, stretch)
    deliveries = np.append([ahead.delivery] * lead, deliveries)
    # A message that the catalog has is no neighbour any more.
    follows = (np.diff(deliveries) == 1) & (np.diff(np.append([-1] * lead, kept)) == 1)
    apart = np.flatnonzero(np.diff(stretch) != 0) + 1 - lead
    gaps = np.flatnonzero((np.diff(chain) > 1) & (np.diff(stretch) == 0))
    holes = tuple(
        Hole(int(at) + 1 - lead, SeqRange(int(chain[at]) + 1, int(chain[at + 1]) - 1), bool(follows[at])) for at in gaps
    )
    held = ahead.held + len(pulled.messages)
    # Of what comes again, the catalog accounts for the deliveries before its commit: `most` of them, or fewer.
    counts = np.where(is_known, np.maximum(pulled.counts - most, 1), pulled.counts)
    accounted = ahead.accounted + int(counts.sum())
    if len(seqs):
        ahead = PreviousTasks(int(seqs[-1]), int(deliveries[-1]), int(times.max()))
    ahead = replace(ahead, held=held, accounted=accounted)
    return Uncaptured(messages, seqs, hours, frozenset(apart.tolist()), holes, late, counts, ahead)


def assigned_hours(seqs: Int64s, times_ns: Int64s, spans: tuple[tuple[str, SeqRange], ...]) -> Int64s:
    """The hour of each message, in hours since 1970. It is the latest hour of it and of all before it: a clock that
    steps back makes no earlier hour (docs/decisions.md, 1). It is never before the hour of the previous archived
    message, nor after the one of the next archived message, so that hours tile the sequences where a message comes
    late.

    `spans`: the hours of the archive's chunks, each with its first and last sequence, in the order of the stream."""
    hours = np.maximum.accumulate(times_ns // HOUR_NS) if len(times_ns) else times_ns
    if not spans:
        return hours
    firsts = np.array([span.first for _, span in spans], np.int64)
    lasts = np.array([span.last for _, span in spans], np.int64)
    named = np.array([hour_start(hour) // HOUR_NS for hour, _ in spans], np.int64)
    at = np.searchsorted(firsts, seqs, "right") - 1  # the span that begins before each message; -1 for none
    inside = (at >= 0) & (seqs <= lasts[np.maximum(at, 0)])
    earliest = np.where(at >= 0, named[np.maximum(at, 0)], 0)
    no_end = np.iinfo(np.int64).max
    latest = np.append(named, no_end)[at + 1]
    return np.clip(hours, earliest, np.where(inside, earliest, latest))


def absence(
    spec: ArchiveSpec,
    state: StreamState,
    removing: Mapping[str, Any],
    seqs: SeqRange,
    now: StreamState,
    missed_seq: int,
    shared_seq: int,
) -> Iterator[Gap]:
    """Yields the reasons why the stream holds no message of the archive's in these sequences; the archive has none of
    them. `state`: when the run began. `now`: after the absence was seen. `removing`: settings that removed messages at
    any time. `missed_seq`: as in Deliveries. `shared_seq`: up to it, another client may have acknowledged messages.

    A stream that keeps what was acknowledged has the rule of every archive (Absences). In another one an
    acknowledgement removes the message, and a message that no durable wants is not kept. What the archive's durable had
    not to deliver is not the archive's if it has a filter; without one nothing tells a limit from a deletion."""
    keeps = "retention" not in removing and all(s.config.get("retention", "limits") == "limits" for s in (state, now))
    if keeps and not spec.subjects:
        yield from _of_every_archive(state, removing, seqs, now)
        return
    # A stream that keeps messages has those that the durable missed, but for what its limits have removed.
    lost_seq = max(shared_seq, min(missed_seq, now.first_seq - 1) if keeps else missed_seq)
    if seqs.first <= lost_seq:
        yield Gap(state.incarnation, (SeqRange(seqs.first, min(seqs.last, lost_seq)),), "undelivered")
    if seqs.last > lost_seq:
        rest = SeqRange(max(seqs.first, lost_seq + 1), seqs.last)
        yield Gap(state.incarnation, (rest,), "unselected" if spec.subjects else "expired")


def _of_every_archive(
    state: StreamState, removing: Mapping[str, Any], seqs: SeqRange, now: StreamState
) -> Iterator[Gap]:
    absences = Absences(state, removing, filtered=False)
    absences.look(now)
    first = seqs.first
    for part, reason in absences.gaps(seqs):
        if part.first > first:
            yield Gap(state.incarnation, (SeqRange(first, part.first - 1),), absences.inside)
        yield Gap(state.incarnation, (part,), reason)
        first = part.last + 1
    if first <= seqs.last:
        yield Gap(state.incarnation, (SeqRange(first, seqs.last),), absences.inside)
