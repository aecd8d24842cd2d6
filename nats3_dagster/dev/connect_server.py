"""The Spark Connect server of a stack: `nats3 connect-server`, started and found again.

Invariant: its token is made once, is in a file of its owner's, and goes to the server by that file.
"""

import os
import secrets
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from nats3_dagster.dev.process import HOST, Marker, Process, answers, exclusive, free_port
from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline.connect_server import require
from nats3_dagster.pipeline.java import CONNECT_PORT
from nats3_dagster.settings.private import make_folder, write_private

_PORT = "spark.connect.grpc.binding.port="
_START_S = 120.0


class ConnectServer:
    """A server on loopback in a folder of its own. `port` is taken if it is free, else another one."""

    def __init__(self, folder: Path, *, port: int = CONNECT_PORT) -> None:
        self.folder = folder.absolute()
        self.port = port
        self.process: Process | None = None

    @property
    def address(self) -> str:
        """sc://host:port, which may be shown."""
        return f"sc://{HOST}:{self.port}"

    @property
    def remote(self) -> str | None:
        """The address with the token, while the server runs: never print it."""
        return f"{self.address}/;token={self._token()}" if self.find() else None

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def marker(self) -> Marker:
        """Returns the words that identify a running server in its command line."""
        return (f"spark.local.dir={self.folder / 'local'}",)

    def find(self) -> bool:
        """Takes over the server of this folder if one runs, whether it listens yet or not."""
        if not self._runs and (found := Process.find(self.marker)) is not None:
            ports = [word.removeprefix(_PORT) for word in found.words if word.startswith(_PORT)]
            # A `nats3 connect-server` that has not become the server yet: its option.
            words = list(found.words)
            ports += [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--port"]
            with suppress(IndexError, ValueError):
                self.port, self.process = int(ports[0]), found
        return self._runs

    @property
    def listens(self) -> bool:
        """True if it runs and clients can connect."""
        return self.find() and answers(self.port)

    @property
    def ended(self) -> Process | None:
        """The process that was started or found, if it has ended by itself."""
        return self.process if self.process is not None and not self.process.running else None

    def launch(self, *conf: str) -> bool:
        """Start it, unless it runs, and do not wait until it listens; False if it ran. Raises EngineError."""
        make_folder(self.folder)
        with exclusive(self.folder / "lock"):
            if self.find():
                return False
            require()
            try:
                self.port = free_port(self.port)
            except EngineError:
                self.port = free_port()
            # What one left that was killed.
            shutil.rmtree(self.folder / "local", ignore_errors=True)
            self._token()
            argv = [sys.executable, "-m", "nats3_dagster.cli", "connect-server", "--host", HOST, "--port"]
            argv += [str(self.port), *(word for one in (*self.marker, *conf) for word in ("--conf", one))]
            environment = {name: value for name, value in os.environ.items() if name != "NATS3_SPARK_TOKEN"}
            environment["NATS3_SPARK_TOKEN_FILE"] = str(self._file)
            # Its workers write exports and objects for others too: by the umask of this process.
            self.process = Process.start(argv, self.marker, self.log, env=environment, umask=-1)
        return True

    def start(self, *conf: str) -> "ConnectServer":
        """Start it, and wait until it listens. Raises EngineError."""
        self.launch(*conf)
        assert self.process is not None
        self.process.wait_until(lambda: answers(self.port), "Spark Connect", timeout_s=_START_S)
        return self

    def stop(self) -> None:
        """Stop what was started or found."""
        if self.process:
            self.process.stop()
            self.process = None

    @property
    def _runs(self) -> bool:
        return self.process is not None and self.process.running

    @property
    def _file(self) -> Path:
        return self.folder / "token"

    def _token(self) -> str:
        with suppress(FileNotFoundError):
            return self._file.read_text()
        token = secrets.token_urlsafe(32)
        write_private(self._file, token)
        return token
