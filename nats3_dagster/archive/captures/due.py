"""Due: the hours of an archive to capture, now by its thresholds, or on request."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nats3_dagster.archive.captures.open import open_source
from nats3_dagster.archive.source.backlog import Backlog, backlog
from nats3_dagster.archive.source.clocks import stream_now_ns
from nats3_dagster.archive.source.windows import hours_to_capture
from nats3_dagster.archive.stored.folder import check_bucket
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ArchiveSpec, StreamState
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Due:
    """Hours to capture now, adjacent and ascending, and why; none, and why not."""

    hours: tuple[str, ...]
    why: str


def due(spec: ArchiveSpec, waiting: Backlog, limit: int, held_back: Collection[str] = ()) -> Due:
    """The hours to capture now, `limit` of them at most: ended ones first, the open one when a threshold is reached.
    Those of `held_back` are left out: an hour that fails does not keep the others waiting."""
    reached = [
        why
        for why, is_reached in (
            (f"{waiting.messages:,} messages of {spec.max_messages:,}", waiting.messages >= spec.max_messages),
            (f"{waiting.bytes:,} bytes of {spec.max_bytes:,}", waiting.bytes >= spec.max_bytes),
            (f"the oldest message is {waiting.age_s:.0f} s old, of {spec.max_age_s}", waiting.age_s >= spec.max_age_s),
            (f"{waiting.gone:,} sequences went before they were captured", waiting.gone > 0),
        )
        if waiting.open and is_reached
    ]
    hours = [*waiting.ended, *([waiting.open] if waiting.open and reached else [])]
    if not hours:
        if not waiting.open:
            others = (
                f"{waiting.behind:,} messages are not the archive's: they are accounted for when the hour has ended"
            )
            return Due((), waiting.ahead_text or (others if waiting.behind else "Everything is captured"))
        return Due((), f"{waiting.messages:,} messages wait, the oldest for {waiting.age_s:.0f} of {spec.max_age_s} s")
    ended = len(waiting.ended)
    whys = [f"{ended} ended hour{'s' if ended > 1 else ''} not complete"] if ended else []
    whys += [f"held back: {hour}" for hour in hours if hour in held_back]
    free = [hour for hour in hours if hour not in held_back]
    return Due(tuple(_adjacent(free)[:limit]), "; ".join([*whys, *reached]))


def select_hours(workspace: Workspace, name: str, hours: Sequence[str] = (), *, adopt: bool = False) -> list[str]:
    """Returns the hours for a capture by hand, ascending: those given, or all with missing messages.

    Raises OperatorError for an hour that neither stream nor archive has, and for a missing bucket: everything that can
    be known before Spark starts, which takes seconds."""
    for hour in hours:
        hour_start(hour)
    archive = workspace.catalog.archives.get(name)
    state = open_source(workspace, archive, adopt=adopt).state
    check_bucket(workspace, archive)
    if archive.spec.mode == "consumer":
        return _hour_to_take(workspace, archive, state, hours, adopt)
    if not hours:
        return hours_to_capture(workspace, archive, state)
    is_empty = state.last_seq < state.first_seq
    first, last = ("", "") if is_empty else (hour_of(state.first_ns), hour_of(state.last_ns))
    for hour in hours:
        in_stream = not is_empty and first <= hour <= last
        if not in_stream and not workspace.catalog.hours.select(archive, first=hour, last=hour):
            raise OperatorError(
                f"Stream {state.name} has nothing of the hour {hour}, nor has the archive",
                "It is empty" if is_empty else f"It holds {first} to {last}",
            )
    return sorted(set(hours))


def _hour_to_take(
    workspace: Workspace, archive: Archive, state: StreamState, hours: Sequence[str], adopt: bool
) -> list[str]:
    """The one hour that stands for all that waits in the archive's durable; none when nothing does."""
    if hours:
        raise OperatorError(
            f"Archive {archive.name} takes what its consumer {archive.spec.durable} has, and not a certain hour",
            "Leave the hour out: then it takes all that waits",
        )
    now_ns = stream_now_ns(state)
    if adopt:
        return [hour_of(now_ns)]  # the durable may have to be made again first
    waiting = backlog(workspace, archive, state, now_ns)
    return [*waiting.ended, *([waiting.open] if waiting.open else [])][:1]


def _adjacent(hours: Sequence[str]) -> list[str]:
    """The first of them, and what follows it without a hole."""
    adjacent = list(hours[:1])
    for hour in hours[1:]:
        if hour_start(hour) - hour_start(adjacent[-1]) != HOUR_NS:
            break
        adjacent.append(hour)
    return adjacent
