"""The Dagster UI and daemon of a stack: `dagster dev`, started and found again.

Invariant: there is one for each stack, and one that answers is never stopped to start another.
"""

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

from nats3_dagster.defs.instance.instance import dagster_home
from nats3_dagster.dev.health import is_healthy
from nats3_dagster.dev.process import HOST, Marker, Process, exclusive, free_port, wait_for
from nats3_dagster.errors import EngineError
from nats3_dagster.settings.private import make_folder, write_private

# How long one that runs may leave a request without an answer before it is replaced.
PATIENCE_S = 20.0
_START_S = 120.0
# What `dagster dev` writes when its webserver or daemon ended; it ends then. So much of its log is read for it.
_UNEXPECTED, _TAIL = "process shut down unexpectedly", 65_536


@dataclass(frozen=True, slots=True)
class DagsterUi:
    """A Dagster that runs and answers."""

    # http://host:port
    address: str
    pid: int
    port: int
    started_at: datetime
    # Whether this process started it.
    is_new: bool = False
    # The pid of one that ran, did not answer, and was stopped to start this one.
    replaced: int | None = None


class DagsterServer:
    """Webserver, daemon and code server of the stack under `home`."""

    def __init__(self, home: Path) -> None:
        self.log = home / "logs" / "dagster.log"
        self._home = home
        self._workspace = home / "dagster" / "workspace.yaml"
        self._process: Process | None = None

    def start(self, port: int, environment: Mapping[str, str]) -> DagsterUi:
        """Returns the running Dagster, or else a new one, when it answers. One that runs and does not answer is stopped
        first. Another port is taken where `port` is not free. Raises EngineError."""
        home = dagster_home()
        # Two that start at the same time: the second waits, and finds the Dagster of the first.
        with exclusive(self._home / "dagster.lock"):
            replaced = None
            if (process := self._find()) is not None:
                if ui := self._patient_ui():
                    return ui
                replaced = process.pid
                self.stop()
            try:
                self._start(home, port, environment)
                if (ui := self.ui()) is None:
                    raise EngineError("Dagster ended as soon as it answered", f"See {self.log}")
            except BaseException:
                self.stop()
                raise
            return replace(ui, is_new=True, replaced=replaced)

    def ui(self) -> DagsterUi | None:
        """Returns the running Dagster if it answers; None when there is none."""
        process = self._find()
        address = self.address
        if process is None or address is None or not is_healthy(f"{address}/server_info"):
            return None
        started_at = datetime.fromtimestamp(process.started_s, UTC)
        return DagsterUi(address, process.pid, urlsplit(address).port or 0, started_at)

    def find(self) -> bool:
        """Takes over the running one, whether it answers or not."""
        return self._find() is not None

    @property
    def address(self) -> str | None:
        """The address of the server that was started or found."""
        words = self._process.words if self._process else ()
        ports = [port for word, port in pairwise(words) if word == "-p"]
        return f"http://{HOST}:{ports[0]}" if ports else None

    @property
    def running(self) -> bool:
        """True while the one that was started or found lives."""
        return self._process is not None and self._process.running

    def last_words(self) -> str:
        """Returns which of its processes ended and how, as its log says last; empty if the log says nothing."""
        with suppress(OSError), self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
            lines = log.read().decode(errors="replace").splitlines()
            return next((line.partition("Exception: ")[2] for line in reversed(lines) if _UNEXPECTED in line), "")
        return ""

    def stop(self) -> None:
        """Stop what was started or found."""
        if self._process:
            self._process.stop()
            self._process = None

    def _patient_ui(self) -> DagsterUi | None:
        """`ui`, asked again for a while: a busy one may be late."""
        answers: list[DagsterUi] = []

        def ask() -> bool:
            answers.extend(filter(None, [self.ui()]))
            return bool(answers) or not self.running

        wait_for(ask, PATIENCE_S, every_s=0.5)
        return answers[0] if answers else None

    def _find(self) -> Process | None:
        if not self.running:
            self._process = Process.find(self._marker, end_signal=signal.SIGINT)
        return self._process

    def _start(self, home: Path, port: int, environment: Mapping[str, str]) -> None:
        write_private(
            self._workspace,
            "load_from:\n  - python_module: {module_name: nats3_dagster.definitions, location_name: nats3}\n",
        )
        try:
            port = free_port(port)
        except EngineError:
            port = free_port()
        make_folder(self.log.parent)
        argv = [sys.executable, "-m", "dagster", "dev", "-w", str(self._workspace), "-h", HOST, "-p", str(port)]
        own = {
            "DAGSTER_HOME": str(home),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            "NATS3_DAGSTER_URL": f"http://{HOST}:{port}",
        }
        env = os.environ | environment | own
        # Runs write exports and objects for others too: by the umask of this process.
        self._process = Process.start(argv, self._marker, self.log, env=env, end_signal=signal.SIGINT, umask=-1)
        self._process.wait_until(lambda: is_healthy(f"http://{HOST}:{port}/server_info"), "Dagster", timeout_s=_START_S)

    @property
    def _marker(self) -> Marker:
        """Returns the words that identify it in its command line."""
        return "-w", str(self._workspace)
