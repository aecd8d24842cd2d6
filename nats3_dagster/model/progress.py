"""Progress: how far a capture or a replay is while it runs."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a capture or an attempt of a replay."""

    # Done, and an upper bound of the total: a selection or a filter may leave some out.
    done: int
    total: int
    # Seconds since `done` moved; 0 while it moves.
    quiet_s: float = 0.0
    # Whether NATS answered when it was asked meanwhile.
    answers: bool = True

    @property
    def note(self) -> str:
        """A note for people while there is no progress; empty while there is. Before the first message Spark starts
        the workers, which takes seconds on an idle machine."""
        if not self.done and self.total and self.answers:
            return f"Spark starts its workers{f', for {self.quiet_s:.0f} s' if self.quiet_s else ''}"
        if not self.quiet_s:
            return ""
        return f"nothing new for {self.quiet_s:.0f} s{'' if self.answers else ': waiting for NATS'}"


# May be called by any thread, by one at a time.
OnProgress = Callable[[Progress], None]
