"""A cluster of Kubernetes for tests, and what docs/deploy.md puts on it: `make kubernetes`.

Invariant: a context that is not named for tests is left alone. Its name has the word "test", or is NATS3_TEST_CONTEXT.
The servers of NATS, Postgres and S3 are the test's own, on this host: its pods reach them at NATS3_TEST_HOST.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from nats3_dagster_tests.deploy import chart, files

NAMESPACE = "nats3"
# As pytest was started: its session takes variables of nats3 away.
ENVIRONMENT = dict(os.environ)
_RUN = "app.kubernetes.io/component=run_worker"
_EXECUTOR = "spark-role=executor"


def context(environment: Mapping[str, str] = ENVIRONMENT) -> str:
    """The current context; the test is skipped where there is none, or none for tests."""
    if not environment.get("NATS3_KUBERNETES"):
        pytest.skip("asked for by make kubernetes")
    if shutil.which("kubectl", path=environment["PATH"]) is None:
        pytest.skip("there is no kubectl here")
    command = ["kubectl", "config", "current-context"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    name = said.stdout.strip()
    if said.returncode or not name:
        pytest.skip("kubectl has no current context")
    if "test" not in name and name != environment.get("NATS3_TEST_CONTEXT"):
        pytest.skip(f"the context {name} is not named for tests: set NATS3_TEST_CONTEXT={name} if it is one")
    if shutil.which("helm", path=environment["PATH"]) is None:
        pytest.skip("there is no helm here")
    for variable, what in (("NATS3_DAGSTER_CHART", "Dagster's chart"), ("NATS3_TEST_HOST", "an address of this host")):
        if not environment.get(variable):
            pytest.skip(f"set {variable}: {what} is needed")
    return name


class Cluster:
    """The objects of one installation, in a namespace that is made and deleted with it."""

    def __init__(self, name: str, folder: Path) -> None:
        self._context = name
        self._folder = folder
        self._image = ENVIRONMENT.get("NATS3_IMAGE", "nats3:latest")

    def kubectl(self, *words: str, text: str | None = None, timeout: float = 300) -> str:
        command = ["kubectl", "--context", self._context, "-n", NAMESPACE, *words]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def objects(self, kind: str, *words: str) -> list[dict[str, Any]]:
        return json.loads(self.kubectl("get", kind, "-o", "json", *words))["items"]

    def install(self, settings: Mapping[str, str], secrets: Mapping[str, str], postgres_url: str) -> None:
        """What docs/deploy.md says, with the addresses of the test's servers."""
        self.remove()
        self.kubectl("create", "namespace", NAMESPACE)
        self.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        postgres = urlsplit(postgres_url)
        self._secret("nats3", secrets)
        self._secret("nats3-postgres", {"postgresql-password": postgres.password or ""})
        self._secret("nats3-api", {"NATS3_API_TOKENS": hashlib.sha256(b"a token").hexdigest()})
        self.kubectl("apply", "-k", str(self._manifests(settings)))
        self.kubectl("wait", "--for=condition=complete", "job/nats3-migrate", "--timeout=290s")
        self._helm(postgres.hostname or "", postgres.port or 5432, postgres.username or "", postgres.path[1:])
        for deployment in self.objects("deployment"):
            self.kubectl("rollout", "status", f"deployment/{deployment['metadata']['name']}", "--timeout=290s")

    def remove(self) -> None:
        self.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")

    def runs(self) -> list[dict[str, Any]]:
        """The pods of runs that are running."""
        return self.objects("pod", "-l", _RUN, "--field-selector", "status.phase=Running")

    def executors(self, *words: str) -> list[dict[str, Any]]:
        return self.objects("pod", "-l", _EXECUTOR, *words)

    def kill(self, *pods: Mapping[str, Any]) -> None:
        """As if their node had gone."""
        names = (pod["metadata"]["name"] for pod in pods)
        self.kubectl("delete", "pod", *names, "--grace-period=0", "--force", "--ignore-not-found")

    def nats3(self, *words: str) -> str:
        """A command in the daemon's pod."""
        return self.kubectl("exec", "deploy/dagster-daemon", "--", "nats3", *words)

    def launch(self, job: str, config: Mapping[str, Any]) -> None:
        """A run of a job, by the instance's own launcher."""
        words = ["dagster", "job", "launch", "-w", "/dagster-workspace/workspace.yaml", "-l", "nats3", "-j", job]
        self.kubectl("exec", "deploy/dagster-daemon", "--", *words, "--config-json", json.dumps(config))

    def facts(self) -> dict[str, Any]:
        """The facts of what was applied, with the image's name as in the files."""
        kinds = ("deployment", "service", "serviceaccount", "configmap")
        documents = [{"kind": _KIND[kind]} | item for kind in kinds for item in self.objects(kind)]
        return chart.facts(json.loads(json.dumps(documents).replace(self._image, "nats3:latest")))

    def _secret(self, name: str, values: Mapping[str, str]) -> None:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": dict(values)}
        self.kubectl("apply", "-f", "-", text=json.dumps(secret))

    def _manifests(self, settings: Mapping[str, str]) -> Path:
        """The folder deploy/kubernetes with this image and these settings."""
        folder = Path(shutil.copytree(files.KUBERNETES, self._folder / "kubernetes"))
        repository, _, tag = self._image.rpartition(":")
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        kustomization["images"] = [{"name": "nats3", "newName": repository, "newTag": tag}]
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        spark = (folder / "spark-defaults.conf").read_text().replace("nats3:latest", self._image)
        (folder / "spark-defaults.conf").write_text(spark)
        (folder / "settings.env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return folder

    def _helm(self, host: str, port: int, user: str, database: str) -> None:
        repository, _, tag = self._image.rpartition(":")
        values = files.values()
        image = {"repository": repository, "tag": tag, "pullPolicy": "IfNotPresent"}
        for part in (values["dagsterWebserver"], values["dagsterDaemon"]):
            part["image"] = image
        values["dagster-user-deployments"]["deployments"][0]["image"] = image
        server = {"postgresqlHost": host, "postgresqlUsername": user, "postgresqlDatabase": database}
        values["postgresql"] |= server | {"service": {"port": port}}
        if busybox := ENVIRONMENT.get("NATS3_TEST_BUSYBOX"):
            name, _, version = busybox.rpartition(":")
            values["busybox"] = {"image": {"repository": name, "tag": version, "pullPolicy": "IfNotPresent"}}
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        words = ["upgrade", "--install", "dagster", ENVIRONMENT["NATS3_DAGSTER_CHART"], "--skip-schema-validation"]
        options = ["--kube-context", self._context, "-n", NAMESPACE, "-f", str(file)]
        subprocess.run(["helm", *words, *options], check=True, timeout=120)


_KIND = {
    "deployment": "Deployment",
    "service": "Service",
    "serviceaccount": "ServiceAccount",
    "configmap": "ConfigMap",
}
