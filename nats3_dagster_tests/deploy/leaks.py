"""Search for secrets where whoever may use the engine reads: images, what `inspect` shows, logs, command lines."""

import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from nats3_dagster_tests.deploy.engine import Engine

# Files with secrets of a checkout's owner, which no image is to take along.
_STRAY = (".env", "nats3.toml", ".pyiceberg.yaml", "deploy/.env.production", ".nats3/stack.json")
_STRAY_SECRET = "s-stray-0f1e2d3c4b5a69788796a5b4c3d2e1f0"
# A line of the image's own entrypoint: a search that does not find it has not seen the layers.
KNOWN = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_PART = 1 << 24


def plant(clone: Path) -> None:
    """Put files with a secret of their own into a clone, before its image is built."""
    for name in _STRAY:
        file = clone / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'password = "{_STRAY_SECRET}"\n')


def patterns(secrets: Mapping[str, str]) -> dict[str, str]:
    """The texts to look for, by their names: those of a stack, and the planted one."""
    assert all(len(text) > 20 for text in secrets.values()), "a short text is found anywhere"
    return dict(secrets) | {"planted": _STRAY_SECRET}


def in_text(text: str, wanted: Mapping[str, str]) -> set[str]:
    """The names of the texts that are in it."""
    return {name for name, secret in wanted.items() if secret in text}


def in_image(engine: Engine, image: str, wanted: Mapping[str, str]) -> set[str]:
    """The names of the texts that are in the files of any layer, or in what the image says of itself."""
    with subprocess.Popen([engine.name, "save", image], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as saved:
        assert saved.stdout is not None
        found = _in_bytes(saved.stdout, wanted)
    assert saved.returncode == 0, f"{engine.name} save {image}: {saved.returncode}"
    return found


def _in_bytes(file: IO[bytes], wanted: Mapping[str, str]) -> set[str]:
    texts = {name: text.encode() for name, text in wanted.items()}
    longest, rest, found = max(map(len, texts.values())), b"", set[str]()
    while part := file.read(_PART):
        window = rest + part
        found |= {name for name, text in texts.items() if text in window}
        rest = window[-longest:]
    return found


def shown(engine: Engine, containers: Iterable[str]) -> dict[str, str]:
    """What the engine shows of containers, by where it is shown."""
    texts: dict[str, str] = {}
    for name in containers:
        texts[f"inspect {name}"] = engine("inspect", name)
        texts[f"logs {name}"] = engine.logs(name)
        if engine.inspect(name)["State"]["Running"]:
            texts[f"top {name}"] = engine("top", name)
    return texts
