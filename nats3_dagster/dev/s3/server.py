"""An S3 endpoint on loopback: OpenStack Swift's own servers, from wheels.

It checks signatures, writes conditionally and keeps files, as S3 does; a mock would accept wrong secrets and expired
URLs. `python -m nats3_dagster.dev.s3.server FOLDER [PORT] [--no-create-lock]` runs one alone.
"""

import argparse
import json
import os
import secrets
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import nats3_dagster
from nats3_dagster.dev.health import is_healthy
from nats3_dagster.dev.process import HOST, Marker, Process, free_port
from nats3_dagster.dev.s3.config import ACCOUNT, BACKENDS, REGION, USER, read_ports, write_config
from nats3_dagster.errors import EngineError, Nats3Error
from nats3_dagster.objects import StoreOptions
from nats3_dagster.settings.private import make_folder

SERVERS = (*BACKENDS, "proxy")
_MODULES = {"account": "account", "container": "container", "object": "obj", "proxy": "proxy"}


class S3Server:
    """An endpoint that stores under `folder`, which must be on a file system with user xattrs.

    `create_lock=False` is stock Swift, whose create-only PUTs race. With `stay` it outlives the process that started
    it."""

    def __init__(self, folder: Path, *, port: int = 0, create_lock: bool = True, stay: bool = False) -> None:
        self.folder = folder.absolute()
        self.port = port
        self.create_lock = create_lock
        self.stay = stay
        self.processes: dict[str, Process] = {}

    region = REGION
    access_key = f"{ACCOUNT}:{USER}"

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def secret_key(self) -> str:
        return (self.folder / "secret").read_text()

    @property
    def options(self) -> StoreOptions:
        """The options with which our own code connects to it."""
        return StoreOptions(
            url="s3://",
            endpoint=self.endpoint,
            region=REGION,
            access_key_id=self.access_key,
            secret_access_key=self.secret_key,
        )

    def marker(self, server: str) -> Marker:
        """Returns the words that identify a running server in its command line."""
        return "-m", f"swift.{_MODULES[server]}.server", str(self.folder / "etc" / f"{server}.conf")

    def find(self) -> bool:
        """Takes over the servers of this folder if all four run and answer."""
        for name in SERVERS:
            if name not in self.processes or not self.processes[name].running:
                self.processes.pop(name, None)
                if process := Process.find(self.marker(name)):
                    self.processes[name] = process
        if len(self.processes) < len(SERVERS):
            return False
        ports = read_ports(self.folder)
        self.port = ports["proxy"]
        return all(port and is_healthy(_health_of(port)) for port in ports.values())

    @property
    def ended(self) -> Process | None:
        """The first of the processes that were started or found that has ended by itself."""
        return next((process for process in self.processes.values() if not process.running), None)

    def start(self) -> "S3Server":
        """Start all four servers and wait until each is healthy (1.8 s). Raises EngineError."""
        if find_spec("swift") is None:
            hint = "Install nats3-dagster[embedded]; in a checkout: make setup"
            raise EngineError("The embedded S3 server is not installed", hint)
        make_folder(self.folder)
        require_xattrs(self.folder)
        if not (secret := self.folder / "secret").exists():
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_urlsafe(24))
        self.port = free_port(self.port)
        ports = {"proxy": self.port, **dict(zip(BACKENDS, _free_ports(len(BACKENDS), self.port), strict=True))}
        write_config(self.folder, ports, self.secret_key, create_lock=self.create_lock)
        try:
            for name in SERVERS:
                self.processes[name] = self._start(name)
            for name in SERVERS:
                address = _health_of(ports[name])
                self.processes[name].wait_until(lambda at=address: is_healthy(at), f"Swift's {name} server")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ask all four to end, and wait."""
        for process in reversed(self.processes.values()):
            process.stop()

    def kill(self) -> None:
        """kill -9 of all four."""
        for process in self.processes.values():
            process.kill()

    def __enter__(self) -> "S3Server":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self, name: str) -> Process:
        # The proxy loads our filters by name, also where this package runs from a checkout.
        ours = str(Path(nats3_dagster.__file__).parents[1])
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [ours, os.environ.get("PYTHONPATH")]))}
        argv = [sys.executable, "-W", "ignore", *self.marker(name), "-v"]
        return Process.start(argv, self.marker(name), self.folder / f"{name}.log", stay=self.stay, env=env)


def require_xattrs(folder: Path) -> None:
    """Raises EngineError where files cannot have user xattrs: Swift keeps an object's metadata in them."""
    import xattr  # a dependency of Swift's; os.setxattr is Linux only

    probe = folder / ".xattr-probe"
    try:
        probe.touch()
        xattr.setxattr(str(probe), "user.swift.probe", b"1")
    except OSError as error:
        raise EngineError(
            f"The embedded S3 server cannot keep its data in {folder}: no user xattrs there ({error.strerror})",
            "Set NATS3_HOME to a folder on ext4, xfs, btrfs or APFS",
        ) from None
    finally:
        probe.unlink(missing_ok=True)


def _free_ports(count: int, taken: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        if (port := free_port()) != taken:
            ports.add(port)
    return sorted(ports)


def _health_of(port: int) -> str:
    return f"http://{HOST}:{port}/healthcheck"


def main() -> None:
    """Run one endpoint in the foreground and print how to reach it as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("port", type=int, nargs="?", default=0)
    parser.add_argument("--no-create-lock", action="store_true", help="stock Swift: create-only PUTs can race")
    arguments = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    try:
        with S3Server(arguments.folder, port=arguments.port, create_lock=not arguments.no_create_lock) as server:
            print(
                json.dumps(
                    {
                        "endpoint": server.endpoint,
                        "region": REGION,
                        "access_key": server.access_key,
                        "secret_key": server.secret_key,
                        "pids": {name: p.pid for name, p in server.processes.items()},
                    }
                ),
                flush=True,
            )
            while not ended.wait(0.2):
                if dead := [name for name, process in server.processes.items() if not process.running]:
                    raise EngineError(f"Swift's {dead[0]} server ended", f"See {server.folder / dead[0]}.log")
    except Nats3Error as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
