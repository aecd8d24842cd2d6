"""The stack of compose.yaml as docs/deploy.md starts it: a copy of deploy/ with ports and image names of the test's."""

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
from nats3_dagster_tests.deploy.files import DEPLOY
from nats3_dagster_tests.support.waiting import eventually
from nats3_dagster_tests.support.wire import Wire

_COMPOSE = os.environ.get("NATS3_TEST_COMPOSE", "").split()
_PORTS = ("4222", "3000", "8080")
# Services that go on, in the order of their dependencies.
LASTING = ("nats", "postgres", "s3", "code", "webserver", "daemon", "api")


class Stack:
    """`images`: for each image of compose.yaml the one to start. `folder` becomes the copy of deploy/."""

    def __init__(self, engine: Engine, folder: Path, images: Mapping[str, str]) -> None:
        self.engine, self.folder = engine, folder
        self.ports = {port: free_port() for port in _PORTS}
        self.project = f"nats3-test-{os.getpid()}"
        folder.mkdir(parents=True)
        for name in ("workspace.yaml", "nats.conf", "secrets.sh"):
            shutil.copy(DEPLOY / name, folder)
        self._text = (DEPLOY / "compose.yaml").read_text()
        for port, free in self.ports.items():
            self._text = self._text.replace(f'"{HOST}:{port}:', f'"{HOST}:{free}:')
        # The images are there: nothing is built by Compose.
        self._text = re.sub(r"^  build: .*\n", "", self._text, flags=re.MULTILINE)
        self.use(images)
        self.token = ask([str(folder / "secrets.sh")]).split()[-1]

    def use(self, images: Mapping[str, str]) -> None:
        """Start these images from now on."""
        text = self._text
        for image, other in images.items():
            text = re.sub(rf"image: {re.escape(image)}$", f"image: {other}", text, flags=re.MULTILINE)
        (self.folder / "compose.yaml").write_text(text)

    @property
    def secrets(self) -> dict[str, str]:
        """All that must stay secret, by name."""
        files = {file.name: file.read_text() for file in (self.folder / "secrets").iterdir()}
        return files | {"token": self.token}

    def compose(self, *words: str, status: int | None = 0) -> str:
        command = [*_COMPOSE, "-p", self.project, "-f", f"{self.folder.name}/compose.yaml", *words]
        return ask(command, status, 600, cwd=self.folder.parent)

    def up(self) -> None:
        """Start what does not run, and wait until all of it is healthy."""
        self.compose("up", "-d")
        for name in LASTING:
            self.await_health(name)

    def await_health(self, name: str, timeout_s: float = 240) -> None:
        eventually(lambda: self._is_up(name), f"{name} is healthy", timeout_s, every_s=1)

    def down(self, *words: str) -> None:
        self.compose("down", *words)

    def container(self, service: str) -> str:
        """The newest container of a service."""
        labels = {"project": self.project, "service": service}
        filters = [w for key, value in labels.items() for w in ("--filter", f"label=com.docker.compose.{key}={value}")]
        found = self.engine("ps", "-a", *filters, "--format", "{{.Names}}").split()
        assert found, f"there is no container of {service}"
        return found[0]

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

    def wire(self) -> Wire:
        password = (self.folder / "secrets" / "nats_password").read_text()
        return Wire(f"nats://{HOST}:{self.ports['4222']}", **{"user": "nats3", "pass": password})

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
