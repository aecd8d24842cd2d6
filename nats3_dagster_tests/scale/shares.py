"""How much of the processors each part used: the shares say where a run stops."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import psutil

from nats3_dagster_tests.support.process_use import own_processor_s

_EVERY_S = 0.25
Pids = Callable[[], Mapping[str, list[int]]]


class Shares:
    """Adds up the processor time of parts while it is open. A process that ended counts with what it had last."""

    def __init__(self, pids: Pids) -> None:
        self._pids = pids
        self._first: dict[int, float] = {}
        self._last: dict[int, tuple[str, float]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shares")
        self._began = 0.0
        self.elapsed_s = 0.0

    def __enter__(self) -> "Shares":
        self._began = time.monotonic()
        self._look(is_first=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._look()
        self.elapsed_s = time.monotonic() - self._began

    def processors(self) -> dict[str, float]:
        """The processors that each part had on average: 1 is a whole one."""
        used: dict[str, float] = {}
        for pid, (part, seconds) in self._last.items():
            used[part] = used.get(part, 0.0) + seconds - self._first[pid]
        return {part: seconds / self.elapsed_s for part, seconds in used.items()}

    def _run(self) -> None:
        while not self._ending.wait(_EVERY_S):
            self._look()

    def _look(self, *, is_first: bool = False) -> None:
        for part, pids in self._pids().items():
            for pid in pids:
                with suppress(psutil.Error):
                    seconds = own_processor_s(psutil.Process(pid))
                    # One that began later began with nothing.
                    self._first.setdefault(pid, seconds if is_first else 0.0)
                    self._last[pid] = (part, seconds)
