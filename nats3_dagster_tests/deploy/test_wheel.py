"""The wheel by itself: installed where there is no checkout, it has all that its commands need."""

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nats3_dagster.dev.nats_server import find_nats_server
from nats3_dagster.dev.stack import Stack
from nats3_dagster.pipeline.java import find_java
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.replays import archived
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source distribution, and with the wheel that is built of it and of nothing else."""
    folder = tmp_path_factory.mktemp("built")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder), cwd=ROOT)
    (source,) = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / source.name.removesuffix(".tar.gz")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=unpacked)
    return folder


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and its dependencies, and an empty folder."""

    programs: Path
    folder: Path

    def run(self, *words: str, status: int = 0, **more: str) -> str:
        """What a program prints, started in the folder with an environment that says nothing of this checkout."""
        environment = {
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "HOME": str(self.folder),
            "NATS_SERVER": str(find_nats_server()),
            "JAVA_HOME": str(find_java().resolve().parents[1]),
            "PYTHONWARNINGS": "ignore",
            **more,
        }
        return _run(str(self.programs / words[0]), *words[1:], cwd=self.folder, env=environment, status=status)


@pytest.fixture(scope="module")
def installed(built: Path, server_folder: Path) -> Iterator[Installed]:
    """The dependencies are those of this environment. Whatever runs in the folder in the end is stopped."""
    environment = built / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    _run(*pip, str(wheel))
    (site,) = (environment / "lib").glob("python*/site-packages")
    # A folder that a .pth file names is searched; the .pth files in it, editable installations, are not read.
    theirs = sorted({path for path in sys.path if path.endswith(("site-packages", "dist-packages"))})
    (site / "dependencies.pth").write_text("\n".join(theirs) + "\n")
    folder = server_folder / "wheel"
    folder.mkdir()
    yield Installed(environment / "bin", folder)
    Stack(folder / ".nats3").stop()


def _run(*words: str, status: int = 0, **options: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=170, **options)  # type: ignore[call-overload]
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def test_the_wheel_has_every_file_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = _tracked("nats3_dagster") | _tracked("pyspark_jetstream") | _tracked("pyspark_nats3")
    added = {"_dagster.yaml", "_spark/spark-defaults.conf", "_spark/log4j2.properties"}
    assert names == tracked | {f"nats3_dagster/{name}" for name in added}
    assert "nats3_dagster/py.typed" in names


