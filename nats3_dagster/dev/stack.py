"""The embedded stack: nats-server, Postgres and an S3 endpoint under one folder.

Invariant: starting is idempotent. Servers that run are found in the process table and left alone; only missing ones are
started. `stack.json` exists only while the stack runs; `settings` reads from it how to reach the servers.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from nats3_dagster.catalog import migrate
from nats3_dagster.dev.connect_server import ConnectServer
from nats3_dagster.dev.dagster_server import DagsterServer
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.process import exclusive, free_port
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.errors import EngineError, Nats3Error
from nats3_dagster.settings import home as default_home
from nats3_dagster.settings.private import make_home, write_private

DATABASE = "nats3"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses and logins of the stack: the fields of `stack.json`, named as in `nats3.toml`."""

    # nats://host:port
    nats_url: str
    # http://host:port of the server's monitoring port.
    nats_monitor_url: str | None
    # With the password.
    postgres_url: str = field(repr=False)
    # http://host:port
    s3_endpoint: str
    s3_region: str
    s3_access_key_id: str
    s3_secret_access_key: str = field(repr=False)
    # The root of all buckets, as NATS3_STORE_URL.
    store_url: str = "s3://"

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables, for a process that must use this stack."""
        return {
            "NATS3_NATS_URL": self.nats_url,
            "NATS3_POSTGRES_URL": self.postgres_url,
            "NATS3_STORE_URL": self.store_url,
            "AWS_ENDPOINT_URL_S3": self.s3_endpoint,
            "AWS_REGION": self.s3_region,
            "AWS_ACCESS_KEY_ID": self.s3_access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.s3_secret_access_key,
            **({"NATS3_NATS_MONITOR_URL": self.nats_monitor_url} if self.nats_monitor_url else {}),
        }


class StoppedElsewhere(Exception):
    """A command has stopped the stack."""


class Stack:
    """The stack under `home`: NATS3_HOME, else `.nats3` in the working directory.

    It outlives the process that started it unless `stay` is False. `fast` gives up durability: for tests."""

    def __init__(self, home: Path | None = None, *, stay: bool = True, fast: bool = False) -> None:
        self.home = home.absolute() if home else default_home()
        ports = self._last_ports()
        self.nats = NatsServer(self.home / "nats", port=ports.get("nats_url", 0), monitor=True, stay=stay)
        self.postgres = Postgres(self.home / "postgres", port=ports.get("postgres_url", 0), fast=fast, stay=stay)
        self.s3 = S3Server(self.home / "s3", port=ports.get("s3_endpoint", 0), stay=stay)
        # Not of the stack's servers: `start` and `stop` leave them alone.
        self.dagster = DagsterServer(self.home)
        self.connect = ConnectServer(self.home / "spark")

    @property
    def servers(self) -> dict[str, NatsServer | Postgres | S3Server]:
        """The servers by name, in the order of their start."""
        return {"nats-server": self.nats, "Postgres": self.postgres, "S3 server": self.s3}

    @property
    def file(self) -> Path:
        return self.home / "stack.json"

    @property
    def endpoints(self) -> Endpoints:
        """The addresses and logins of the servers, once they are started."""
        return Endpoints(
            nats_url=self.nats.url,
            nats_monitor_url=self.nats.monitor_url,
            postgres_url=self.postgres.url(DATABASE),
            s3_endpoint=self.s3.endpoint,
            s3_region=self.s3.region,
            s3_access_key_id=self.s3.access_key,
            s3_secret_access_key=self.s3.secret_key,
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that must use these servers, and Spark Connect if it runs."""
        remote = self.connect.remote
        return self.endpoints.environment | ({"NATS3_SPARK_REMOTE": remote} if remote else {})

    def start(self, on_step: Callable[[str], None] = lambda _: None, *, again: Collection[str] = ()) -> "Stack":
        """Start the servers that do not run, wait until all answer, migrate the catalog, write `stack.json`.

        `on_step` is called with each step before it, a server that runs has none. With `again`, names of servers, only
        these are started, and a stack that was stopped meanwhile stays so: raises StoppedElsewhere. Raises EngineError;
        the servers that this call started are then stopped."""
        with self._locked():
            if again:
                self._require_started()
            started: list[NatsServer | Postgres | S3Server] = []
            try:
                for name, server in self.servers.items():
                    if (not again or name in again) and not server.find():
                        on_step(f"start {name}")
                        server.stop()  # processes of it that run and do not answer
                        started.append(server)
                        server.port = _if_free(server.port)
                        server.start()
                if started:
                    on_step("migrate the catalog")
                self.postgres.create_database(DATABASE)
                migrate(self.endpoints.postgres_url)
            except BaseException:
                for server in reversed(started):
                    server.kill()
                raise
            # What uses these servers may still run.
            before = _read(self.file)
            self._write(before.get("dagster_url"), before.get("spark_remote"))
        return self

    def require_started(self) -> None:
        """Raises StoppedElsewhere where a command has stopped the stack, or is about to: waits for its end."""
        with self._locked():
            self._require_started()

    def announce(self, dagster_url: str | None) -> None:
        """Write where the Dagster UI of this stack is, for `settings`, and Spark Connect if it runs; None: it has
        ended."""
        with self._locked():
            if self.file.exists():
                self._write(dagster_url, self.connect.remote)

    def running(self) -> dict[str, bool]:
        """Returns for each of the servers whether it runs and answers now."""
        return {"nats": self.nats.find(), "postgres": self.postgres.find(), "s3": self.s3.find()}

    def stop(self) -> None:
        """Stops the running servers, but neither Dagster nor Spark Connect. The data stays; the next start takes the
        same ports if they are free."""
        with self._locked():
            self._stop_servers()

    def stop_all(self) -> None:
        """Stop Dagster, then Spark Connect, and then the servers that they use."""
        with self._locked():
            # First the file: who watches the stack then knows that it is stopped on purpose.
            if self.file.exists():
                self.file.replace(self._last)
            if self.dagster.find():
                self.dagster.stop()
            if self.connect.find():
                self.connect.stop()
            self._stop_servers()

    def __enter__(self) -> "Stack":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _stop_servers(self) -> None:
        if self.file.exists():
            self.file.replace(self._last)
        for server in reversed(self.servers.values()):
            server.find()
            server.stop()

    def _require_started(self) -> None:
        if not self.file.exists():
            raise StoppedElsewhere

    @property
    def _last(self) -> Path:
        return self.home / "stack.last.json"

    def _last_ports(self) -> dict[str, int]:
        """The ports of the running stack, else of the last one; empty when there was none."""
        for file in (self.file, self._last):
            fields = _read(file)
            with suppress(ValueError, KeyError):  # not a file of the stack: any free port will do
                return {name: urlsplit(fields[name]).port or 0 for name in ("nats_url", "postgres_url", "s3_endpoint")}
        return {}

    def _write(self, dagster_url: str | None, spark_remote: str | None) -> None:
        """Write `stack.json`, readable by its owner only, whole or not at all."""
        new = self.home / f"stack.{os.getpid()}.new"
        others = {"dagster_url": dagster_url, "spark_remote": spark_remote}
        fields = asdict(self.endpoints) | {name: value for name, value in others.items() if value}
        write_private(new, json.dumps(fields, indent=2) + "\n")
        new.replace(self.file)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder's lock, so that two `nats3 dev` at once make one stack."""
        with ExitStack() as held:
            try:
                make_home(self.home)
                held.enter_context(exclusive(self.home / "stack.lock"))
            except OSError as error:
                what = f"{self.home} cannot be used: {error.strerror}"
                raise EngineError(what, "Set NATS3_HOME to a folder that you may write") from None
            yield


def _read(file: Path) -> dict[str, str]:
    """The fields of a `stack.json`; empty when it is missing or invalid."""
    with suppress(OSError, ValueError):
        return json.loads(file.read_text())
    return {}


def _if_free(port: int) -> int:
    """The port, or 0 (any) when it is taken."""
    try:
        return free_port(port) if port else 0
    except EngineError:
        return 0


def main() -> None:
    """`python -m nats3_dagster.dev.stack start|stop|status`: the stack by itself. `nats3 dev` does more."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("action", choices=("start", "stop", "status"))
    action = parser.parse_args().action
    stack = Stack()
    try:
        if action == "start":
            stack.start()
        elif action == "stop":
            stack.stop()
        for name, is_running in stack.running().items():
            print(f"{name}: {'runs' if is_running else 'does not run'}")
    except Nats3Error as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
