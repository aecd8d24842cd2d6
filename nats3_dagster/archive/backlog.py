"""The backlog of an archive: what it lacks of its stream now, whether a capture is due, and how near it is to loss.

It is computed from the catalog and the stream alone, each time, so nothing that was missed once is missed for ever.
Sensor, check and doctor ask here.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nats3_dagster.archive.absence import early_removal
from nats3_dagster.archive.durables import durable_of
from nats3_dagster.archive.windows import first_at, hours_to_capture
from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.jetstream.durable import Durable
from nats3_dagster.jetstream.link import Link
from nats3_dagster.jetstream.streams import first_seq_at, held_ranges, message_from
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange, StreamState, clipped
from nats3_dagster.workspace import Workspace

# Shares of the way to deletion from which on an archive is warned of, and is in error.
WARN_AT, ERROR_AT = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Backlog:
    """What an archive lacks of its stream."""

    state: StreamState
    # Hours that have ended and are not complete, ascending.
    ended: tuple[str, ...] = ()
    # The open hour where something of it is not captured: its messages, their bytes (estimated by the stream's mean)
    # and the age of the oldest in seconds.
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
    # Uncaptured sequences of hours that have not begun by our clock, and by how many seconds the newest message is
    # ahead of it.
    ahead: int = 0
    ahead_s: float = 0.0

    @property
    def ahead_text(self) -> str:
        """Why nothing is captured where NATS' clock is ahead of ours; empty where it is not."""
        if not self.ahead:
            return ""
        return (
            f"{self.ahead:,} messages are of an hour that has not begun by our clock: the clock of NATS is "
            f"{self.ahead_s / 60:,.0f} minutes ahead. They are captured when that hour has begun; set the clocks right"
        )

    @property
    def is_empty(self) -> bool:
        """Whether everything is captured, or recorded as lost."""
        return not self.behind and not self.gone


@dataclass(frozen=True, slots=True)
class Loss:
    """How near a stream is to deleting what has not been captured."""

    # The share of the way to deletion that the oldest uncaptured message has gone, by the nearest limit.
    used: float = 0.0
    # That limit: max_age, max_msgs or max_bytes; empty where the stream has none that deletes messages.
    limit: str = ""
    # Sequences that are deleted already and in no gap yet.
    gone: int = 0
    # Whether the archive is paused: nobody captures what is on its way to deletion.
    paused: bool = False
    # What the stream removes however little its limits are used (absence.early_removal); empty where nothing.
    early: str = ""
    # What waits because NATS' clock is ahead of ours, in a sentence; empty where nothing does.
    ahead: str = ""

    @property
    def level(self) -> Literal["ok", "paused", "warn", "error"]:
        """A pause is a warning by itself, and an error where an active archive has one."""
        if self.gone or self.used >= ERROR_AT:
            return "error"
        return "paused" if self.paused else "warn" if self.used >= WARN_AT or self.ahead else "ok"

    @property
    def text(self) -> str:
        says_early = self.early and not self.gone
        texts = [
            *(["Paused: nothing is captured"] if self.paused else []),
            *([self._limit_text] if self.limit or not says_early else []),
            *([self.early] if says_early else []),
            *([self.ahead] if self.ahead else []),
        ]
        return ". ".join(texts)

    @property
    def _limit_text(self) -> str:
        if self.gone:
            return f"The stream has deleted {self.gone:,} sequences that were not captured"
        if not self.limit:
            return "No limit of the stream deletes messages"
        return f"The oldest uncaptured message has gone {self.used:.0%} of its way to deletion by {self.limit}"


@dataclass(frozen=True, slots=True)
class Due:
    """Hours to capture now, adjacent and ascending, and why; none, and why not."""

    hours: tuple[str, ...]
    why: str


def uncaptured(
    workspace: Workspace, archive: Archive, state: StreamState, durable: Durable | None = None
) -> Backlog:
    """What the archive lacks of the stream in this state, asked of the catalog alone: without hours and ages. An
    archive of the mode `consumer` lacks what its durable has not delivered, or what is not acknowledged. Raises
    CatalogError."""
    if durable is not None:
        behind = durable.pending + durable.outstanding
        # Under a filter nobody knows what went: it may have been anybody's.
        gone = 0 if archive.spec.subjects else _missing(workspace, archive, state)[1]
        return Backlog(state, behind=behind, first_seq=durable.floor_seq + 1 if behind else None, gone=gone)
    present, gone = _missing(workspace, archive, state)
    return Backlog(
        state, behind=sum(r.size for r in present), first_seq=present[0].first if present else None, gone=gone
    )


def backlog(workspace: Workspace, archive: Archive, state: StreamState, now_ns: int) -> Backlog:
    """What the archive lacks of the stream in this state. Raises Nats3Error."""
    if archive.spec.mode == "consumer":
        return _waiting(workspace, archive, state, now_ns)
    link = workspace.link
    present, gone = _missing(workspace, archive, state)
    current = hour_of(now_ns)
    if not present:
        return Backlog(state, open=current if gone else None, gone=gone)

    def age_s(first: int) -> float:
        # A deleted message has no time: then the next one's counts.
        message = message_from(link, state.name, first)
        return age_of(message[1], state, now_ns) if message else 0.0

    # The bounds by which a capture of the current hour takes: sequences, whatever the clock at the server did.
    opens = first_seq_at(link, state.name, hour_start(current))
    ends = state.last_seq + 1
    if state.last_ns >= hour_start(current) + HOUR_NS:  # its clock is ahead of ours: that hour is for later
        ends = first_seq_at(link, state.name, hour_start(current) + HOUR_NS)
    in_open_hour = clipped(present, SeqRange(opens, ends - 1))
    count = sum(r.size for r in in_open_hour)
    ahead = sum(r.size for r in clipped(present, SeqRange(ends, state.last_seq)))
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


