"""The stack of compose.yaml as docs/deploy.md starts it: a copy of deploy/ with ports and image names of the test's."""

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from nats3_dagster.dev.process import HOST, free_port
from nats3_dagster_tests.deploy.engine import Engine, ask
from nats3_dagster_tests.deploy.files import DEPLOY
from nats3_dagster_tests.support.waiting import eventually

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
        text = (DEPLOY / "compose.yaml").read_text()
        for port, free in self.ports.items():
            text = text.replace(f'"{HOST}:{port}:', f'"{HOST}:{free}:')
        # The images are there: nothing is built by Compose.
        text = re.sub(r"^  build: .*\n", "", text, flags=re.MULTILINE)
        for image, other in images.items():
            text = re.sub(rf"image: {re.escape(image)}$", f"image: {other}", text, flags=re.MULTILINE)
        (folder / "compose.yaml").write_text(text)
        ask([str(folder / "secrets.sh")])

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

    def logs(self, service: str) -> str:
        return self.engine.logs(self.container(service))

    def _is_up(self, service: str) -> bool:
        return self._pid(service) != 0 and self.engine.is_healthy(self.container(service))

    def _pid(self, service: str) -> int:
        state = self.engine.inspect(self.container(service))["State"]
        return state["Pid"] if state["Running"] else 0
