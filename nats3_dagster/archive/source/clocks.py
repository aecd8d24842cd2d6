"""Clocks: whether an hour has ended, by each clock that has a say.

Invariant: an hour counts as ended only when this machine, Postgres, and the NATS server that stores the messages, all
say so. A clock that is ahead then ends no hour early. One that is late delays seals, and is named.
"""

import time
from dataclasses import dataclass

from nats3_dagster.hours import CLOCKS_S, SECOND_NS, format_time
from nats3_dagster.model import StreamState
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time by several clocks, in nanoseconds, asked within a moment."""

    own_ns: int
    postgres_ns: int
    # None where the server was not asked, or does not tell it: it does from 2.10 on.
    nats_ns: int | None = None

    @property
    def earliest_ns(self) -> int:
        return min(self._by_name.values())

    @property
    def difference(self) -> str:
        """The clocks that differ by more than CLOCKS_S, as text; empty if none do."""
        clocks = self._by_name
        if max(clocks.values()) - self.earliest_ns <= CLOCKS_S * SECOND_NS:
            return ""
        said = ", ".join(f"{name} {format_time(ns // SECOND_NS * SECOND_NS)}" for name, ns in clocks.items())
        return f"The clocks differ: {said}. An hour counts as ended when all of them say so"

    @property
    def _by_name(self) -> dict[str, int]:
        clocks = {"this machine": self.own_ns, "Postgres": self.postgres_ns}
        return clocks | ({"NATS": self.nats_ns} if self.nats_ns else {})


def ask_clocks(workspace: Workspace, state: StreamState | None = None) -> Clocks:
    """This machine's and Postgres' time; with the `state` of a stream that was just read, also that of its server.
    Raises CatalogError."""
    postgres_ns = int(workspace.catalog.now().timestamp() * 1_000_000) * 1000
    return Clocks(time.time_ns(), postgres_ns, state.answered_ns if state else None)


def stream_now_ns(state: StreamState) -> int:
    """The time by the clock that gave the stream's messages theirs; by this machine's where the server does not tell
    it. `state` was just read."""
    return state.answered_ns or time.time_ns()
