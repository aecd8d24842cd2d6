"""The backlog of an archive: the messages of its stream that are missing now.

It is computed from the catalog and the stream alone, each time, so nothing that was missed once is missed for ever.
`due` and `loss` judge it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nats3_dagster.archive.source.durables import durable_of, may_have_lost
from nats3_dagster.archive.source.windows import begin_of, first_at, hours_to_capture
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.read.contents import held_ranges, message_from
from nats3_dagster.jetstream.read.times import first_seq_at
from nats3_dagster.jetstream.take.durable import Durable
from nats3_dagster.model import Archive, Deliveries, SeqRange, StreamState, clipped, without
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Backlog:
    """The messages of its stream that are missing in an archive."""

    state: StreamState
    # Hours that have ended and are not complete, ascending.
    ended: tuple[str, ...] = ()
    # The open hour where something that the archive selects is not captured: its messages, their bytes (estimated by
    # the stream's mean) and the age of the oldest in seconds.
    open: str | None = None
    messages: int = 0
    bytes: int = 0
    age_s: float = 0.0
    # Of all hours: uncaptured sequences that the stream still has, the first of them, and its age in seconds.
    behind: int = 0
    first_seq: int | None = None
    behind_s: float = 0.0
    # Sequences that the stream deleted before they were captured, and that are in no gap yet.
    gone: int = 0
    # Uncaptured sequences of hours that have not begun by this host's clock, and the seconds from that clock to the
    # newest message.
    ahead: int = 0
    ahead_s: float = 0.0

    @property
    def ahead_text(self) -> str:
        """Returns the reason why nothing is captured if NATS' clock is ahead of the host's; otherwise empty."""
        if not self.ahead:
            return ""
        return (
            f"{self.ahead:,} messages are of an hour that has not begun by this host's clock: the clock of NATS is "
            f"{self.ahead_s / 60:,.0f} minutes ahead. They are captured when that hour has begun; set the clocks right"
        )

    @property
    def is_empty(self) -> bool:
        """True if everything is captured, or recorded as lost."""
        return not self.behind and not self.gone


def uncaptured(
    archive: Archive,
    state: StreamState,
    missing: Sequence[SeqRange],
    durable: Durable | None = None,
    deliveries: Deliveries | None = None,
) -> Backlog:
    """Returns the missing messages of the stream in this state, from these missing sequences: without hours and ages.
    An archive of the mode `consumer` misses the messages that its durable has not delivered, or that are not
    acknowledged; `deliveries` are those that it accounts for."""
    present, gone = _split(state, missing)
    if durable is not None:
        behind = durable.pending + durable.outstanding
        is_missed = deliveries is not None and bool(missing) and missing[0].first <= deliveries.missed_seq
        if is_missed or may_have_lost(deliveries, durable):
            # What does not wait went, or will not be delivered again though the stream has it.
            gone = max(sum(r.size for r in missing) - behind, 0)
        elif archive.spec.subjects:
            gone = 0  # what went was not the archive's
        return Backlog(state, behind=behind, first_seq=durable.floor_seq + 1 if behind else None, gone=gone)
    return Backlog(
        state, behind=sum(r.size for r in present), first_seq=present[0].first if present else None, gone=gone
    )


def backlog(workspace: Workspace, archive: Archive, state: StreamState, now_ns: int) -> Backlog:
    """Returns the missing messages of the stream in this state. Raises Nats3Error."""
    if archive.spec.mode == "consumer":
        return _waiting(workspace, archive, state, now_ns)
    link = workspace.link
    present, gone = _split(state, _missing(workspace, archive, state))
    current = hour_of(now_ns)
    if not present:
        return Backlog(state, open=current if gone else None, gone=gone)

    def age_s(first: int) -> float:
        # A deleted message has no time: then the next one's counts.
        message = message_from(link, state.read_stream, first)
        return age_of(message[1], state, now_ns) if message else 0.0

    # The same bounds as in a capture of the current hour: sequences, whatever the clock at the server did. Where an
    # earlier part of the hour is archived, the server has said it before, and a tick makes no consumer.
    opens = begin_of(workspace, archive, state.incarnation, hour_start(current))
    if opens is None or present[0].first < opens:
        opens = first_seq_at(link, state.read_stream, hour_start(current))
    ends = state.last_seq + 1
    if state.last_ns >= hour_start(current) + HOUR_NS:  # its clock is ahead of the host's: that hour is for later
        ends = first_seq_at(link, state.read_stream, hour_start(current) + HOUR_NS)
    in_open_hour = clipped(present, SeqRange(opens, ends - 1))
    count = sum(r.size for r in in_open_hour)
    ahead = sum(r.size for r in clipped(present, SeqRange(ends, state.last_seq)))
    filters = archive.spec.subjects
    if filters and in_open_hour and not any(held_ranges(link, state.incarnation, in_open_hour, filters)):
        # None of the archive's: a capture would find nothing. When the hour has ended, one accounts for all of them.
        in_open_hour, count = [], 0
    return Backlog(
        state,
        ended=tuple(hours_to_capture(workspace, archive, state, before=opens)) if present[0].first < opens else (),
        open=current if in_open_hour or gone else None,
        messages=count,
        bytes=count * state.bytes // max(state.messages, 1),
        age_s=age_s(in_open_hour[0].first) if in_open_hour else 0.0,
        behind=sum(r.size for r in present),
        first_seq=present[0].first,
        behind_s=age_s(present[0].first),
        gone=gone,
        ahead=ahead,
        ahead_s=(state.last_ns - now_ns) / SECOND_NS if ahead else 0.0,
    )


def uncaptured_ahead(workspace: Workspace, link: Link, archive: Archive, waiting: Backlog, now_ns: int) -> Backlog:
    """The backlog with what is ahead of our clock: of a stream's state, one question more. Raises Nats3Error."""
    state, begins = waiting.state, hour_start(hour_of(now_ns)) + HOUR_NS
    if state.last_ns < begins:
        return waiting
    first = max(first_at(link, archive.spec, begins), state.first_seq)
    if first > state.last_seq:
        return waiting
    missing = workspace.catalog.coverage.missing(archive, state.incarnation, SeqRange(first, state.last_seq))
    ahead = sum(r.size for r in missing)
    return replace(waiting, ahead=ahead, ahead_s=(state.last_ns - now_ns) / SECOND_NS if ahead else 0.0)


