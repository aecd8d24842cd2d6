"""The objects under deploy/kubernetes, and those that Dagster's chart makes by values.yaml, as run pods get them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nats3_dagster_tests.deploy import chart, cluster, files
from nats3_dagster_tests.deploy.files import KUBERNETES, ROOT

# Of a machine of two cores, what is left beside the system's own pods.
_CORES = 1.8


@pytest.fixture(scope="module")
def rendered() -> dict[str, Any]:
    """The facts of the chart that was rendered last."""
    return json.loads(chart.FACTS.read_text())


@pytest.fixture
def run_pod(rendered: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """The pod of a run, as dagster-k8s asks for it."""
    return chart.run_job(rendered, tmp_path)["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The driver's pod in Spark's view, and the pods of executors that Spark makes for it."""
    folder = tmp_path_factory.mktemp("spark")
    for name in ("spark-defaults.conf", "executor.yaml", "log4j2.properties"):
        # The folder is where the run's pod has it.
        text = (KUBERNETES / name).read_text()
        (folder / name).write_text(text.replace("/etc/nats3/spark", str(folder)))
    told = {"SPARK_CONF_DIR": str(folder), "SPARK_DRIVER_POD_NAME": "dagster-run-x", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "nats3_dagster_tests.deploy.executor_pods"]
    # A session of an earlier test in this process leaves variables: a fixture of a module comes before they are taken.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))} | told
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


@pytest.fixture(scope="module")
def spark() -> dict[str, str]:
    return dict(files.properties(KUBERNETES / "spark-defaults.conf"))


def test_the_chart_was_rendered_by_these_values(rendered: dict[str, Any]) -> None:
    """Where helm and a chart are (NATS3_DAGSTER_CHART), it is rendered again."""
    again = f"Render the chart again, as {chart.__file__} says"
    assert rendered["values"] == chart.hash_of_values(), again
    if (helm := shutil.which("helm")) and (where := cluster.ENVIRONMENT.get("NATS3_DAGSTER_CHART")):
        # The chart's schemas name one on the web.
        options = ["-n", "nats3", "-f", str(KUBERNETES / "values.yaml"), "--skip-schema-validation"]
        made = subprocess.run(
            [helm, "template", "dagster", where, *options], capture_output=True, text=True, check=True
        )
        documents = [*yaml.safe_load_all(made.stdout)]
        facts = chart.facts(documents) | {"context": chart.container_context(documents)}
        assert facts == {name: rendered[name] for name in facts}, again


