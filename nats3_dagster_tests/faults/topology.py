"""The servers of the fault tests: started when first asked for, kept for all seeds, repaired after a fault."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from itertools import permutations
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg import sql

from nats3_dagster.catalog import migrate
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.process import free_port
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster_tests.faults.jobs import FORKS
from nats3_dagster_tests.support.s3_client import plain_client
from nats3_dagster_tests.support.servers.s3_proxy import S3Proxy
from nats3_dagster_tests.support.servers.tcp_proxy import TcpProxy
from nats3_dagster_tests.support.wire import Wire

# The master of the warm Spark session, in the environment of its driver.
MASTER = "FAULTS_SPARK_MASTER"
TEMPLATE, BUCKET = "nats3_faults_template", "faults"


class Topology:
    """One NATS server, Postgres, S3, a cluster of three, and proxies before them and on each route.

    `with Topology() as servers: ...`"""

    def __init__(self) -> None:
        self._stack = ExitStack()
        # By the numbers of the server that dials and of the one that listens.
        self._routes: dict[tuple[int, int], TcpProxy] = {}
        self._spark: subprocess.Popen[bytes] | None = None
        self._master = ""
        # The object server needs a file system with user xattrs, which a tmpfs of older kernels has not.
        self.folder = Path(tempfile.mkdtemp(prefix="nats3-faults-"))
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)

    def __enter__(self) -> "Topology":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def forks(self) -> Path:
        """The socket of the fork server."""
        path = self.folder / "forks"
        self._serve("forks", path, {FORKS: str(path)})
        return path

    def spark(self, scratch: str = "", master: str = "local[2]") -> Path:
        """The socket of a driver with a warm Spark session, started if none of this master runs. `scratch`: its folder
        for that."""
        if self._master != master:
            self.end_spark()
        if self._spark is None or self._spark.poll() is not None:
            self._spark_socket, self._master = self.folder / f"spark-{uuid.uuid4().hex[:8]}", master
            environment = {"SPARK_LOCAL_DIRS": scratch or "/tmp", MASTER: master}
            self._spark = self._serve("spark_driver", self._spark_socket, environment)
        return self._spark_socket

    def end_spark(self) -> None:
        """kill -9 of the driver; its JVM ends with it."""
        if self._spark:
            self._spark.kill()
            self._spark.wait()

    def _serve(self, module: str, path: Path, more: dict[str, str]) -> "subprocess.Popen[bytes]":
        """Start a server of processes, and wait until it listens."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("NATS3_", "AWS_"))}
        log = self._stack.enter_context((self.folder / "processes.log").open("ab"))
        process = subprocess.Popen(
            [sys.executable, "-m", f"nats3_dagster_tests.faults.{module}", str(path)],
            cwd=Path(__file__).parents[2],
            env={**environment, "NATS3_HOME": str(self.folder), **more},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        assert process.stdout
        self._stack.enter_context(process.stdout)
        while (line := process.stdout.readline()) != b"ready\n":
            assert line, self.log()
        return process

    def log(self) -> str:
        """The end of what the processes wrote."""
        return (self.folder / "processes.log").read_text(errors="replace")[-3000:]

    # NATS

    @cached_property
    def nats(self) -> NatsServer:
        server = NatsServer(self.folder / "nats")
        self._stack.callback(server.kill)
        return server.start()

    @cached_property
    def small_nats(self) -> NatsServer:
        """A server whose streams drop what comes while a few messages wait to be stored."""
        folder = self.folder / "small"
        server = NatsServer(folder, config=f'jetstream {{store_dir: "{folder / "data"}", max_buffered_msgs: 64}}')
        self._stack.callback(server.kill)
        return server.start()

    @cached_property
    def nats_proxy(self) -> TcpProxy:
        return self._stack.enter_context(TcpProxy(self.nats.port))

    @cached_property
    def cluster(self) -> list[NatsServer]:
        """Three servers that know each other; each can be stopped, killed and started again."""
        ports = [free_port() for _ in range(3)]
        self._routes = {
            (n, other): self._stack.enter_context(TcpProxy(ports[other])) for n, other in permutations(range(3), 2)
        }
        # An address where nobody listens: they learn of each other by gossip, and then would go past the proxies.
        nowhere = free_port()

        def config(n: int) -> str:
            to = [ports[n], *(proxy.port for (a, _), proxy in self._routes.items() if a == n)]
            routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in to)
            return (
                f'cluster {{name: c, listen: "127.0.0.1:{ports[n]}", advertise: "127.0.0.1:{nowhere}", '
                f"routes: [{routes}]}}\n"
                f'jetstream {{store_dir: "{self.folder / f"n{n}" / "data"}", max_outstanding_catchup: 4KB}}'
            )

        servers = [NatsServer(self.folder / f"n{n}", name=f"n{n}", config=config(n)) for n in range(3)]
        for server in servers:
            self._stack.callback(server.kill)
        with ThreadPoolExecutor() as pool:
            list(pool.map(NatsServer.start, servers))
        return servers

    def routes_of(self, server: NatsServer) -> list[TcpProxy]:
        """What passes between this server of the cluster and the others. Of each pair both may have dialled."""
        number = self.cluster.index(server)
        return [proxy for pair, proxy in self._routes.items() if number in pair]

    def repair(self) -> None:
        """Start what a fault stopped, and let everything pass."""
        started = self.__dict__
        for server in [*([self.nats] if "nats" in started else []), *started.get("cluster", ())]:
            server.resume() if server.process and server.process.running else server.start()
        for proxy in self._routes.values():
            proxy.repair()
        if "postgres" in started and not self.postgres.find():
            self.postgres.start()
        for name in ("nats_proxy", "postgres_proxy", "s3_proxy"):
            if name in started:
                getattr(self, name).repair()

    @contextmanager
    def wire(self, servers: list[NatsServer] | None = None, **login: str) -> Iterator[Wire]:
        """A client that shares nothing with the code under test, past every proxy."""
        with Wire((servers or [self.nats])[0].url, **login) as client:
            yield client

    # Postgres

    @cached_property
    def postgres(self) -> Postgres:
        server = Postgres(self.folder / "postgres", fast=True)
        self._stack.callback(server.kill)
        server.start()
        with self.admin(server) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
        migrate(server.url(TEMPLATE))
        return server

    @cached_property
    def postgres_proxy(self) -> TcpProxy:
        return self._stack.enter_context(TcpProxy(self.postgres.port))

    def admin(self, server: Postgres | None = None, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect((server or self.postgres).url(database), autocommit=True)

    @contextmanager
    def database(self) -> Iterator[str]:
        """The name of a new database with the catalog's schema."""
        name = f"faults_{uuid.uuid4().hex[:12]}"
        with self.admin() as connection:
            statement = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"
            connection.execute(sql.SQL(statement).format(sql.Identifier(name), sql.Identifier(TEMPLATE)))
        try:
            yield name
        finally:
            with self.admin() as connection:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    # S3

    @cached_property
    def s3(self) -> S3Server:
        server = S3Server(self.folder / "s3")
        self._stack.callback(server.kill)
        server.start()
        plain_client(server.options).create_bucket(Bucket=BUCKET)
        return server

    @cached_property
    def s3_client(self) -> Any:
        """A plain boto3 client, past the proxy."""
        return plain_client(self.s3.options)

    @cached_property
    def s3_proxy(self) -> S3Proxy:
        return self._stack.enter_context(S3Proxy(self.s3.endpoint))

    @contextmanager
    def small_disk(self, size: str) -> Iterator[Path]:
        """A folder on a disk of this size. Raises OSError where we may not mount."""
        folder = self.folder / f"disk-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", folder], capture_output=True)
        if done.returncode:
            raise OSError(done.stderr.decode())
        try:
            yield folder
        finally:
            for _ in range(50):
                if not subprocess.run(["umount", folder], capture_output=True).returncode:
                    break
                time.sleep(0.1)
            with suppress(OSError):
                folder.rmdir()

    @staticmethod
    def grow(disk: Path, size: str) -> None:
        """Make room on a small disk."""
        subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True, capture_output=True)
