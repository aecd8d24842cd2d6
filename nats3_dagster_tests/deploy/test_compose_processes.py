"""What compose.yaml starts, without containers: its commands and variables as they are, on the test's own servers."""

import json
import os
import shutil
import signal
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import HOST, Process, answers, free_port
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.settings import Settings
from nats3_dagster_tests.conftest import NatsFactory
from nats3_dagster_tests.deploy import files
from nats3_dagster_tests.support.dagster.processes import ROOT
from nats3_dagster_tests.support.dagster.stories import archive, archived
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

TOKEN_HASH = "0" * 64
_PORTS = ("3000", "4266", "8080", "15002")


class Compose:
    """The services of compose.yaml as processes. `secrets` are what the files under /run/secrets hold; `addresses` are
    the servers of the test for those of compose.yaml; `key` is the one that the S3 server of the test knows."""

    def __init__(
        self, folder: Path, secrets: dict[str, str], addresses: dict[str, str], key: str, started: ExitStack
    ) -> None:
        self.folder = folder
        self._key = key
        self.ports = {port: free_port() for port in _PORTS}
        self._started = started
        self._replaced = {
            **addresses,
            "http://webserver:3000": f"http://{HOST}:{self.ports['3000']}",
            "sc://spark:15002": f"sc://{HOST}:{self.ports['15002']}",
            "0.0.0.0": HOST,
            "/run/secrets": str(folder / "secrets"),
            "/etc/nats3/workspace.yaml": str(folder / "workspace.yaml"),
        }
        (folder / "secrets").mkdir()
        for name, value in secrets.items():
            (folder / "secrets" / name).write_text(value)
        # As the image has it.
        (folder / "home").mkdir()
        shutil.copy(ROOT / "dagster.yaml", folder / "home")
        workspace = (files.DEPLOY / "workspace.yaml").read_text()
        workspace = workspace.replace("host: code", f"host: {HOST}").replace("4266", str(self.ports["4266"]))
        (folder / "workspace.yaml").write_text(workspace)

    def environment(self, name: str) -> dict[str, str]:
        """That of a service, and nothing of this process but where programs are."""
        given = {key: self._here(value) for key, value in files.services()[name]["environment"].items()}
        kept = {key: os.environ[key] for key in ("JAVA_HOME",) if key in os.environ}
        programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        return (
            kept
            | given
            | {
                "AWS_ACCESS_KEY_ID": self._key,
                "PATH": programs,
                "HOME": str(self.folder),
                "PYTHONPATH": str(ROOT),
                "PYTHONWARNINGS": "ignore",
                "DAGSTER_HOME": str(self.folder / "home"),
                "DAGSTER_DISABLE_TELEMETRY": "yes",
            }
        )

    def start(self, name: str) -> Process:
        words = [self._here(word) for word in files.services()[name]["command"]]
        if name == "spark":  # the port is the command's own default
            words += ["--port", str(self.ports["15002"])]
        # A checkout's `nats3` is that of its own package.
        program = [sys.executable, "-m", "nats3_dagster.cli"] if words[0] == "nats3" else [_beside(words[0])]
        marker = (*program, *words[1:])
        log = self.folder / f"{name}.log"
        process = Process.start(marker, marker, log, env=self.environment(name), end_signal=signal.SIGTERM)
        self._started.callback(process.stop)
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def ask(self, port: str, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.ports[port]}{path}", timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def _here(self, word: str) -> str:
        for there, here in self._replaced.items():
            word = word.replace(there, here)
        return str(self.ports.get(word, word))


def _beside(program: str) -> str:
    return str(Path(sys.executable).with_name(program))


@pytest.fixture
def guarded(nats_factory: NatsFactory) -> NatsServer:
    """nats-server with the users of nats.conf."""
    text = (files.DEPLOY / "nats.conf").read_text()
    users = next(line for line in text.splitlines() if line.startswith("authorization"))
    return nats_factory(config=users.replace("$NATS_PASSWORD", '"s-secret"'), monitor=True)


@pytest.fixture
def compose(guarded: NatsServer, empty_postgres_url: str, s3_server: S3Server, tmp_path: Path) -> Iterator[Compose]:
    secrets = {
        "nats_password": "s-secret",
        "postgres_url": empty_postgres_url,
        "s3_secret_key": s3_server.secret_key,
        "spark_token": "s-spark-secret",
        "api_tokens": TOKEN_HASH,
    }
    addresses = {
        "nats://nats:4222": guarded.url,
        "http://nats:8222": str(guarded.monitor_url),
        "http://s3:8333": s3_server.endpoint,
    }
    with ExitStack() as started:
        yield Compose(tmp_path, secrets, addresses, s3_server.access_key, started)


@pytest.mark.steady_hour(90)
@pytest.mark.timeout(240)  # a JVM starts, and a capture after it
def test_what_compose_starts_captures_a_stream_by_itself(
    compose: Compose, guarded: NatsServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate = compose.start("migrate")
    eventually(lambda: not migrate.running, "the schema is made")
    assert "schema" in compose.log("migrate")
    for name, value in compose.environment("api").items():
        if name.startswith(("NATS3_", "AWS_")):
            monkeypatch.setenv(name, value)
    settings = Settings.load()
    with Wire(guarded.url, **{"user": "nats3", "pass": "s-secret"}) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish([("ev.a", b"", b"%d" % n) for n in range(300)])
        archive(settings, bucket, max_age_s=1)
        compose.start("spark")
        compose.start("code")
        compose.start("api")
        eventually(lambda: answers(compose.ports["4266"]), "the code server listens")
        compose.start("webserver")
        daemon = compose.start("daemon")
        eventually(lambda: archived(settings) == 300, "the daemon's sensor has captured the stream", 150)
    assert compose.ask("8080", "/ping") == "pong"
    assert json.loads(compose.ask("3000", "/server_info"))["dagster_version"]
    assert daemon.running
    for name in ("spark", "code", "webserver", "daemon", "api"):
        assert "Traceback" not in compose.log(name)
        assert "s-secret" not in compose.log(name)
        assert "s-spark-secret" not in compose.log(name)
    with psycopg.connect(settings.postgres) as connection:
        (runs,) = connection.execute("SELECT array_agg(DISTINCT status) FROM public.runs").fetchone() or ((),)
    assert set(runs) <= {"SUCCESS", "STARTED"}