def test_a_run_gets_what_the_launcher_says(rendered: dict[str, Any], run_pod: dict[str, Any]) -> None:
    """The code server's account and limits would win over it."""
    (container,) = run_pod["containers"]
    assert run_pod["serviceAccountName"] == "nats3-spark"
    assert container["resources"] == {"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    assert container["imagePullPolicy"] == "IfNotPresent"
    (server,) = rendered["pods"][chart.CODE_SERVER]["containers"]
    assert container["image"] == server["image"]
    sources = [next(iter(source.values()))["name"] for source in container["envFrom"]]
    assert sources == ["nats3-settings", "nats3"]
    assert set(sources) <= {*server["sources"]}
    told = {entry["name"] for entry in container["env"]}
    assert {"NATS3_SPARK_MASTER", "SPARK_CONF_DIR", "DAGSTER_PG_PASSWORD", "DAGSTER_HOME"} <= told


def test_the_daemon_has_the_limits_of_dagster_yaml(rendered: dict[str, Any]) -> None:
    """What the chart leaves out of its dagster.yaml is not said anywhere else."""
    ours, theirs = yaml.safe_load((ROOT / "dagster.yaml").read_text()), rendered["instance"]
    for name in ("concurrency", "run_retries", "sensors", "python_logs", "telemetry", "nux"):
        assert ours[name] == theirs[name], name
    assert _within(ours["run_monitoring"], theirs["run_monitoring"])
    for name in ("sensor", "schedule"):
        assert _within(ours["retention"][name], theirs["retention"][name])
    # The chart's coordinator would overrule it.
    assert "max_concurrent_runs" not in theirs["run_coordinator"].get("config", {})
    # doctor in the code server's pod reads the daemon's file, not the image's.
    for pod in (chart.CODE_SERVER, "dagster-daemon", "dagster-dagster-webserver"):
        (container,) = rendered["pods"][pod]["containers"]
        assert "/var/lib/nats3/dagster/dagster.yaml" in container["mounts"], pod


def _within(part: Any, whole: Any) -> bool:
    return part == whole if not isinstance(part, dict) else all(_within(v, whole.get(k)) for k, v in part.items())


@pytest.mark.slow
def test_executors_belong_to_the_pod_of_their_run(
    run_pod: dict[str, Any], spark: dict[str, str], executors: dict[str, Any]
) -> None:
    """With a prefix the executors of all runs have the same names, and without an owner they outlive their run."""
    first, second = (pod["metadata"] for pod in executors["pods"])
    assert first["name"] != second["name"]
    assert first["labels"]["spark-app-selector"] != second["labels"]["spark-app-selector"]
    assert executors["driver"] == "dagster-run-x"
    for pod in (first, second):
        (owner,) = pod["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "dagster-run-x", True)
    (variable,) = re.findall(r"^\$\{env:(\w+)\}$", spark["spark.kubernetes.driver.pod.name"])
    environment = {entry["name"]: entry for entry in run_pod["containers"][0]["env"]}
    assert environment[variable]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    rules = next(d for d in yaml.safe_load_all((KUBERNETES / "spark.yaml").read_text()) if d["kind"] == "Role")["rules"]
    assert any("pods" in rule["resources"] and "get" in rule["verbs"] for rule in rules)
    # The file is where the run's pod has it.
    (mount,) = [mount for mount in run_pod["containers"][0]["volumeMounts"] if mount["name"] == "spark"]
    assert spark["spark.kubernetes.executor.podTemplateFile"] == f"{mount['mountPath']}/executor.yaml"
    (generator,) = [g for g in _kustomization()["configMapGenerator"] if g["name"] == "nats3-spark"]
    assert {"spark-defaults.conf", "executor.yaml", "log4j2.properties"} <= {*generator["files"]}


def _kustomization() -> dict[str, Any]:
    return yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())


def test_the_webserver_listens_where_its_user_may(rendered: dict[str, Any]) -> None:
    """Ports below 1024 are for root on some runtimes; the chart's probe has a port of its own."""
    (port,) = rendered["services"]["dagster-dagster-webserver"]
    (container,) = rendered["pods"]["dagster-dagster-webserver"]["containers"]
    assert port >= 1024
    assert f"-p {port}" in container["words"][-1]
    assert container["ready"] == ["/server_info", port]
    lines = dict(line.split("=", 1) for line in (KUBERNETES / "settings.env").read_text().splitlines())
    assert lines["NATS3_DAGSTER_URL"] == f"http://dagster-dagster-webserver:{port}"


def test_the_check_of_the_code_server_is_cheap(rendered: dict[str, Any]) -> None:
    """The chart's own imports Dagster: on a busy node it takes longer than it may, and the code server is out."""
    (container,) = rendered["pods"][chart.CODE_SERVER]["containers"]
    (port,) = rendered["services"]["nats3"]
    assert container["ready"] == ["bash", "-c", f"</dev/tcp/127.0.0.1/{port}"]


@pytest.mark.slow
def test_every_pod_is_allowed_where_pod_security_is_restricted(
    rendered: dict[str, Any], run_pod: dict[str, Any], executors: dict[str, Any]
) -> None:
    pods = {
        **rendered["pods"],
        "run": chart.pod_facts(run_pod),
        "executor": chart.pod_facts(executors["pods"][0]["spec"]),
        **{f"manifest {n}": chart.pod_facts(pod) for n, pod in enumerate(files.pods())},
    }
    assert {name: found for name, pod in pods.items() if (found := _not_restricted(pod))} == {}
    # The service nats3-api brings variables that are named like settings; the chart has no word for it, and nats3
    # knows them by NATS3_API_SERVICE_HOST.
    assert {name for name, pod in pods.items() if pod["links"]} == {*rendered["pods"]}
    # An executor asks Kubernetes for nothing.
    assert (pods["executor"]["account"], pods["executor"]["token"]) == ("nats3-executor", False)
    (container,) = pods["executor"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "200m", "memory": "1536Mi"}, "limits": {"memory": "1536Mi"}}


