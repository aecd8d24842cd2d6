"""Supervisor: starts servers of a running stack again when they end, its Spark Connect and its Dagster.

Invariant: a stack that a command stopped stays stopped, and a server that ends again and again is not started for ever.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nats3_dagster.dev.dagster_server import DagsterUi
from nats3_dagster.dev.stack import Stack
from nats3_dagster.errors import EngineError

# How often one server is started again within the time, before that is given up.
RESTARTS, WITHIN_S = 3, 300.0
# Between two tries to start what does not start.
_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A server that ended by itself."""

    server: str
    # `signal SIGKILL`, `exit status 1`, what Dagster's log says; empty where another process started it.
    how: str
    # A file or a folder.
    log: Path

    def __str__(self) -> str:
        return f"{self.server} ended{f' ({self.how})' if self.how else ''}"


OnEnded = Callable[[Ended], None]


@dataclass
class Supervisor:
    """Watches the servers of `stack`, and the Dagster `ui` that this process started."""

    stack: Stack
    ui: DagsterUi | None = None
    restarts: int = RESTARTS
    # Of each server, by time.monotonic().
    _ends: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def restore(self, on_ended: OnEnded = lambda _: None) -> Sequence[Ended]:
        """Start again what has ended since the last call, and return it; `on_ended` is called before. Raises
        StoppedElsewhere where a command stopped the stack, EngineError where a server ended too often or does not
        start."""
        servers = [
            Ended(name, process.ending, process.log or server.folder)
            for name, server in self.stack.servers.items()
            if (process := server.ended) is not None
        ]
        has_moved = False
        if servers:
            self._note(servers, on_ended)
            before = self.stack.endpoints
            self._start_servers([ended.server for ended in servers])
            has_moved = self.stack.endpoints != before
        connect = self.stack.connect
        if (process := connect.ended) is not None:
            ended = Ended("Spark Connect", process.ending, connect.log)
            self._note([ended], on_ended)
            servers.append(ended)
            port = connect.port
            connect.launch()
            has_moved = has_moved or connect.port != port
        dagster: list[Ended] = []
        if self.ui is not None and not self.stack.dagster.running:
            dagster = [Ended("Dagster", self.stack.dagster.last_words(), self.stack.dagster.log)]
            self._note(dagster, on_ended)
        if self.ui is not None and (dagster or has_moved):
            self._start_dagster(self.ui.port)
        return [*servers, *dagster]

    def _note(self, ends: Sequence[Ended], on_ended: OnEnded) -> None:
        """Raises StoppedElsewhere where they were stopped, EngineError where one ended too often."""
        self.stack.require_started()
        now = time.monotonic()
        for ended in ends:
            times = [at for at in self._ends.get(ended.server, ()) if at > now - WITHIN_S] + [now]
            self._ends[ended.server] = times
            if len(times) > self.restarts:
                how = f", the last time with {ended.how}" if ended.how else ""
                raise EngineError(
                    f"{ended.server} ended {len(times)} times within {WITHIN_S / 60:g} minutes{how}", f"See {ended.log}"
                )
            on_ended(ended)

    def _start_servers(self, names: Sequence[str]) -> None:
        # Only these: what ends meanwhile is found by the next call, and so its end is said.
        for tries_left in reversed(range(self.restarts)):
            try:
                self.stack.start(again=names)
                return
            except EngineError:
                if not tries_left:
                    raise
                time.sleep(_PAUSE_S)

    def _start_dagster(self, port: int) -> None:
        """Start it; first stop one that runs: servers that had to take other ports are unknown to it."""
        self.stack.dagster.stop()
        self.ui = self.stack.dagster.start(port, self.stack.environment)
        self.stack.announce(self.ui.address)
