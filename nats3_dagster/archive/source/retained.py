"""Retained: how long a stream keeps a message, by its limits and by its own rate."""

from dataclasses import dataclass

from nats3_dagster.hours import SECOND_NS
from nats3_dagster.model import StreamState
from nats3_dagster.model.archive_spec import CAPTURES

# A rate of fewer messages says nothing, nor does one of a shorter time, unless the stream is full of it.
_MESSAGES, _SPAN_S, _FULL = 10, 60.0, 0.9


@dataclass(frozen=True, slots=True)
class Retained:
    """The time that a message stays, by the limit that removes it first."""

    seconds: float
    # max_age, max_msgs or max_bytes.
    limit: str
    # Messages a second; None where the limit does not depend on it.
    rate: float | None

    @property
    def text(self) -> str:
        how = "" if self.rate is None else f" at its rate of {self.rate:,.3g} messages a second"
        return f"The stream keeps a message for {self.seconds:,.3g} s by {self.limit}{how}"


def retained(state: StreamState) -> Retained | None:
    """Returns the nearest limit, by the stream as it is; None where no limit removes messages, or too few of them say
    its rate."""
    config, found = state.config, list[Retained]()
    if max_age := int(config.get("max_age") or 0):
        found.append(Retained(max_age / SECOND_NS, "max_age", None))
    span_s = (state.last_ns - state.first_ns) / SECOND_NS
    sequences = state.last_seq - state.first_seq
    if config.get("discard", "old") == "old" and sequences >= _MESSAGES and state.messages and span_s > 0:
        rate = sequences / span_s
        for name, held in (("max_msgs", state.messages), ("max_bytes", state.bytes)):
            most = int(config.get(name) or 0)
            if most > 0 and (span_s >= _SPAN_S or held >= _FULL * most):
                found.append(Retained(most / held * span_s, name, rate))
    return min(found, key=lambda one: one.seconds, default=None)


def too_short(state: StreamState, max_age_s: int) -> str:
    """A sentence where the stream may remove messages before CAPTURES captures, by the archive's threshold of age, and
    what to do; empty elsewhere."""
    kept = retained(state)
    if kept is None or kept.seconds >= CAPTURES * max_age_s:
        return ""
    return (
        f"{kept.text}, and a capture is due after {max_age_s:,} s: let the stream keep {CAPTURES} times that, or give "
        f"the archive a max_age of {max(1, int(kept.seconds / CAPTURES))} s"
    )