def test_the_source_distribution_is_what_is_tracked(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert names == _tracked(".") | {"PKG-INFO"}


def _tracked(folder: str) -> set[str]:
    """The files that are in the repository, or would be with the next commit."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no repository")
    listed = _run("git", "ls-files", "--cached", "--others", "--exclude-standard", folder, cwd=ROOT)
    return {name for name in listed.splitlines() if (ROOT / name).exists()}


def test_commands_that_need_no_server(installed: Installed) -> None:
    where = installed.run("python", "-c", "import nats3_dagster; print(nats3_dagster.__file__)").strip()
    assert Path(where).is_relative_to(installed.programs.parent)
    assert installed.run("nats3", "--version").startswith("nats3 ")
    assert "Postgres is not set" in installed.run("nats3", "migrate", status=2)
    assert list(installed.folder.iterdir()) == []


def test_a_demo_says_what_it_lacks_before_it_makes_a_server(installed: Installed) -> None:
    lacking = {
        "Install a Java runtime, 17 or later": {"JAVA_HOME": str(installed.folder / "none")},
        "Set it to a nats-server, or unset it": {"NATS_SERVER": str(installed.folder / "none")},
    }
    for hint, environment in lacking.items():
        assert hint in installed.run("nats3", "demo", status=1, **environment)
        assert not (installed.folder / ".nats3" / "stack.json").exists()


@pytest.mark.timeout(240)  # two runs, each a process with a JVM of its own
def test_the_demo_in_an_empty_folder(installed: Installed) -> None:
    done = json.loads(installed.run("nats3", "demo", "--messages", "500", "-o", "json"))
    assert (done["messages"], done["mismatches"], done["ok"]) == (500, 0, True)
    # The servers go on running, and are found.
    assert json.loads(installed.run("nats3", "migrate", "-o", "json"))["schema"]
    assert {s["server"] for s in json.loads(installed.run("nats3", "dev", "status", "-o", "json")) if s["running"]} >= {
        "nats",
        "postgres",
        "s3",
    }
    installed.run("nats3", "dev", "stop")
    of_dagster = installed.folder / ".nats3" / "dagster" / "dagster.yaml"
    assert of_dagster.read_text() == (ROOT / "dagster.yaml").read_text()


# The reader


def _project(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text())["project"]


WHOLE, READER = _project(ROOT / "pyproject.toml"), _project(ROOT / "reader" / "pyproject.toml")
# What a library that is named brings with it as a part of its interface, and what a user of it has.
_BROUGHT = {
    "botocore": "boto3",
    "starlette": "fastapi",
    "anyio": "fastapi",
    "h11": "uvicorn",
    "pydantic-core": "pydantic",
    "nkeys": "nats-py",
    "py4j": "pyspark",
    "prompt-toolkit": "questionary",
    "click": "dagster",
    "dagster-shared": "dagster",
    "dagster-spark": "dagster-pyspark",
    "referencing": "jsonschema",
    "eventlet": "swift",
    "xattr": "swift",
    "polars": "",
}


def _names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(requirement).name) for requirement in requirements}


def test_every_package_that_is_imported_is_named() -> None:
    """Also what another library happens to bring: that one may do without it one day, and a reader is without it."""
    extras = WHOLE["optional-dependencies"]
    named = _names(WHOLE["dependencies"]).union(*(_names(extras[name]) for name in extras if name != "dev"))
    owners = importlib.metadata.packages_distributions()
    unnamed: dict[str, str] = {}
    for file in (
        path for name in ("nats3_dagster", "pyspark_nats3", "pyspark_jetstream") for path in (ROOT / name).rglob("*.py")
    ):
        for module in _imports(ast.parse(file.read_text())):
            packages = {canonicalize_name(owner) for owner in owners.get(module, ())}
            packages = {_BROUGHT.get(package, package) for package in packages} - {"nats3-dagster", "nats3-reader", ""}
            if packages and not packages & named:
                unnamed[module] = str(file.relative_to(ROOT))
    assert unnamed == {}


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_the_reader_needs_what_the_whole_needs() -> None:
    everything = {
        *WHOLE["dependencies"],
        *(part for parts in WHOLE["optional-dependencies"].values() for part in parts),
    }
    assert {
        part for parts in (READER["dependencies"], *READER["optional-dependencies"].values()) for part in parts
    } <= everything
    assert READER["requires-python"] == WHOLE["requires-python"]


def _closure(requirements: Iterable[str]) -> set[str]:
    """The packages of this environment that these need, those that they need included."""
    found: set[tuple[str, str]] = set()
    open_ones = [Requirement(requirement) for requirement in requirements]
    while open_ones:
        requirement = open_ones.pop()
        for extra in ("", *requirement.extras):
            if (one := (canonicalize_name(requirement.name), extra)) not in found:
                found.add(one)
                needs = map(Requirement, importlib.metadata.requires(requirement.name) or ())
                open_ones += [r for r in needs if r.marker is None or r.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the reader's wheel and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("reader")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT / "reader")
    environment = folder / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    (wheel,) = folder.glob("*.whl")
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet"]
    _run(*pip, str(wheel))
    (site,) = (environment / "lib").glob("python*/site-packages")
    for name in _closure(READER["dependencies"]):
        package = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(str(package.locate_file(top)))
    return Installed(environment / "bin", folder)


READS = """
from nats3_dagster import Archive
with Archive.open("a") as archive:
    print([bytes(message.data) for message in archive.read()], archive.read().to_arrow().num_rows)
"""


def test_the_reader_reads_an_archive(reader: Installed, workspace: Workspace, wire: Wire, bucket: str) -> None:
    wire.create_stream("EV", "ev.>")
    wire.publish([("ev.a", b"", b"%d" % n) for n in range(3)])
    archived(workspace, wire, "EV", bucket)
    given: dict[str, Any] = {n: value for n, value in os.environ.items() if n.startswith(("NATS3_", "AWS_"))}
    assert reader.run("python", "-c", READS, **given) == "[b'0', b'1', b'2'] 3\n"
    assert json.loads(reader.run("nats3", "store", "list", "-o", "json", **given))[0]["archive"] == "a"
    assert json.loads(reader.run("nats3", "message", "get", "a", "--seq", "2", "-o", "json", **given))["seq"] == 2
    for words, package in {
        ("serve",): "uvicorn|fastapi",
        ("migrate",): "alembic",
        ("dev", "resync"): "dagster",
    }.items():
        # A catalog that has this release's schema has nothing to migrate.
        status = 0 if words == ("migrate",) else 1
        said = reader.run("nats3", *words, status=status, **given)
        assert status == 0 or re.search(f"has no ({package}), .*Install nats3-dagster", said), said