def _not_restricted(pod: dict[str, Any]) -> list[str]:
    """What the standard "restricted" of Kubernetes refuses of a pod."""
    found, whole = [], pod["security"] or {}
    if not whole.get("runAsNonRoot") or whole.get("runAsUser") == 0:
        found.append("runs as root")
    if whole.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        found.append("seccomp")
    for container in (*pod["containers"], *pod["before"]):
        own = container["security"] or {}
        if own.get("allowPrivilegeEscalation") is not False:
            found.append("escalation")
        if own.get("capabilities") != {"drop": ["ALL"]}:
            found.append("capabilities")
    return found


def test_an_image_that_was_imported_is_used(
    rendered: dict[str, Any], run_pod: dict[str, Any], spark: dict[str, str]
) -> None:
    """Kubernetes always pulls an image named latest, unless it is told otherwise."""
    ours = [container["imagePullPolicy"] for container in (*files.containers(), *run_pod["containers"])]
    theirs = [container["pull"] for pod in rendered["pods"].values() for container in pod["containers"]]
    spark_s = spark["spark.kubernetes.container.image.pullPolicy"]
    assert {*ours, *theirs, spark_s} == {"IfNotPresent"}
    images = {container["image"] for pod in rendered["pods"].values() for container in pod["containers"]}
    (ours_image,) = _kustomization()["images"]
    assert images == {f"{ours_image['newName']}:{ours_image['newTag']}", spark["spark.kubernetes.container.image"]}


def test_all_of_it_fits_on_two_cores(rendered: dict[str, Any], run_pod: dict[str, Any], spark: dict[str, str]) -> None:
    """What does not fit stays Pending: the services, two runs and their executors do."""
    services = sum(_cores(c) for pod in rendered["pods"].values() for c in pod["containers"])
    documents = [d for d in yaml.safe_load_all((KUBERNETES / "api.yaml").read_text()) if d["kind"] == "Deployment"]
    for document in documents:
        for container in document["spec"]["template"]["spec"]["containers"]:
            services += document["spec"]["replicas"] * _cores(container)
    executors = int(spark["spark.executor.instances"]) * _millis(spark["spark.kubernetes.executor.request.cores"])
    assert services + 2 * (_cores(run_pod["containers"][0]) + executors) <= _CORES * 1000
    # A run whose executors do not come says so: Spark's scheduler warns, and the rest of Spark is quiet.
    log = (KUBERNETES / "log4j2.properties").read_text()
    assert (
        "logger.scheduler.name = org.apache.spark.scheduler.TaskSchedulerImpl\nlogger.scheduler.level = warn\n" in log
    )


def _cores(container: dict[str, Any]) -> int:
    return _millis(container["resources"]["requests"]["cpu"])


def _millis(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def test_a_changed_setting_reaches_the_pods_by_the_way_that_the_docs_say() -> None:
    """values.yaml names the ConfigMap and the secrets, so they have no hash in their names, and pods are not made
    anew when they change."""
    assert _kustomization()["generatorOptions"] == {"disableNameSuffixHash": True}
    text = (ROOT / "docs" / "deploy.md").read_text()
    assert "kubectl -n nats3 rollout restart deployment" in text
    # The value of a Kubernetes secret is what the API compares: the SHA-256 of a token.
    assert "sha256sum" in text


@pytest.mark.parametrize(
    ("name", "named", "said"),
    [
        ("", "", "kubectl has no current context"),
        ("production", "", "the context production is not named for tests"),
        ("production", "staging", "the context production is not named for tests"),
        ("my-test", "", "there is no helm here"),
        ("staging", "staging", "there is no helm here"),
    ],
)
def test_only_a_cluster_that_is_named_for_tests_is_touched(name: str, named: str, said: str, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl") or pytest.skip("there is no kubectl here")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(kubectl)
    (tmp_path / "config").write_text(f"current-context: {name}\n" if name else "")
    environment = {
        "NATS3_KUBERNETES": "1",
        "NATS3_TEST_CONTEXT": named,
        "KUBECONFIG": str(tmp_path / "config"),
        "PATH": str(tmp_path / "bin"),
    }
    with pytest.raises(pytest.skip.Exception, match=said):
        cluster.context(environment)
