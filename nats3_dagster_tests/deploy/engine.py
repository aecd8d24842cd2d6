"""The engine of containers that `make containers` found: Podman or Docker, by its command line."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

BASE = "docker.io/library/debian:bookworm-slim"
NAME = os.environ.get("NATS3_TEST_ENGINE", "")


def ask(words: Sequence[str], status: int | None = 0, timeout_s: float = 300, **options: Any) -> str:
    """What a command prints. Fails unless it ends with this status; None: with any."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, check=False, **options)
    said = f"{' '.join(words)}: {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert status is None or done.returncode == status, said
    return done.stdout


class Engine:
    """Containers and images by their names. `name` is the program."""

    def __init__(self, name: str = NAME) -> None:
        self.name = name

    def __call__(self, *words: str, status: int | None = 0, timeout_s: float = 300) -> str:
        return ask([self.name, *words], status, timeout_s)

    def has(self, image: str) -> bool:
        return subprocess.run([self.name, "image", "inspect", image], capture_output=True).returncode == 0

    def logs(self, container: str) -> str:
        """What the container has printed, on both outputs."""
        words = [self.name, "logs", container]
        return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout

    def build(self, image: str, file: Path, context: Path) -> None:
        """Build an image, with layers of former builds: one that fetches everything takes minutes.

        What fails is tried once more. Where containers cannot fetch packages at all, the test is skipped."""
        words = [self.name, "build", "-t", image, "-f", str(file), str(context)]
        said = ""
        for _ in range(2):
            done = subprocess.run(words, capture_output=True, text=True, timeout=3000, check=False)
            if done.returncode == 0:
                return
            said = f"{' '.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        if not self._fetches():
            pytest.skip("containers fetch no packages here: apt-get or pip download fails in one of the base image")
        raise AssertionError(said)

    def inspect(self, container: str) -> dict[str, Any]:
        return json.loads(self("inspect", container))[0]

    def is_healthy(self, container: str) -> bool:
        """Docker asks by itself. Podman has systemd ask, which may not be there: it is told to."""
        if self.name == "podman":
            return subprocess.run([self.name, "healthcheck", "run", container], capture_output=True).returncode == 0
        return self.inspect(container)["State"]["Health"]["Status"] == "healthy"

    def memory_mb(self, container: str) -> int:
        """Memory of its processes, without files that the kernel may drop."""
        script = "cat /sys/fs/cgroup/memory/memory.stat /sys/fs/cgroup/memory.stat 2>/dev/null || true"
        lines = [line.split() for line in self("exec", container, "sh", "-c", script).splitlines()]
        stat = {words[0]: int(words[1]) for words in lines if len(words) == 2}
        return (stat["total_rss"] if "total_rss" in stat else stat["anon"]) >> 20

    def memory_limit(self, container: str) -> int:
        """What the kernel lets its processes have, in bytes."""
        script = "cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
        return int(self("exec", container, "sh", "-c", script))

    def pull(self, image: str) -> bool:
        """True if the image is here, or a registry has given it."""
        if self.has(image):
            return True
        try:
            return subprocess.run([self.name, "pull", "-q", image], capture_output=True, timeout=300).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def _fetches(self) -> bool:
        script = (
            "apt-get -qq update && apt-get -qq install -y --no-install-recommends ca-certificates python3-pip && "
            "pip download -q --no-deps -d /tmp six"
        )
        try:
            words = [self.name, "run", "--rm", BASE, "sh", "-c", script]
            return subprocess.run(words, capture_output=True, timeout=600).returncode == 0
        except subprocess.TimeoutExpired:
            return False
