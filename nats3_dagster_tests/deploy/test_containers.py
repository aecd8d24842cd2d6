"""The image, and the stack of compose.yaml, in containers: `make containers`. Each test goes on with the stack that the
one before has left."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nats3_dagster_tests.deploy import stand_ins
from nats3_dagster_tests.deploy.engine import NAME, Engine, ask
from nats3_dagster_tests.deploy.files import ROOT
from nats3_dagster_tests.deploy.stack import LASTING, Stack

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not NAME, reason="needs an engine of containers: make containers"),
    pytest.mark.timeout(900),
]

IMAGE = "localhost/nats3-test"
# Of /opt/nats3, which is all that is not Debian's: the size of the base depends on who made it.
LARGEST_MB = 1100
_CLASSES = """
from nats3_dagster.pipeline import classes, java
assert classes.options(java.find_java()), "the archive of Spark's classes does not fit this Java and these jars"
"""


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone as docs/deploy.md has it before the build: with the secrets of deploy/secrets.sh."""
    folder = tmp_path_factory.mktemp("clone") / "nats3"
    for name in ask(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT).splitlines():
        if (ROOT / name).is_file() and not name.startswith(("docs/", "nats3_dagster_tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    ask([str(folder / "deploy" / "secrets.sh")])
    return folder


@pytest.fixture(scope="module")
def image(engine: Engine, context: Path) -> str:
    engine.build(IMAGE, context / "deploy" / "Dockerfile", context)
    return IMAGE


@pytest.fixture(scope="module")
def stack(engine: Engine, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("compose")
    servers, said = stand_ins.images(engine, folder / "images")
    print(f"\nServers: {said}")
    made = Stack(engine, folder / "deploy", {"nats3": image, **servers})
    yield made
    for name in (*LASTING, "migrate"):
        print(f"== {name}\n{made.logs(name)[-4000:]}")
    made.down("-v")


@pytest.mark.timeout(3600)  # all packages are fetched
def test_the_image_has_what_its_processes_need_and_no_more(engine: Engine, image: str) -> None:
    found = engine.inspect(image)
    own = int(engine("run", "--rm", image, "du", "-sm", "/opt/nats3").split()[0])
    print(f"\nThe image has {found['Size'] // 1_000_000} MB, of which {own} MiB are under /opt/nats3")
    assert own < LARGEST_MB
    assert found["Config"]["User"] == "10001"
    assert engine("run", "--rm", image, "nats3", "--version").startswith("nats3 ")
    engine("run", "--rm", image, "python", "-c", _CLASSES)
    engine(
        "run", "--rm", image, "python", "-c", "import dagster_k8s, dagster_aws.s3, kubernetes, pyiceberg.catalog.sql"
    )


def test_the_stack_starts_and_doctor_finds_nothing(stack: Stack) -> None:
    began = time.monotonic()
    stack.up()
    print(f"\nHealthy after {time.monotonic() - began:.0f} s")
    said = stack.exec("api", "nats3", "doctor", "-o", "json")
    print([finding for finding in json.loads(said) if finding["status"] != "ok"])
    assert [finding for finding in json.loads(said) if finding["status"] == "fail"] == []
    assert "schema" in stack.logs("migrate")
