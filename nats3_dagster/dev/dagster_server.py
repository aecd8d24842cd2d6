"""The Dagster UI and daemon of a stack: `dagster dev`, started and found again."""

import os
import signal
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from nats3_dagster.defs.instance import dagster_home
from nats3_dagster.dev.process import HOST, Marker, Process, free_port
from nats3_dagster.errors import EngineError


class DagsterServer:
    """Webserver, daemon and code server of the stack under `home`."""

    def __init__(self, home: Path) -> None:
        self.log = home / "logs" / "dagster.log"
        self._workspace = home / "dagster" / "workspace.yaml"
        self._process: Process | None = None

    def start(self, port: int, environment: Mapping[str, str]) -> str:
        """The UI's address, when it answers; what ran before is stopped. Another port is taken where `port` is not
        free. Raises EngineError."""
        if self.find():
            self.stop()
        home = dagster_home()
        self._workspace.write_text(
            "load_from:\n  - python_module: {module_name: nats3_dagster.definitions, location_name: nats3}\n"
        )
        try:
            port = free_port(port)
        except EngineError:
            port = free_port()
        self.log.parent.mkdir(exist_ok=True)
        argv = [sys.executable, "-m", "dagster", "dev", "-w", str(self._workspace), "-h", HOST, "-p", str(port)]
        env = os.environ | environment | {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes"}
        self._process = Process.start(argv, self._marker, self.log, env=env, end_signal=signal.SIGINT)
        address = f"http://{HOST}:{port}"
        self._process.wait_until(lambda: _answers(f"{address}/server_info"), "Dagster", timeout_s=120)
        return address

    def find(self) -> bool:
        """Take over the one that runs, whoever started it."""
        self._process = Process.find(self._marker, end_signal=signal.SIGINT)
        return self._process is not None

    @property
    def running(self) -> bool:
        """True while the one that was started or found lives."""
        return self._process is not None and self._process.running

    def stop(self) -> None:
        """Stop what was started or found."""
        if self._process:
            self._process.stop()
            self._process = None

    @property
    def _marker(self) -> Marker:
        """The words of its command line by which it is known."""
        return "-w", str(self._workspace)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as answer:  # noqa: S310  our own http:// address
            return answer.status == 200
    except OSError:
        return False
