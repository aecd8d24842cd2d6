"""Dagster as in production: code server, webserver and daemon, each a process, on the project's dagster.yaml.

Only what Dagster does by the clock comes sooner: see hurried_daemon.py and hurried_definitions.py.
"""

import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from nats3_dagster.dev.process import HOST, Process, answers, free_port

ROOT = Path(__file__).parents[3]
LOCATION = "nats3"


class Dagster:
    """The three processes, with logs in `home`. `environment` says where NATS, Postgres and the store are."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home = home
        self.url = f"http://{HOST}:{free_port()}"
        self._code_port = free_port()
        self._environment = {
            **os.environ,
            **environment,
            "DAGSTER_HOME": str(home),
            "NATS3_DAGSTER_URL": self.url,
            "PYTHONPATH": str(ROOT),
            # What Dagster warns of is its own: a deprecated call in its dependencies.
            "PYTHONWARNINGS": "ignore",
        }
        self._running = ExitStack()

    def __enter__(self) -> "Dagster":
        with ExitStack() as started:
            self.home.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / "dagster.yaml", self.home)
            workspace = self.home / "workspace.yaml"
            server = {"host": HOST, "port": self._code_port, "location_name": LOCATION}
            workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))  # JSON is YAML
            self._code = self._start_code(started)
            ui = ["dagster-webserver", "-w", str(workspace), "-h", HOST, "-p", self.url.rpartition(":")[2]]
            self._start(started, *ui, ready=self._loaded)
            self.daemon = self._start_daemon(started)
            self._running = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def kill_code(self) -> list[psutil.Process]:
        """kill -9 of the code server alone, and a start of another one; the processes of its runs, which live."""
        code, runs = [psutil.Process(self._code.pid)], list[psutil.Process]()
        for child in self._code.children:
            with suppress(psutil.NoSuchProcess):  # a run that has ended, and that nobody has waited for yet
                (code if {"api", "grpc"} <= {*child.cmdline()} else runs).append(child)
        _kill(code)
        self._code = self._start_code(self._running)
        return runs

    def power_cut(self, runs: list[psutil.Process]) -> None:
        """kill -9 of these runs, of the code server and of the daemon, and a start of others."""
        _kill([*runs, psutil.Process(self._code.pid), *self._code.children, psutil.Process(self.daemon.pid)])
        self._code = self._start_code(self._running)
        self.daemon = self._start_daemon(self._running)

    def log(self, name: str) -> str:
        """What `dagster`, `dagster-webserver` or `dagster-daemon` has said so far."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def ask(self, query: str, **variables: Any) -> Any:
        """The data of the webserver's answer."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                said = json.load(answer)
        except urllib.error.HTTPError as error:  # status 500 of an answer that has a PythonError
            said = json.load(error)
        assert "errors" not in said, said["errors"]
        return said["data"]

    def assets(self) -> set[str]:
        found = self.ask("{ assetNodes { assetKey { path } } }")["assetNodes"]
        return {"/".join(node["assetKey"]["path"]) for node in found}

    def runs(self) -> list[dict[str, Any]]:
        """All runs, newest first: id, job, status, tags."""
        query = "{ runsOrError { ... on Runs { results { id jobName status tags { key value } } } } }"
        found = self.ask(query)["runsOrError"]["results"]
        return [run | {"tags": {tag["key"]: tag["value"] for tag in run["tags"]}} for run in found]

    def _start_daemon(self, started: ExitStack) -> Process:
        return self._start(started, "dagster-daemon", "run", "-w", str(self.home / "workspace.yaml"))

    def _start_code(self, started: ExitStack) -> Process:
        code = ["dagster", "code-server", "start", "-m", f"{__package__}.hurried_definitions", "-h", HOST]
        return self._start(started, *code, "-p", str(self._code_port), ready=lambda: answers(self._code_port))

    def _start(self, started: ExitStack, *words: str, ready: Callable[[], bool] = lambda: True) -> Process:
        marker = (*_program(words[0]), *words[1:])
        log = self.home / f"{words[0]}.log"
        process = Process.start(marker, marker, log, env=self._environment, end_signal=signal.SIGINT)
        started.callback(process.stop)
        process.wait_until(ready, words[0], timeout_s=90)
        return process

    def _loaded(self) -> bool:
        try:
            return bool(self.assets())
        except OSError:
            return False


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, 20)


def _program(name: str) -> tuple[str, ...]:
    if name == "dagster-daemon":
        return sys.executable, "-m", f"{__package__}.hurried_daemon"
    return (str(Path(sys.executable).with_name(name)),)
