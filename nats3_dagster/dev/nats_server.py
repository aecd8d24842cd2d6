"""nats-server with JetStream on loopback, in a folder of its own.

It is ready when it has written its ports file, and it keeps its port when it is started again.
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

from nats3_dagster.dev.process import HOST, Marker, Process, answers, free_port
from nats3_dagster.errors import EngineError
from nats3_dagster.jetstream.nats_options import NatsOptions
from nats3_dagster.settings import home
from nats3_dagster.settings.private import make_folder, write_private

NATS_SERVER_HINT = (
    "Install it (package nats-server of Debian, Ubuntu and Homebrew, or a download of "
    "https://github.com/nats-io/nats-server/releases), or set NATS_SERVER to the path of one; in a checkout: make setup"
)


def find_nats_server() -> Path:
    """The program: `NATS_SERVER`, else `bin/nats-server` of NATS3_HOME, else the search path. Raises EngineError."""
    if named := os.environ.get("NATS_SERVER"):
        if not (program := shutil.which(named)):
            raise EngineError(f"NATS_SERVER names no program: {named}", "Set it to a nats-server, or unset it")
        return Path(program).absolute()
    checkout = Path(sys.prefix).parent / ".nats3"  # where `make setup` puts it, whatever the working directory is
    # Debian installs it into /usr/sbin, which is not on a plain user's search path.
    path = os.pathsep.join([f"{home()}/bin", f"{checkout}/bin", os.environ.get("PATH", ""), "/usr/sbin"])
    if not (program := shutil.which("nats-server", path=path)):
        raise EngineError("There is no nats-server here", NATS_SERVER_HINT)
    return Path(program).absolute()


def version_of(binary: Path) -> tuple[int, int, int]:
    """The version that `nats-server --version` prints, as (2, 15, 1). Raises EngineError."""
    try:
        output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except OSError as error:
        raise EngineError(f"{binary} does not start: {error.strerror}", "Set NATS_SERVER to a nats-server") from None
    if not (match := re.search(r"v?(\d+)\.(\d+)\.(\d+)", output)):
        raise EngineError(f"{binary} does not say its version", "Set NATS_SERVER to a nats-server")
    return int(match[1]), int(match[2]), int(match[3])


class NatsServer:
    """A server that stores under `folder`. `config` is text added to its configuration file.

    `port` 0 takes any free port at the first start. With `monitor` it has a monitoring port as well, any free one on
    loopback. With `stay` it outlives the process that started it."""

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        config: str = "",
        name: str = "nats3",
        monitor: bool = False,
        stay: bool = False,
    ) -> None:
        self.folder = folder.absolute()
        self.port = port
        self.config = config
        self.name = name
        self.monitor = monitor
        # http://host:port of the monitoring port, while the server runs and has one.
        self.monitor_url: str | None = None
        self.stay = stay
        self.process: Process | None = None

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    @property
    def options(self) -> NatsOptions:
        """The options with which our own code connects to it, without a login: a test that configures one adds it."""
        return NatsOptions(servers=(self.url,))

    @property
    def version(self) -> tuple[int, int, int]:
        return version_of(find_nats_server())

    @property
    def marker(self) -> Marker:
        """Returns the words that identify a running server in its command line."""
        return "-c", str(self.folder / "server.conf")

    def find(self) -> bool:
        """Takes over the server of this folder if one runs and answers."""
        if self.process is None or not self.process.running:
            self.process = Process.find(self.marker)
        return self.process is not None and self._read_port() and answers(self.port)

    @property
    def ended(self) -> Process | None:
        """The process that was started or found, if it has ended by itself."""
        return self.process if self.process is not None and not self.process.running else None

    def start(self) -> "NatsServer":
        """Start it and wait until it has recovered its streams and listens. Raises EngineError."""
        make_folder(self.folder)
        shutil.rmtree(self._ports, ignore_errors=True)
        make_folder(self._ports)
        store, files = _quote(self.folder / "data"), _quote(self._ports)
        port = free_port(self.port) if self.port else -1
        write_private(
            Path(self.marker[1]),
            f"server_name: {_quote(self.name)}\nhost: {HOST}\nport: {port}\nports_file_dir: {files}\n"
            f"jetstream: {{store_dir: {store}}}\n{self._monitoring}{self.config}\n",
        )
        argv = [str(find_nats_server()), *self.marker]
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
        """Freezes it (SIGSTOP): connections stay open and nothing answers, as in a broken network."""
        if self.process:
            os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it after `pause`."""
        if self.process:
            os.kill(self.process.pid, signal.SIGCONT)

    def __enter__(self) -> "NatsServer":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _monitoring(self) -> str:
        """The line of the configuration for the monitoring port."""
        return f'http: "{HOST}:-1"\n' if self.monitor else ""

    @property
    def _ports(self) -> Path:
        return self.folder / "ports"

    def _read_port(self) -> bool:
        try:
            urls = json.loads(next(self._ports.glob("*.ports")).read_text())
        except (StopIteration, ValueError):  # missing, or half written
            return False
        if not (port := urlsplit((urls.get("nats") or urls.get("tls"))[0]).port):
            return False
        self.port = port
        self.monitor_url = next(iter(urls.get("monitoring") or ()), None)
        return True


def _quote(value: Path | str) -> str:
    """A string of its configuration file: JSON, but without \\u escapes, which the server does not know."""
    return json.dumps(str(value), ensure_ascii=False)
