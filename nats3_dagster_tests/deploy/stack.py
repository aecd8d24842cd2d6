"""The stack of compose.yaml as README.md starts it, in a clone with ports and names of the test's."""

import json
import os
import re
import shutil
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nats3_dagster.dev.process import HOST, free_port
from nats3_dagster_tests.deploy.engine import Engine, ask
from nats3_dagster_tests.deploy.files import ROOT, first_commands
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

_COMPOSE = os.environ.get("NATS3_TEST_COMPOSE", "").split()
_PORTS = ("4222", "3000", "8080")
# Services that go on, in the order of their dependencies.
LASTING = ("nats", "postgres", "s3", "spark", "code", "webserver", "daemon", "api")


def clone(folder: Path) -> Path:
    """A clone of the checkout as it would be committed now, without what no image is made of."""
    for name in ask(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT).splitlines():
        if (ROOT / name).is_file() and not name.startswith(("docs/", "nats3_dagster_tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


class Stack:
    """The containers that the two commands of README.md start in a clone.

    Only names and ports are others, so that no stack of this machine's is touched: `images` has for each image of
    compose.yaml the one to start or to build."""

    def __init__(self, engine: Engine, folder: Path, images: Mapping[str, str]) -> None:
        self.engine, self.folder = engine, folder
        self.ports = {port: free_port() for port in _PORTS}
        self.project = f"nats3-test-{os.getpid()}-{folder.name}"
        file = folder / "deploy" / "compose.yaml"
        text = file.read_text()
        for port, free in self.ports.items():
            text = text.replace(f'"{HOST}:{port}:', f'"{HOST}:{free}:')
        for image, other in images.items():
            text = re.sub(rf"image: {re.escape(image)}$", f"image: {other}", text, flags=re.MULTILINE)
        file.write_text(text)
        make_secrets, self._up = first_commands()
        assert self._up[:4] == ["docker", "compose", "-f", "deploy/compose.yaml"]
        self.token = ask(make_secrets, cwd=folder).split()[-1]

    @property
    def secrets(self) -> dict[str, str]:
        """All that must stay secret, by name."""
        files = {file.name: file.read_text() for file in (self.folder / "deploy" / "secrets").iterdir()}
        return files | {"token": self.token}

    def compose(self, *words: str, timeout_s: float = 600) -> str:
        """`docker compose -f deploy/compose.yaml` with these words, in the clone, by what this machine has."""
        return ask([*_COMPOSE, "-p", self.project, "-f", self._up[3], *words], 0, timeout_s, cwd=self.folder)

    def up(self, *words: str) -> None:
        """The second command of README.md, or another `up`, and wait until all of it is healthy. The first time it
        builds the image."""
        self.compose(*(words or self._up[4:]), timeout_s=3000)
        for name in LASTING:
            self.await_health(name)

    def await_health(self, name: str, timeout_s: float = 600) -> None:
        eventually(lambda: self._is_up(name), f"{name} is healthy", timeout_s, every_s=1)

    def down(self, *words: str) -> None:
        self.compose("down", *words)

    def end(self) -> None:
        """Show the ends of all logs, and remove containers and volumes."""
        for name in (*LASTING, "migrate"):
            if self.has_container(name):
                print(f"== {name}\n{self.logs(name)[-4000:]}")
        self.down("-v")

    def container(self, service: str) -> str:
        """The newest container of a service."""
        found = self._containers(service)
        assert found, f"there is no container of {service}"
        return found[0]

    def has_container(self, service: str) -> bool:
        """True if the service has a container, whether it runs or not."""
        return bool(self._containers(service))

    def _containers(self, service: str) -> list[str]:
        labels = {"project": self.project, "service": service}
        filters = [w for key, value in labels.items() for w in ("--filter", f"label=com.docker.compose.{key}={value}")]
        return self.engine("ps", "-a", *filters, "--format", "{{.Names}}").split()

    def exec(self, service: str, *words: str, status: int | None = 0) -> str:
        return self.engine("exec", self.container(service), *words, status=status)

    def kill(self, service: str) -> None:
        """Kill its first process from outside, as the kernel does where memory ends: its restart policy starts it
        again, which it would not after `kill` of the engine's."""
        state = self.engine.inspect(self.container(service))["State"]
        os.kill(state["Pid"], signal.SIGKILL)
        eventually(lambda: self._pid(service) not in (0, state["Pid"]), f"{service} is started again", 120, every_s=0.5)
        self.await_health(service)

    def logs(self, service: str) -> str:
        return self.engine.logs(self.container(service))

    @property
    def nats_url(self) -> str:
        return f"nats://{HOST}:{self.ports['4222']}"

    def wire(self) -> Wire:
        return Wire(self.nats_url, **{"user": "nats3", "pass": self.secrets["nats_password"]})

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """What the HTTP API answers."""
        request = urllib.request.Request(
            f"http://{HOST}:{self.ports['8080']}{path}",
            json.dumps(body).encode() if body is not None else None,
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def ask(self, query: str, **variables: Any) -> Any:
        """The data of the answer of Dagster's webserver, whose address the UI asks too."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        address = f"http://{HOST}:{self.ports['3000']}/graphql"
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            said = json.load(answer)
        assert "errors" not in said, said["errors"]
        return said["data"]

    def archived(self, name: str = "events") -> int:
        """How many messages the archive has, as the API says."""
        return next(job["messages"] for job in self.api("GET", "/store/jobs") if job["name"] == name)

    def await_archived(self, count: int, timeout_s: float = 300) -> float:
        """Wait until the archive has so many messages; the seconds that it took."""
        began = time.monotonic()
        eventually(lambda: self.archived() >= count, f"{count} messages are archived", timeout_s, every_s=0.5)
        return time.monotonic() - began

    def _is_up(self, service: str) -> bool:
        return self._pid(service) != 0 and self.engine.is_healthy(self.container(service))

    def _pid(self, service: str) -> int:
        state = self.engine.inspect(self.container(service))["State"]
        return state["Pid"] if state["Running"] else 0
