"""When a capture is due, and for which hours.

The rule kept here: a decision about what the archive lacks now, from the catalog and the stream alone. It keeps no
state, so nothing that was missed once is missed for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange, StreamState

if TYPE_CHECKING:
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.jetstream.connection import Link


@dataclass(frozen=True, slots=True)
class Uncaptured:
    """What an archive lacks: hours that have ended; and of the `open` one (None: nothing) messages, bytes (estimated by
    the stream's mean) and the age of the oldest in seconds. `behind` and `behind_s`: the same for all hours."""

    ended: tuple[str, ...]
    open: str | None = None
    messages: int = 0
    bytes: int = 0
    age_s: float = 0.0
    behind: int = 0
    behind_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Due:
    """Hours to capture now, adjacent and ascending, and why; none, and why not."""

    hours: tuple[str, ...]
    why: str


def uncaptured(catalog: "Catalog", link: "Link", archive: Archive, state: StreamState, now_ns: int) -> Uncaptured:
    """What the archive lacks of its stream now. Raises Nats3Error."""
    from nats3_dagster.capture import hours_to_capture
    from nats3_dagster.jetstream.admin import first_seq_at, message_time

    lacking = _lacking(catalog, archive, state, 0)
    if not lacking:
        return Uncaptured(())

    def age_s(first: int) -> float:
        stored = message_time(link, state.name, max(first, state.first_seq))
        return 0.0 if stored is None else (now_ns - stored) / SECOND_NS

    hours, current = hours_to_capture(catalog, link, archive, state), hour_of(now_ns)
    ended = tuple(h for h in hours if h < current)
    behind, behind_s = sum(r.size for r in lacking), age_s(lacking[0].first)
    opened = lacking
    if ended:
        opened = _lacking(catalog, archive, state, first_seq_at(link, state.name, hour_start(current)))
    if not opened:
        return Uncaptured(ended, behind=behind, behind_s=behind_s)
    count = sum(r.size for r in opened)
    size = count * state.bytes // max(state.messages, 1)
    return Uncaptured(ended, current, count, size, age_s(opened[0].first), behind, behind_s)


def _lacking(catalog: "Catalog", archive: Archive, state: StreamState, first: int) -> Sequence[SeqRange]:
    start = max(first, catalog.expected_start(archive, state.incarnation))
    if start > state.last_seq:
        return ()
    return catalog.missing(archive, state.incarnation, SeqRange(start, state.last_seq))


def due(spec: ArchiveSpec, lacking: Uncaptured, limit: int) -> Due:
    """The hours to capture now, `limit` of them at most: ended ones first, the open one when a threshold is reached."""
    reached = [
        why for why, is_so in (
            (f"{lacking.messages:,} messages of {spec.max_messages:,}", lacking.messages >= spec.max_messages),
            (f"{lacking.bytes:,} bytes of {spec.max_bytes:,}", lacking.bytes >= spec.max_bytes),
            (f"the oldest message is {lacking.age_s:.0f} s old, of {spec.max_age_s}", lacking.age_s >= spec.max_age_s),
        ) if lacking.open and is_so
    ]  # fmt: skip
    hours = [*lacking.ended, *([lacking.open] if lacking.open and reached else [])]
    if not hours:
        if not lacking.open:
            return Due((), "Everything is captured")
        return Due((), f"{lacking.messages:,} messages wait, the oldest for {lacking.age_s:.0f} of {spec.max_age_s} s")
    chosen = _adjacent(hours)[:limit]
    ended = len(lacking.ended)
    whys = [f"{ended} ended hour{'s' if ended > 1 else ''} not complete"] if ended else []
    return Due(tuple(chosen), "; ".join([*whys, *reached]))


def _adjacent(hours: Sequence[str]) -> list[str]:
    """The first of them, and what follows it without a hole."""
    found = [hours[0]]
    for hour in hours[1:]:
        if hour_start(hour) - hour_start(found[-1]) != HOUR_NS:
            break
        found.append(hour)
    return found
