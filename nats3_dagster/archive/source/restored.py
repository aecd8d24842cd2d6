"""Restored streams: a stream of another `created` time continues an incarnation. `history` has what proves it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nats3_dagster.model import Coverage, Incarnation, StreamState


@dataclass(frozen=True, slots=True)
class History:
    """The history that a stream of another `created` time shares with an archived incarnation."""

    coverage: Coverage
    # The newest archived message, by its sequence.
    newest: int
    # The newest message that both have, as far as the stream still has it; what comes before it is the same in both.
    agreed: int
    # The last sequence that the archive covers, or that the stream of the incarnation was seen with.
    last: int
    # The first sequence of the stream that is missing in the archive: after the message that both have, or in a hole
    # before it.
    start: int

    def is_continued_by(self, state: StreamState) -> bool:
        """True if the stream has all of the history, and continues it."""
        return self.agreed == self.newest and state.last_seq >= self.last


def as_archived(state: StreamState, coverages: Sequence[Coverage]) -> StreamState:
    """The state with the incarnation that the archive has of it, also where the stream was restored and continues
    it."""
    for coverage in coverages:
        own = coverage.incarnation
        if own.stream == state.name and state.incarnation.created_ns in (own.created_ns, own.restored_ns):
            return _named(state, own)
    return state


def continuing(state: StreamState, incarnation: Incarnation) -> StreamState:
    """The state of a restored stream, as one of the incarnation that it continues."""
    now = state.incarnation
    return replace(
        state, incarnation=Incarnation(incarnation.stream, incarnation.created_ns, now.created_ns, now.buffer)
    )


def _named(state: StreamState, own: Incarnation) -> StreamState:
    created_ns = state.incarnation.created_ns
    if created_ns != own.created_ns:
        return continuing(state, own)
    return replace(state, incarnation=replace(own, restored_ns=0, buffer=state.incarnation.buffer))
