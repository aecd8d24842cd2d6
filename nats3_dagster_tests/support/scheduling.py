"""How the processes of a test run share its files.

pytest-xdist 3.8 never ends after one of its processes has died (its issues 1323 and 1327): the new process is given
what the dead one had finished, or a single test, and waits for more.
"""

from collections.abc import Generator
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController


class FileScheduling(LoadFileScheduling):
    """xdist's `loadfile`, for runs in which a process dies: its test has failed, and what it had left is run."""

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test at which the process died; None if it had done all its work."""
        assigned: dict[str, dict[str, bool]] = self.assigned_work.pop(node)
        left = {file: tests for file, tests in assigned.items() if not all(tests.values())}
        if not left:
            return None
        tests = next(iter(left.values()))
        crashed = next(test for test, is_done in tests.items() if not is_done)
        tests[crashed] = True  # run again, it would end the next process as well
        self.workqueue.update({file: tests for file, tests in left.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        """Gives the process work until it has more than it needs to begin, or is told that there is no more."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) <= 2:
            super()._reschedule(node)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Let a report show a lone surrogate as `\\udcXX`: xdist cannot send one, and ends the whole run without a name."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_sendable(key): _sendable(one) for key, one in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return type(value)(map(_sendable, value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return value


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FileScheduling | None:
    """Returns the scheduling of a run that shares whole files; None for another."""
    return FileScheduling(config, log) if config.getoption("dist") == "loadfile" else None