def age_of(time_ns: int, state: StreamState, now_ns: int) -> float:
    """Seconds since a message was stored, by whichever clock is ahead: the server deletes by its own."""
    return (max(now_ns, state.last_ns, time_ns) - time_ns) / SECOND_NS


def _waiting(workspace: Workspace, archive: Archive, state: StreamState, now_ns: int) -> Backlog:
    """The backlog of an archive of the mode `consumer`. Any capture takes all of it, so one hour is asked for: the one
    of the oldest message if it has ended, or the open one."""
    durable, deliveries = durable_of(workspace, archive), workspace.catalog.durables.deliveries(archive)
    waiting = uncaptured(archive, state, _missing(workspace, archive, state), durable, deliveries)
    current, start = hour_of(now_ns), workspace.catalog.coverage.start(archive, state.incarnation)
    if waiting.first_seq is None:
        # Messages for others, or lost ones, after the last chunk: a capture accounts for them, and the hour is complete
        # then.
        seqs = SeqRange(start, state.last_seq)
        rest = start <= state.last_seq and bool(workspace.catalog.coverage.missing(archive, state.incarnation, seqs))
        hour = hour_of(state.last_ns)
        return replace(
            waiting, ended=(hour,) if rest and hour < current else (), open=current if waiting.gone else None
        )
    seqs = SeqRange(waiting.first_seq, max(state.last_seq, waiting.first_seq))
    (oldest,) = held_ranges(workspace.link, state.incarnation, [seqs], archive.spec.subjects)
    message = message_from(workspace.link, state.name, oldest) if oldest is not None else None
    age_s = (now_ns - message[1]) / SECOND_NS if message else 0.0
    has_ended = message is not None and hour_of(message[1]) < current
    return replace(
        waiting,
        ended=(hour_of(message[1]),) if message and has_ended else (),
        open=None if has_ended else current,
        messages=waiting.behind,
        bytes=waiting.behind * state.bytes // max(state.messages, 1),
        age_s=age_s,
        first_seq=oldest,
        behind_s=age_s,
    )


def _missing(workspace: Workspace, archive: Archive, state: StreamState) -> tuple[SeqRange, ...]:
    """The sequences up to the stream's last that are in no chunk and no gap, ascending."""
    # From 0, as a stream that never had a message ends there. The archive misses nothing before its start.
    return workspace.catalog.coverage.missing(archive, state.incarnation, SeqRange(0, state.last_seq))


def _split(state: StreamState, missing: Sequence[SeqRange]) -> tuple[list[SeqRange], int]:
    """Returns the missing sequences that the stream still has, and the number of those that it no longer has."""
    lost: Sequence[SeqRange] = missing
    for held in (state, state.own) if state.origin else (state,):
        lost = without(lost, [SeqRange(held.first_seq, held.last_seq)] if held.first_seq <= held.last_seq else [])
    return list(without(missing, lost)), sum(r.size for r in lost)
