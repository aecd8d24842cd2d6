"""The units of deploy/systemd, started by systemd in a container, as docs/deploy.md says: part of `make containers`.

The servers are the suite's own. The container shares the loopback of this machine with them: its ports are the units'.
"""

import json
import re
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.process import HOST, answers
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster_tests.deploy.engine import NAME, Engine
from nats3_dagster_tests.deploy.files import DEPLOY, ROOT, units
from nats3_dagster_tests.deploy.test_containers import IMAGE
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(NAME != "podman", reason="needs Podman, which runs systemd in a container: make containers"),
    pytest.mark.timeout(1500),
]

COUNT = 20_000
_CONTAINER = "nats3-test-systemd"
_PORTS = (3000, 4266, 8080, 15002)
# A machine with what the first commands of the page install, and nothing else of nats3.
_MACHINE = f"""FROM {IMAGE}
USER 0
RUN apt-get update && apt-get install -y --no-install-recommends systemd && rm -rf /var/lib/apt/lists/* && \\
    userdel nats3 && rm -rf /var/lib/nats3
COPY . /src
WORKDIR /src
"""
_INSTALLED = ("python3 -m venv", "/opt/nats3/bin/")


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
def machine(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A container whose first process is systemd, after all commands of the page."""
    if taken := [port for port in _PORTS if answers(port)]:
        pytest.skip(f"the units listen on ports that others have: {taken}")
    engine, folder = Engine(), tmp_path_factory.mktemp("machine")
    with ExitStack() as started:
        postgres = started.enter_context(Postgres(folder / "postgres", fast=True))
        s3 = started.enter_context(S3Server(folder / "s3"))
        context = folder / "src"
        shutil.copytree(DEPLOY / "systemd", context / "deploy" / "systemd")
        shutil.copy(ROOT / "dagster.yaml", context)
        settings = {
            "nats_url": nats.url,
            "postgres_url": postgres.url(),
            "s3_endpoint": s3.endpoint,
            "s3_region": s3.region,
            "s3_access_key_id": s3.access_key,
            "s3_secret_access_key": s3.secret_key,
            "dagster_url": f"http://{HOST}:{_PORTS[0]}",
            "spark_remote": f"sc://{HOST}:{_PORTS[3]}",
            "spark_token": "s-spark-secret",
        }
        (context / "nats3.toml").write_text(
            "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
        )
        (folder / "Dockerfile").write_text(_MACHINE)
        if not engine.has(IMAGE):
            engine.build(IMAGE, DEPLOY / "Dockerfile", ROOT)
        engine.build(_CONTAINER, folder / "Dockerfile", context)
        engine("rm", "-f", _CONTAINER, status=None)
        # With a capability to mount, systemd 252 leaves the folder of a credential empty here, and root's own.
        how = ("--name", _CONTAINER, "--systemd=always", "--network=host")
        engine("run", "--detach", *how, "--entrypoint", "/lib/systemd/systemd", _CONTAINER)
        started.callback(engine, "rm", "-f", _CONTAINER)
        started.callback(lambda: print(engine("exec", _CONTAINER, "journalctl", "-n", "200", status=None)))
        eventually(lambda: engine("exec", _CONTAINER, "systemctl", "list-units", status=None), "systemd answers", 60)
        engine(
            "exec", _CONTAINER, "sh", "-c", "mkdir -p /etc/nats3 && echo JAVA_HOME=/opt/java >/etc/nats3/environment"
        )
        for line in _commands():
            engine("exec", _CONTAINER, "sh", "-c", line, timeout_s=300)
        yield engine


def _commands() -> list[str]:
    """What the page says after the programs are there, a line each."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    block = re.search(r"## systemd\n.*?```sh\n(.*?)```", text, re.DOTALL)
    assert block, "docs/deploy.md has no commands of systemd"
    lines = block[1].splitlines()
    rest = [line for line in lines if not line.startswith(_INSTALLED)]
    assert len(lines) - len(rest) == 4
    return rest


def test_all_units_come_up(machine: Engine) -> None:
    for name in units():
        eventually(lambda name=name: _state(machine, name) == "active", f"{name} is active", 120, every_s=0.5)
    for port in _PORTS:
        eventually(lambda port=port: answers(port), f"{port} answers", 120)


def test_the_daemon_captures_a_stream(machine: Engine, nats: NatsServer) -> None:
    with Wire(nats.url) as wire:
        wire.create_stream("EV", "ev.>")
        wire.publish((f"ev.{n % 5}", b"", b"%d" % n) for n in range(COUNT))
    _api(
        "POST",
        "/store/job",
        {"name": "events", "stream": "EV", "bucket": "archive", "create_bucket": True, "max_age_s": 1},
    )
    eventually(lambda: _archived() == COUNT, "all is archived", 300, every_s=0.5)


def test_a_replay_whose_unit_is_killed_is_retried_and_doubles_nothing(machine: Engine, nats: NatsServer) -> None:
    """The run dies with the unit, and no process is left that could tell Dagster. Its task goes on in Spark Connect's
    unit meanwhile: the retry asks the target what is there."""
    body = {"bucket": "archive", "read_stream": "EV", "read_subject": "ev.>", "write_subject": "back.>", "rate": 2000}
    with Wire(nats.url) as wire:
        wire.create_stream("BACK", "back.>")
        job = _api("POST", "/load/job", body)["id"]
        eventually(lambda: wire.state("BACK")["messages"] > COUNT // 10, "it publishes", 240)
        machine("exec", _CONTAINER, "systemctl", "kill", "--signal=SIGKILL", "nats3-code")
        assert wire.state("BACK")["messages"] < COUNT, "it was killed in its middle"
        eventually(
            lambda: _api("GET", f"/load/job?job_id={job}")["status"] == "Success", "it is retried", 900, every_s=1
        )
        assert sorted(int(m.data) for m in wire.messages("BACK")) == list(range(COUNT))
    assert _state(machine, "nats3-code") == "active"


def _state(machine: Engine, unit: str) -> str:
    return machine("exec", _CONTAINER, "systemctl", "is-active", unit, status=None).strip()


def _archived() -> int:
    (job,) = _api("GET", "/store/jobs")
    return job["messages"]


def _api(method: str, path: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(
        f"http://{HOST}:8080{path}", data, {"Content-Type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)
