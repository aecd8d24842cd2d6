"""When a capture is due, and for which hours.

The rule kept here: a decision about what the archive lacks now, from the catalog and the stream alone. It keeps no
state, so nothing that was missed once is missed for ever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nats3_dagster.hours import HOUR_NS, SECOND_NS, hour_of, hour_start
from nats3_dagster.model import Archive, ArchiveSpec, SeqRange, StreamState, clipped

if TYPE_CHECKING:
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.jetstream.link import Link


@dataclass(frozen=True, slots=True)
class Uncaptured:
    """What an archive lacks: hours that have ended; and of the `open` one (None: nothing) messages, bytes (estimated by
    the stream's mean) and the age of the oldest in seconds. `behind` and `behind_s`: the same for all hours. `gone`:
    sequences that the stream deleted before they were captured, which nothing has recorded yet."""

    ended: tuple[str, ...]
    open: str | None = None
    messages: int = 0
    bytes: int = 0
    age_s: float = 0.0
    behind: int = 0
    behind_s: float = 0.0
    gone: int = 0


@dataclass(frozen=True, slots=True)
class Due:
    """Hours to capture now, adjacent and ascending, and why; none, and why not."""

    hours: tuple[str, ...]
    why: str


def uncaptured(catalog: "Catalog", link: "Link", archive: Archive, state: StreamState, now_ns: int) -> Uncaptured:
    """What the archive lacks of its stream now. Raises Nats3Error."""
    from nats3_dagster.archive.windows import hours_to_capture
    from nats3_dagster.jetstream.streams import first_seq_at, message_from

    start = catalog.coverage.start(archive, state.incarnation)
    if start > state.last_seq:
        return Uncaptured(())
    lacking = catalog.coverage.missing(archive, state.incarnation, SeqRange(start, state.last_seq))
    present = clipped(lacking, SeqRange(state.first_seq, state.last_seq))
    gone = sum(r.size for r in lacking) - sum(r.size for r in present)
    current = hour_of(now_ns)
    if not present:
        return Uncaptured((), current if gone else None, gone=gone)

    def age_s(first: int) -> float:
        # A deleted message has no time: then the next one's counts.
        found = message_from(link, state.name, first)
        return (now_ns - found[1]) / SECOND_NS if found else 0.0

    behind, behind_s = sum(r.size for r in present), age_s(present[0].first)
    # The bounds by which a capture of the current hour takes: sequences, whatever the clock at the server did.
    opens = first_seq_at(link, state.name, hour_start(current))
    ends = state.last_seq + 1
    if state.last_ns >= hour_start(current) + HOUR_NS:  # its clock is ahead of ours: that hour is for later
        ends = first_seq_at(link, state.name, hour_start(current) + HOUR_NS)
    ended = tuple(hours_to_capture(catalog, link, archive, state, before=opens)) if present[0].first < opens else ()
    opened = clipped(present, SeqRange(opens, ends - 1))
    if not opened:
        return Uncaptured(ended, current if gone else None, behind=behind, behind_s=behind_s, gone=gone)
    count = sum(r.size for r in opened)
    size = count * state.bytes // max(state.messages, 1)
    return Uncaptured(ended, current, count, size, age_s(opened[0].first), behind, behind_s, gone)


def due(spec: ArchiveSpec, lacking: Uncaptured, limit: int) -> Due:
    """The hours to capture now, `limit` of them at most: ended ones first, the open one when a threshold is reached."""
    reached = [
        why for why, is_so in (
            (f"{lacking.messages:,} messages of {spec.max_messages:,}", lacking.messages >= spec.max_messages),
            (f"{lacking.bytes:,} bytes of {spec.max_bytes:,}", lacking.bytes >= spec.max_bytes),
            (f"the oldest message is {lacking.age_s:.0f} s old, of {spec.max_age_s}", lacking.age_s >= spec.max_age_s),
            (f"{lacking.gone:,} sequences went before they were captured", lacking.gone > 0),
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
