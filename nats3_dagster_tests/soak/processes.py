"""The processes of a soak: the servers, and Dagster as in production, each started again when it was killed.

Invariant: dagster.yaml and the definitions are those of the project, with its own intervals. A process is started again
at once and with the same words, as systemd or Kubernetes would.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from nats3_dagster.dev.process import HOST, Process, answers, free_port
from nats3_dagster.dev.stack import Stack
from nats3_dagster_tests.support.process_use import tree_of

ROOT = Path(__file__).parents[2]
# What may be killed; `run` is a process of a run, `replay` the one that follows.
ROLES = ("run", "daemon", "code server", "API", "nats-server", "Postgres", "replay")
# Of a run of Dagster, in its command line.
_RUN = "execute_run"


class Processes:
    """All of them, under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stack = Stack(folder / "home", stay=False)
        self._dagster = folder / "home" / "dagster"
        self._code_port, self._api_port = free_port(), free_port()
        self._running: dict[str, Process] = {}
        # The id of the replay that follows, once it is made.
        self.replay_id: str | None = None
        # Runs whose code server was killed.
        self._orphans: list[psutil.Process] = []

    def start_servers(self) -> None:
        """nats-server, Postgres and the S3 server; the environment of this process then names them."""
        for made in ("home", "tmp"):
            (self.folder / made).mkdir(parents=True)
        self.stack.start()
        os.environ.update(self.stack.endpoints.environment)
        os.environ |= {
            "NATS3_HOME": str(self.folder / "home"),
            "DAGSTER_HOME": str(self._dagster),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "TMPDIR": str(self.folder / "tmp"),
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "ignore",
            "NATS3_DELETE_GRACE": "60s",
        }

    def start_dagster(self) -> None:
        """The code server, the daemon and the API, once there are archives: a code location knows those of its load."""
        self._dagster.mkdir(exist_ok=True)
        shutil.copy(ROOT / "dagster.yaml", self._dagster)
        server = {"host": HOST, "port": self._code_port, "location_name": "nats3"}
        self._workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))  # JSON is YAML
        for role in ("code server", "daemon", "API"):
            self._start(role)

    @property
    def metrics_url(self) -> str:
        return f"http://{HOST}:{self._api_port}/metrics"

    def pids(self) -> dict[str, list[int]]:
        """The pids of each long-lived process with its children, by role; those of runs together."""
        # A copy: another thread may start one again meanwhile.
        found = {role: _tree(process.pid) for role, process in dict(self._running).items()}
        for name, server in (("nats-server", self.stack.nats), ("Postgres", self.stack.postgres)):
            found[name] = _tree(server.process.pid) if server.process else []
        found["S3 server"] = [pid for process in [*self.stack.s3.processes.values()] for pid in _tree(process.pid)]
        runs = self.runs()
        found["runs"] = [pid for run in runs for pid in _tree(run.pid)]
        found["code server"] = [pid for pid in found.get("code server", ()) if pid not in set(found["runs"])]
        found["replay"] = [pid for process in self._replays() for pid in _tree(process.pid)]
        return found

    @property
    def follows(self) -> bool:
        """Whether the replay that follows has a process."""
        return bool(self._replays())

    def runs(self) -> list[psutil.Process]:
        """The processes of runs, each of which has its own JVM below it."""
        code = self._running.get("code server")
        found: list[psutil.Process] = []
        for process in [*(code.children if code else ()), *self._orphans]:
            with suppress(psutil.Error):
                if process.is_running() and _is_run(process):
                    found.append(process)
        return found

    def kill(self, role: str, choose: Callable[[list[psutil.Process]], psutil.Process]) -> str | None:
        """kill -9, and a start of another one; says what was killed, None where there is none."""
        if role == "run":
            runs = self.runs()
            return _kill_tree(choose(runs)) if runs else None
        if role == "replay":
            replays = self._replays()
            return _kill_tree(replays[0]) if replays else None
        if role == "code server":
            # The code server alone: its runs live.
            process = self._running[role]
            self._orphans = self.runs()
            mine = {run.pid for run in self._orphans} | {pid for run in self._orphans for pid in _tree(run.pid)}
            for child in [psutil.Process(process.pid), *process.children]:
                if child.pid not in mine:
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
        elif role in self.stack.servers:
            server = self.stack.servers[role]
            server.kill()
            server.start()
            return role
        else:
            self._running[role].kill()
        self._start(role)
        return role

    def revive(self) -> list[str]:
        """Start what has ended by itself; its roles. The replay that follows is resumed, as an operator would do."""
        ended = [role for role, process in self._running.items() if not process.running]
        for role in ended:
            self._start(role)
        return ended

    def stop_dagster(self) -> None:
        for role in ("daemon", "code server", "API"):
            self._running.pop(role).stop()

    def stop(self) -> None:
        """Everything that this object started."""
        for process in self._replays():
            _kill_tree(process)
        for run in self.runs():
            _kill_tree(run)
        for process in self._running.values():
            process.stop()
        self.stack.stop()

    @property
    def _workspace(self) -> Path:
        return self._dagster / "workspace.yaml"

    def _replays(self) -> list[psutil.Process]:
        if not self.replay_id:
            return []
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "load" in words and "resume" in words and self.replay_id in words:
                found.append(process)
        return found

    def _start(self, role: str) -> None:
        programs = Path(sys.executable).parent
        words = {
            "code server": (
                *(str(programs / "dagster"), "code-server", "start", "-m", "nats3_dagster.definitions"),
                *("-h", HOST, "-p", str(self._code_port)),
            ),
            "daemon": (str(programs / "dagster-daemon"), "run", "-w", str(self._workspace)),
            "API": (str(programs / "nats3"), "serve", "--listen", f"{HOST}:{self._api_port}"),
        }[role]
        log = self.folder / f"{role.replace(' ', '-')}.log"
        process = Process.start(words, words[1:], log, env=dict(os.environ), end_signal=signal.SIGINT)
        self._running[role] = process
        ports = {"code server": self._code_port, "API": self._api_port}
        if role in ports:
            process.wait_until(lambda: answers(ports[role]), role, timeout_s=180)


def _tree(pid: int) -> list[int]:
    return [process.pid for process in tree_of(pid)]


def _is_run(process: psutil.Process) -> bool:
    """A process that the code server forked or spawned for a run: it has neither the words of the server itself nor
    those of a helper of multiprocessing, and children of it are of the same run."""
    words = " ".join(process.cmdline())
    return _RUN in words or ("multiprocessing" in words and "spawn_main" in words)


def _kill_tree(process: psutil.Process) -> str:
    """kill -9 of one process alone: what it leaves behind has to end by itself."""
    name = f"{process.pid}"
    with suppress(psutil.NoSuchProcess):
        process.kill()
    return name
