"""nats-server with JetStream on loopback, in a folder of its own.

The rule kept here: a server is ready when it says so itself (its ports file), and keeps its port over a restart.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from nats3_dagster import settings
from nats3_dagster.dev.process import HOST, Marker, Process, answers, free_port
from nats3_dagster.errors import EngineError
from nats3_dagster.jetstream.nats_options import NatsOptions


def find_nats_server(home: Path | None = None) -> Path:
    """The program: `NATS_SERVER`, else `<home>/bin/nats-server`, else the search path. Raises EngineError."""
    if named := os.environ.get("NATS_SERVER"):
        if not (found := shutil.which(named)):
            raise EngineError(f"NATS_SERVER names no program: {named}", "Set it to a nats-server, or unset it")
        return Path(found).absolute()
    # Debian installs it into /usr/sbin, which is not on a plain user's search path.
    home = (home or settings.home()).absolute()
    checkout = Path(sys.prefix).parent / ".nats3"  # where `make setup` puts it, whatever folder we are called in
    path = os.pathsep.join([f"{home}/bin", f"{checkout}/bin", os.environ.get("PATH", ""), "/usr/sbin"])
    if not (found := shutil.which("nats-server", path=path)):
        raise EngineError("There is no nats-server here", "Run make setup, or set NATS_SERVER to the path of one")
    return Path(found).absolute()


def version_of(binary: Path) -> tuple[int, int, int]:
    """What `nats-server --version` says, as (2, 15, 1). Raises EngineError."""
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except OSError as error:
        raise EngineError(f"{binary} does not start: {error.strerror}", "Set NATS_SERVER to a nats-server") from None
    if not (match := re.search(r"v?(\d+)\.(\d+)\.(\d+)", said)):
        raise EngineError(f"{binary} does not say its version", "Set NATS_SERVER to a nats-server")
    return int(match[1]), int(match[2]), int(match[3])


class NatsServer:
    """A server that stores under `folder`. `config` is text added to its configuration file.

    `port` 0 takes any free port at the first start. With `stay` it outlives the process that started it."""

    def __init__(
        self, folder: Path, *, binary: Path | None = None, port: int = 0, config: str = "", name: str = "nats3",
        stay: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self._binary = binary
        self.port = port
        self.config = config
        self.name = name
        self.stay = stay
        self.process: Process | None = None

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def binary(self) -> Path:
        """The program. Raises EngineError when there is none."""
        return self._binary or find_nats_server()

    @property
    def options(self) -> NatsOptions:
        """How our own code connects to it; a test that configures logins adds them with dataclasses.replace."""
        return NatsOptions(servers=(self.url,))

    @property
    def version(self) -> tuple[int, int, int]:
        return version_of(self.binary)

    @property
    def marker(self) -> Marker:
        """The words of its command line by which a running server is known."""
        return "-c", str(self.folder / "server.conf")

    def find(self) -> bool:
        """Take over the server of this folder if one runs and answers, whoever started it."""
        if self.process is None or not self.process.running:
            self.process = Process.find(self.marker)
        return self.process is not None and self._read_port() and answers(self.port)

    def start(self) -> "NatsServer":
        """Start it and wait until it listens, its streams recovered. Raises EngineError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._ports, ignore_errors=True)
        self._ports.mkdir()
        store, files = _quote(self.folder / "data"), _quote(self._ports)
        port = free_port(self.port) if self.port else -1
        Path(self.marker[1]).write_text(
            f"server_name: {_quote(self.name)}\nhost: {HOST}\nport: {port}\nports_file_dir: {files}\n"
            f"jetstream: {{store_dir: {store}}}\n{self.config}\n"
        )
        argv = [str(self.binary), *self.marker]
        self.process = Process.start(argv, self.marker, self.folder / "server.log", stay=self.stay)
        self.process.wait_until(self._read_port, "nats-server")
        return self

    def stop(self) -> None:
        """Ask it to end, and wait."""
        if self.process:
            self.process.stop()

    def kill(self) -> None:
        """kill -9."""
        if self.process:
            self.process.kill()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers, as behind a broken network."""
        if self.process:
            os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after `pause`."""
        if self.process:
            os.kill(self.process.pid, signal.SIGCONT)

    def restart(self) -> "NatsServer":
        """Stop it and start it on the same port and folder."""
        self.stop()
        return self.start()

    def __enter__(self) -> "NatsServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _ports(self) -> Path:
        return self.folder / "ports"

    def _read_port(self) -> bool:
        try:
            urls = json.loads(next(self._ports.glob("*.ports")).read_text())
        except (StopIteration, ValueError):  # not written, or half written
            return False
        if not (port := urlsplit((urls.get("nats") or urls.get("tls"))[0]).port):
            return False
        self.port = port
        return True


def _quote(value: Path | str) -> str:
    """As a string of its configuration file, which knows none of JSON's escapes for other scripts."""
    return json.dumps(str(value), ensure_ascii=False)
