"""The kills of a soak: every two minutes one random process, which is then started again."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from nats3_dagster_tests.soak.processes import ROLES, Processes


@dataclass(frozen=True, slots=True)
class Kill:
    """One of them."""

    # Seconds since the beginning.
    at: float
    role: str


class Killer:
    """Kills until it is stopped. A role comes again once each has been killed, so that a short soak has different
    ones."""

    def __init__(self, processes: Processes, every_s: float, seed: int, now: Callable[[], float]) -> None:
        self._processes, self._every_s, self.now = processes, every_s, now
        self._random = random.Random(seed)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kills")
        self._left: list[str] = []
        self.kills: list[Kill] = []
        # What failed while something was started again.
        self.failed: list[str] = []

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def was_near(self, at: float, within_s: float = 60.0) -> bool:
        """Whether something was killed shortly before: an answer may then be an error."""
        return any(0 <= at - kill.at <= within_s for kill in self.kills)

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            # A role without a process at this moment comes later.
            for role in self._candidates():
                at = self.now()
                try:
                    what = self._processes.kill(role, self._random.choice)
                except Exception as error:
                    self.failed.append(f"{role} did not start again: {error}")
                    what = role
                if what is not None:
                    self.kills.append(Kill(at, role))
                    self._left.remove(role)
                    print(f"{at:6.0f} s: kill -9 of {role}", flush=True)
                    break

    def _candidates(self) -> list[str]:
        if not self._left:
            self._left = [*ROLES]
        return self._random.sample(self._left, len(self._left))
