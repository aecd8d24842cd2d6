"""The processes of pytest that judge mutants, each with servers of its own, and the orders that they get."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import IO, Any, Self

from nats3_dagster_tests.mutants.change import ROOT
from nats3_dagster_tests.mutants.record import FOLDER

# The test that is run before all mutants, by a process with servers or without.
_FIRST = {True: "nats3_dagster_tests/mutants/servers.py", False: "nats3_dagster_tests/mutants/no_servers.py"}


class Worker:
    """One process, which has collected the tests of these files."""

    def __init__(self, number: int, files: Iterable[str], *, with_servers: bool) -> None:
        orders_out, orders_in = os.pipe()
        answers_out, answers_in = os.pipe()
        FOLDER.mkdir(parents=True, exist_ok=True)
        log = (FOLDER / f"worker-{os.getpid()}-{number}.log").open("w")
        plugin = "nats3_dagster_tests.mutants.worker"
        options = ["-n", "0", "-q", "-s", "-p", plugin, "-p", "no:cacheprovider", "-m", "not slow"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, _FIRST[with_servers], *files],
            cwd=ROOT,
            env={**os.environ, "NATS3_MUTANTS": f"{orders_out},{answers_in}"},
            pass_fds=(orders_out, answers_in),
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
        log.close()
        os.close(orders_out)
        os.close(answers_in)
        self._orders: IO[str] = os.fdopen(orders_in, "w", buffering=1)
        self._answers: IO[str] = os.fdopen(answers_out)

    def wait_ready(self) -> None:
        """Returns when the tests are collected and the servers run. Raises RuntimeError if they do not."""
        if failure := self._answer()["failure"]:
            raise RuntimeError(f"{failure} failed: see {FOLDER}")

    def ask(self, order: dict[str, Any]) -> dict[str, Any]:
        """The answer to an order. Raises RuntimeError if the process has ended."""
        self._orders.write(json.dumps(order) + "\n")
        return self._answer()

    def end(self) -> None:
        """Lets the process stop its servers and end."""
        self._orders.close()
        self._process.wait()
        self._answers.close()

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise RuntimeError(f"A process of pytest ended: see {FOLDER}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Crew:
    """Several workers that share what is to be done."""

    def __init__(self, jobs: int, files: list[str], *, with_servers: bool) -> None:
        self._jobs, self._files, self._with_servers = jobs, files, with_servers
        self._workers: list[Worker] = []
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        for number in range(self._jobs):
            worker = Worker(number, self._files, with_servers=self._with_servers)
            self._ends.callback(worker.end)
            self._workers.append(worker)
        for worker in self._workers:
            worker.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def tell(self, order: dict[str, Any]) -> dict[str, Any]:
        """Gives each worker the same order, and returns the answer of the last."""
        answer: dict[str, Any] = {}
        for worker in self._workers:
            answer = worker.ask(order)
        return answer

    def share(self, orders: Iterable[dict[str, Any]], take: Callable[[dict[str, Any], dict[str, Any]], None]) -> None:
        """Gives each order to the next worker that is free; `take` gets the order and its answer. An order is made when
        a worker is free for it."""
        waiting, lock = iter(orders), threading.Lock()

        def work(worker: Worker) -> None:
            while True:
                with lock:
                    order = next(waiting, None)
                if order is None:
                    return
                take(order, worker.ask(order))

        with ThreadPoolExecutor(self._jobs) as pool:
            for done in [pool.submit(work, worker) for worker in self._workers]:
                done.result()
