"""What the files under deploy/ run and set: every command line, and every environment."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
# The image has its programs on the search path; the units name them by this folder.
PROGRAMS = "/opt/nats3/bin/"
# Of other people's images in compose.yaml.
_SERVERS = {"nats", "postgres", "s3"}


def compose() -> dict[str, Any]:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def first_commands() -> list[list[str]]:
    """The two commands of README.md that make the secrets and start the containers: the words of each."""
    block = re.search(r"```bash\n(deploy/secrets\.sh.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block, "README.md has no block that begins with deploy/secrets.sh"
    return [shlex.split(line, comments=True) for line in block[1].splitlines()]


def documented_commands(service: str) -> list[list[str]]:
    """The commands that docs/deploy.md has for a container of the stack, in order: the words of each."""
    lines = (ROOT / "docs" / "deploy.md").read_text().splitlines()
    start = f"docker compose -f deploy/compose.yaml exec {service} "
    return [shlex.split(line.removeprefix(start), comments=True) for line in lines if line.startswith(start)]


def upgrade_command() -> list[str]:
    """The words after `docker compose -f deploy/compose.yaml` that start a new release, as docs/deploy.md has them."""
    text = (ROOT / "docs" / "deploy.md").read_text()
    found = re.search(r"\*\*A new release\*\*: `docker compose -f deploy/compose.yaml (.*?)`", text)
    assert found, "docs/deploy.md has no command for a new release"
    return found[1].split()


def services() -> dict[str, dict[str, Any]]:
    """The services of compose.yaml that are ours."""
    return {name: service for name, service in compose()["services"].items() if name not in _SERVERS}


def units() -> dict[str, str]:
    """The text of each systemd unit."""
    return {file.name: file.read_text() for file in sorted((DEPLOY / "systemd").glob("*.service"))}


def values() -> dict[str, Any]:
    """The values for Dagster's chart."""
    return yaml.safe_load((KUBERNETES / "values.yaml").read_text())


def pods() -> list[dict[str, Any]]:
    """The pods of our own manifests."""
    documents = [d for file in KUBERNETES.glob("*.yaml") for d in yaml.safe_load_all(file.read_text())]
    return [d["spec"]["template"]["spec"] for d in documents if d.get("kind") in ("Deployment", "Job")]


def containers() -> list[dict[str, Any]]:
    """The containers of our own manifests."""
    return [container for pod in pods() for container in pod["containers"]]


def dockerfile(instruction: str) -> list[str]:
    """The rest of each line that begins with this instruction, continued lines joined."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith(f"{instruction} ")]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Where a command line of ours stands, and its words."""
    yield "Dockerfile", yaml.safe_load(dockerfile("CMD")[-1])
    for name, service in services().items():
        yield f"compose.yaml: {name}", service["command"]
        test = service.get("healthcheck", {}).get("test", [])
        if isinstance(test, list) and test[1:2]:
            yield f"compose.yaml: {name}, healthcheck", test[1:]
    for name, text in units().items():
        for line in re.findall(r"^Exec\w+=(.*)$", text, re.MULTILINE):
            yield name, shlex.split(line.replace(PROGRAMS, ""))
    for container in containers():
        yield f"kubernetes: {container['name']}", container["args"]
    for deployment in values()["dagster-user-deployments"]["deployments"]:
        # As the chart completes it.
        end = ["--host", "0.0.0.0", "--port", str(deployment["port"])]
        yield "values.yaml", ["dagster", "code-server", "start", *end, *deployment["codeServerArgs"]]


def variables() -> Iterator[tuple[str, str]]:
    """Where a variable is set, and its name."""
    for name, service in services().items():
        yield from ((f"compose.yaml: {name}", variable) for variable in service["environment"])
    for name, text in units().items():
        for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE):
            yield from ((name, word.partition("=")[0]) for word in shlex.split(line))
    for line in dockerfile("ENV"):
        yield from (("Dockerfile", word.partition("=")[0]) for word in shlex.split(line))
    for line in (KUBERNETES / "settings.env").read_text().splitlines():
        yield "settings.env", line.partition("=")[0]
    for container in containers():
        yield from ((f"kubernetes: {container['name']}", entry["name"]) for entry in container.get("env", ()))
    launcher = values()["runLauncher"]["config"]["k8sRunLauncher"]["runK8sConfig"]
    yield from (("values.yaml", entry["name"]) for entry in launcher["containerConfig"]["env"])


def properties(file: Path) -> Mapping[str, str]:
    """The settings of a spark-defaults.conf."""
    lines = [line.split(maxsplit=1) for line in file.read_text().splitlines() if line.strip() and line[0] != "#"]
    return {name: value.strip() for name, value in lines}
