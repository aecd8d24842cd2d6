"""The embedded stack: nats-server, Postgres and an S3 endpoint under one folder, found again by whoever comes next.

The rule kept here: starting is idempotent. What already runs is found in the process table and left alone; only what
is missing is started. `stack.json` tells `settings` how to reach it all, and is there only while it runs.
"""

import argparse
import fcntl
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from nats3_dagster import settings
from nats3_dagster.catalog import migrate
from nats3_dagster.dev.dagster_server import DagsterServer
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.process import free_port
from nats3_dagster.dev.s3server import S3Server
from nats3_dagster.errors import EngineError, Nats3Error

DATABASE = "nats3"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """How to reach the stack: the fields of `stack.json`, named as in `nats3.toml`."""

    nats_url: str
    postgres_url: str = field(repr=False)
    s3_endpoint: str
    s3_region: str
    s3_access_key_id: str
    s3_secret_access_key: str = field(repr=False)
    store_url: str = "s3://"

    @property
    def environment(self) -> dict[str, str]:
        """The same as environment variables, for a process that shall use this stack and no other."""
        return {
            "NATS3_NATS_URL": self.nats_url, "NATS3_POSTGRES_URL": self.postgres_url, "NATS3_STORE_URL": self.store_url,
            "AWS_ENDPOINT_URL_S3": self.s3_endpoint, "AWS_REGION": self.s3_region,
            "AWS_ACCESS_KEY_ID": self.s3_access_key_id, "AWS_SECRET_ACCESS_KEY": self.s3_secret_access_key,
        }


class Stack:
    """The stack under `home`: NATS3_HOME, else `.nats3` in the working directory.

    It outlives the process that started it unless `stay` is False. `fast` gives up durability: for tests."""

    def __init__(
        self, home: Path | None = None, *, stay: bool = True, fast: bool = False, binary: Path | None = None
    ) -> None:
        self.home = (home or settings.home()).absolute()
        before = self._ports_before()
        self.nats = NatsServer(self.home / "nats", binary=binary, port=before.get("nats_url", 0), stay=stay)
        self.postgres = Postgres(self.home / "postgres", port=before.get("postgres_url", 0), fast=fast, stay=stay)
        self.s3 = S3Server(self.home / "s3", port=before.get("s3_endpoint", 0), stay=stay)
        # Not one of the stack's servers: `start` and `stop` leave it alone.
        self.dagster = DagsterServer(self.home)

    @property
    def file(self) -> Path:
        return self.home / "stack.json"

    @property
    def endpoints(self) -> Endpoints:
        """Where it all is, once it is started."""
        return Endpoints(
            nats_url=self.nats.url, postgres_url=self.postgres.url(DATABASE), s3_endpoint=self.s3.endpoint,
            s3_region=self.s3.region, s3_access_key_id=self.s3.access_key, s3_secret_access_key=self.s3.secret_key,
        )

    def start(self, told: Callable[[str], None] = lambda _: None) -> "Stack":
        """Start what does not run, wait until all of it answers, bring the catalog's schema up, write `stack.json`.

        `told` hears a word before each step. Raises EngineError; what this call had started is then stopped again."""
        with self._alone():
            started: list[NatsServer | Postgres | S3Server] = []
            try:
                for name, server in (("nats-server", self.nats), ("Postgres", self.postgres), ("S3 server", self.s3)):
                    told(name)
                    if not server.find():
                        server.stop()  # what is left of one that does not answer
                        started.append(server)
                        server.port = _still_free(server.port)
                        server.start()
                told("catalog")
                self.postgres.create_database(DATABASE)
                migrate(self.endpoints.postgres_url)
            except BaseException:
                for server in reversed(started):
                    server.kill()
                raise
            # A Dagster UI that runs on them goes on running.
            self._write(self._said(self.file).get("dagster_url"))
        return self

    def announce(self, dagster_url: str | None) -> None:
        """Let `settings` know where the Dagster UI of this stack is; None: it has ended."""
        with self._alone():
            if self.file.exists():
                self._write(dagster_url)

    def running(self) -> dict[str, bool]:
        """Which of the servers run and answer now, whoever started them."""
        return {"nats": self.nats.find(), "postgres": self.postgres.find(), "s3": self.s3.find()}

    def stop(self) -> None:
        """Stop what runs, whoever started it. The data stays, and the next start takes the same ports if it can."""
        with self._alone():
            for server in (self.s3, self.postgres, self.nats):
                server.find()
                server.stop()
            if self.file.exists():
                self.file.replace(self._last)

    def __enter__(self) -> "Stack":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _last(self) -> Path:
        return self.home / "stack.last.json"

    def _ports_before(self) -> dict[str, int]:
        for file in (self.file, self._last):
            said = self._said(file)
            with suppress(ValueError, KeyError):  # none of ours: any free port will do
                return {name: urlsplit(said[name]).port or 0 for name in ("nats_url", "postgres_url", "s3_endpoint")}
        return {}

    def _said(self, file: Path) -> dict[str, str]:
        with suppress(OSError, ValueError):
            return json.loads(file.read_text())
        return {}

    def _write(self, dagster_url: str | None) -> None:
        """Write `stack.json` for its owner's eyes, whole or not at all."""
        new = self.home / f"stack.{os.getpid()}.new"
        new.touch(mode=0o600)
        told = asdict(self.endpoints) | ({"dagster_url": dagster_url} if dagster_url else {})
        new.write_text(json.dumps(told, indent=2) + "\n")
        new.replace(self.file)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the folder's lock: two `nats3 dev` at once make one stack."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            lock = (self.home / "stack.lock").open("w")
        except OSError as error:
            what = f"{self.home} cannot be used: {error.strerror}"
            raise EngineError(what, "Set NATS3_HOME to a folder that you may write") from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _still_free(port: int) -> int:
    """The port of last time, or 0 where it is another's by now."""
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
        for name, runs in stack.running().items():
            print(f"{name}: {'runs' if runs else 'does not run'}")
    except Nats3Error as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
