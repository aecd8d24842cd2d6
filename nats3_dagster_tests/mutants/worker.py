"""A plugin of pytest that judges mutants: tests are collected once, servers start once, and each mutant is put into a
child of this process that runs its tests and ends.

It takes orders, one a line, from the pipe that NATS3_MUTANTS names, and answers each by a line.
"""

import asyncio
import gc
import importlib
import json
import math
import os
import resource
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any

import hypothesis
import pytest

from nats3_dagster.hours import CLOCKS_S
from nats3_dagster_tests.conftest import _delete_streams
from nats3_dagster_tests.mutants import put_in
from nats3_dagster_tests.mutants.reach import Reach

# A child may need this much longer than its tests took without a mutant.
_FACTOR, _MORE_S, _LONGEST_S = 10, 15, 240
# The same of a single test, in seconds of its processor time.
_FACTOR_CPU, _MORE_CPU_S = 4, 3
_HOUR_S, _STEADY_S = 3600, 90
# Where the session's NATS is, as servers.py says.
NATS_URL = pytest.StashKey[str]()
_Work = Callable[[dict[str, Any]], Iterator[dict[str, Any]]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Let generated examples be the same each time, and the first failure the last."""
    hypothesis.settings.register_profile(
        "mutants",
        hypothesis.settings.get_profile("nats3"),
        derandomize=True,
        database=None,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    )
    hypothesis.settings.load_profile("mutants")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    orders, answers = (int(number) for number in os.environ.pop("NATS3_MUTANTS").split(","))
    config.pluginmanager.register(
        _Judge(config, os.fdopen(orders), os.fdopen(answers, "w", buffering=1)), "mutants-judge"
    )


class _Judge:
    def __init__(self, config: pytest.Config, orders: IO[str], answers: IO[str]) -> None:
        self._config, self._orders, self._answers = config, orders, answers
        self._items: dict[str, pytest.Item] = {}
        self._functions: put_in.Functions = {}
        # Of the test under way, in a child.
        self._failure = self._skipped = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        # It starts what belongs to the session: servers, or the settings that all tests have.
        _run_alone(next(item for item in session.items if item.path.name in {"servers.py", "no_servers.py"}))
        self._answer({"ready": True, "failure": self._failure})
        for line in self._orders:
            order = json.loads(line)
            match order["do"]:
                case "files":
                    for module in order["modules"]:  # some are imported where they are used
                        importlib.import_module(module)
                    self._functions = put_in.functions_by_file(set(order["files"]))
                    gc.freeze()
                    self._answer({"tests": len(self._items)})
                case "reach":
                    self._answer(self._in_child(order, self._reach, order["limit"]))
                case _:
                    seconds = sum(order["tests"].values())
                    limit = min(_MORE_S + _FACTOR * seconds, _LONGEST_S + 2 * seconds)
                    self._answer(self._in_child(order, self._judge, limit))
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._failure:
            self._failure = report.nodeid
        if report.skipped:
            self._skipped = report.nodeid

    def _answer(self, answer: dict[str, Any]) -> None:
        self._answers.write(json.dumps(answer) + "\n")

    # The parent

    def _in_child(self, order: dict[str, Any], what: _Work, limit: float) -> dict[str, Any]:
        """Returns what the child says last; `hung` if it had to be killed, `died` if it said nothing."""
        gone = time.time() % _HOUR_S
        if gone < CLOCKS_S or gone > _HOUR_S - _STEADY_S:  # no test waits in its child for the hour to pass
            time.sleep((CLOCKS_S + 1 - gone) % _HOUR_S)
        reading, writing = os.pipe()
        began = time.monotonic()
        if not (child := os.fork()):
            os.close(reading)
            self._child(order, what, writing)
        os.close(writing)
        said, hung = b"", False
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, began + limit - time.monotonic()))
            if not ready:
                hung = True
                break
            if not (part := os.read(reading, 1 << 16)):
                break
            said += part
        os.close(reading)
        for pid in (-child, child):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(child, 0)
        lines = [json.loads(line) for line in said.decode().splitlines(keepends=True) if line.endswith("\n")]
        if (hung or not lines) and order["do"] != "clean":
            self._in_child({"do": "clean"}, self._clean, 60)
        seconds = time.monotonic() - began
        end = lines[-1] if lines else {"end": "hung" if hung else "died"}
        return {**end, "seconds": seconds, "lines": lines}

    # A child, which ends without any of the parent's ends: its servers go on

    def _child(self, order: dict[str, Any], what: _Work, pipe: int) -> None:
        os.setsid()
        status = 1
        try:
            with os.fdopen(pipe, "w", buffering=1) as said:
                for answer in what(order):
                    said.write(json.dumps(answer) + "\n")
            status = 0
        finally:
            os._exit(status)

    def _judge(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            match order["do"]:
                case "function":
                    put_in.put_in_function(
                        self._functions, order["file"], order["name"], order["line"], order["source"].encode()
                    )
                case "variable":
                    put_in.put_in_variable(order["module"], order["source"].encode())
                case _:
                    put_in.put_in_statement(order["name"], order["source"])
        except put_in.NotPutInError as error:
            yield {"end": "not put in", "why": str(error)}
            return
        except Exception as error:
            yield {"end": "dead", "killer": f"import: {type(error).__name__}"}
            return
        tests = {name: seconds for name, seconds in order["tests"].items() if name in self._items}
        for name, seconds in tests.items():
            _limit_processor(_MORE_CPU_S + _FACTOR_CPU * seconds)
            self._run(self._items[name], _MORE_S + _FACTOR * seconds)
            if self._failure:
                yield {"end": "dead", "killer": self._failure}
                return
        yield {"end": "alive"}

    def _reach(self, order: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields for each test of a file what it reaches, or that it does not pass."""
        reach = Reach(order["files"], self._functions)
        for item in self._items.values():
            if item.nodeid.split("::")[0] != order["file"]:
                continue
            began = time.monotonic()
            self._failure = self._skipped = ""
            with reach:
                self._run(item, order["test_limit"])
            yield {
                "test": item.nodeid,
                "seconds": time.monotonic() - began,
                "passed": not self._failure and not self._skipped,
                "lines": reach.lines(),
                "statements": reach.statements(),
            }

    def _run(self, item: pytest.Item, limit: float) -> None:
        item.add_marker(pytest.mark.timeout(limit, method="signal"), append=False)
        _run_alone(item)

    def _clean(self, _: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Takes out what a killed child left in NATS; its database and folders are its own."""
        if url := self._config.stash.get(NATS_URL, ""):
            asyncio.run(_delete_streams(url))
        yield {"end": "cleaned"}


def _limit_processor(seconds: float) -> None:
    """Lets the system end this process after so many more seconds of its processor time: a loop without an end needs
    them soon, and a machine that is busy does not use them up."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = math.ceil(used.ru_utime + used.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))


def _run_alone(item: pytest.Item) -> None:
    """Runs a test and takes down all that it set up, but for what belongs to the session. Were another test of its
    file the next one, pytest would leave some of it, and a test that is none of the next ones would fail by that."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=item.session)