def time_to_loss(waiting: Backlog, *, paused: bool = False) -> Loss:
    """By the stream's limits on age, messages and bytes. What counts is where the oldest uncaptured message lies
    between the stream's head and its end, not how many wait: one hole at the head is lost next. `paused`: whether the
    archive is."""
    state, config = waiting.state, waiting.state.config
    sequences = max(state.last_seq - state.first_seq + 1, 1)
    tail = 0.0 if waiting.first_seq is None else (state.last_seq - waiting.first_seq + 1) / sequences
    ways = [(waiting.behind_s, int(config.get("max_age") or 0) / SECOND_NS, "max_age")]
    if config.get("discard", "old") == "old":  # a stream that refuses new messages deletes none for being full
        ways += [
            (state.messages * tail, int(config.get("max_msgs") or 0), "max_msgs"),
            (state.bytes * tail, int(config.get("max_bytes") or 0), "max_bytes"),
        ]
    early, ahead = early_removal(config), waiting.ahead_text
    base = Loss(gone=waiting.gone, paused=paused, early=early, ahead=ahead)
    losses = [replace(base, used=gone / limit, limit=name) for gone, limit, name in ways if limit > 0]
    return max(losses, key=lambda loss: loss.used, default=base)


def due(spec: ArchiveSpec, waiting: Backlog, limit: int, held_back: Collection[str] = ()) -> Due:
    """The hours to capture now, `limit` of them at most: ended ones first, the open one when a threshold is reached.
    Those of `held_back` are left out: an hour that fails does not keep the others waiting."""
    reached = [
        why for why, is_reached in (
            (f"{waiting.messages:,} messages of {spec.max_messages:,}", waiting.messages >= spec.max_messages),
            (f"{waiting.bytes:,} bytes of {spec.max_bytes:,}", waiting.bytes >= spec.max_bytes),
            (f"the oldest message is {waiting.age_s:.0f} s old, of {spec.max_age_s}", waiting.age_s >= spec.max_age_s),
            (f"{waiting.gone:,} sequences went before they were captured", waiting.gone > 0),
        ) if waiting.open and is_reached
    ]  # fmt: skip
    hours = [*waiting.ended, *([waiting.open] if waiting.open and reached else [])]
    if not hours:
        if not waiting.open:
            return Due((), waiting.ahead_text or "Everything is captured")
        return Due((), f"{waiting.messages:,} messages wait, the oldest for {waiting.age_s:.0f} of {spec.max_age_s} s")
    ended = len(waiting.ended)
    whys = [f"{ended} ended hour{'s' if ended > 1 else ''} not complete"] if ended else []
    whys += [f"held back: {hour}" for hour in hours if hour in held_back]
    free = [hour for hour in hours if hour not in held_back]
    return Due(tuple(_adjacent(free)[:limit]), "; ".join([*whys, *reached]))


def _waiting(workspace: Workspace, archive: Archive, state: StreamState, now_ns: int) -> Backlog:
    """The backlog of an archive of the mode `consumer`. Any capture takes all of it, so one hour is asked for: the one
    of the oldest message if it has ended, or the open one."""
    waiting = uncaptured(workspace, archive, state, durable_of(workspace, archive))
    current, start = hour_of(now_ns), workspace.catalog.coverage.start(archive, state.incarnation)
    if waiting.first_seq is None:
        # What the stream had for others, or lost, behind the last chunk: a capture accounts for it, and the hour is
        # complete then.
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
        waiting, ended=(hour_of(message[1]),) if message and has_ended else (), open=None if has_ended else current,
        messages=waiting.behind, bytes=waiting.behind * state.bytes // max(state.messages, 1), age_s=age_s,
        first_seq=oldest, behind_s=age_s,
    )  # fmt: skip


def _missing(workspace: Workspace, archive: Archive, state: StreamState) -> tuple[list[SeqRange], int]:
    """The uncaptured sequences that the stream still has, ascending, and how many it has no more."""
    coverage = workspace.catalog.coverage
    start = coverage.start(archive, state.incarnation)
    if start > state.last_seq:
        return [], 0
    missing = coverage.missing(archive, state.incarnation, SeqRange(start, state.last_seq))
    present = clipped(missing, SeqRange(state.first_seq, state.last_seq))
    return present, sum(r.size for r in missing) - sum(r.size for r in present)


def _adjacent(hours: Sequence[str]) -> list[str]:
    """The first of them, and what follows it without a hole."""
    adjacent = list(hours[:1])
    for hour in hours[1:]:
        if hour_start(hour) - hour_start(adjacent[-1]) != HOUR_NS:
            break
        adjacent.append(hour)
    return adjacent
