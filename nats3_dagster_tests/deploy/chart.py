"""Facts of Kubernetes objects: what the pods of Dagster's chart get by our values, and what the pod of a run gets.

`data/chart.json` has the facts of the chart as it was rendered last. To make it again, with helm and a chart:

    helm template dagster CHART -n nats3 -f deploy/kubernetes/values.yaml | python -m nats3_dagster_tests.deploy.chart
"""

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from dagster import DagsterRun
from dagster_k8s import K8sRunLauncher
from dagster_k8s.container_context import K8sContainerContext
from dagster_k8s.job import construct_dagster_k8s_job
from kubernetes.client import ApiClient

from nats3_dagster_tests.deploy import files

FACTS = files.ROOT / "nats3_dagster_tests" / "data" / "chart.json"
CODE_SERVER = "dagster-dagster-user-deployments-nats3"
# A client that is made, and never calls.
_KUBECONFIG = """
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
"""


def facts(documents: Iterable[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The facts of rendered or applied objects: pods of Deployments and Jobs, ports of Services, dagster.yaml."""
    found: dict[str, Any] = {"pods": {}, "services": {}, "accounts": []}
    for document in filter(None, documents):
        kind, name = document["kind"], document["metadata"]["name"]
        if kind in ("Deployment", "Job"):
            found["pods"][name] = pod_facts(document["spec"]["template"]["spec"])
        elif kind == "Service":
            found["services"][name] = [port["port"] for port in document["spec"]["ports"]]
        elif kind == "ServiceAccount":
            found["accounts"].append(name)
        elif kind == "ConfigMap" and "dagster.yaml" in (document.get("data") or {}):
            found["instance"] = yaml.safe_load(document["data"]["dagster.yaml"])
    return found | {"accounts": sorted(found["accounts"])}


def pod_facts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Whose account a pod has, what it may do, and the same of its containers."""
    return {
        "account": spec.get("serviceAccountName"),
        "token": spec.get("automountServiceAccountToken"),
        "links": spec.get("enableServiceLinks", True),
        "security": spec.get("securityContext"),
        "containers": [_container(part) for part in spec["containers"]],
        "before": [_container(part) for part in spec.get("initContainers") or ()],
    }


def _container(spec: Mapping[str, Any]) -> dict[str, Any]:
    sources = [next(iter(part.values())) for part in spec.get("envFrom", ()) if "prefix" not in part]
    check = spec.get("readinessProbe", {})
    asked = check.get("httpGet")
    return {
        "image": spec["image"],
        "pull": spec.get("imagePullPolicy"),
        "words": [*(spec.get("command") or ()), *(spec.get("args") or ())],
        "variables": sorted(entry["name"] for entry in spec.get("env") or ()),
        "sources": [source["name"] for source in sources],
        "resources": spec.get("resources") or {},
        "security": spec.get("securityContext"),
        "ready": [asked["path"], asked["port"]] if asked else check.get("exec", {}).get("command"),
        "mounts": sorted(mount["mountPath"] for mount in spec.get("volumeMounts") or ()),
    }


def hash_of_values() -> str:
    """The fixture is of these values: with others the chart has to be rendered again."""
    return hashlib.sha256(json.dumps(files.values(), sort_keys=True).encode()).hexdigest()


def run_job(rendered: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The Job that dagster-k8s makes of a run, by the instance and the code server's environment of the chart."""
    config = rendered["instance"]["run_launcher"]["config"]
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG)
    launcher = K8sRunLauncher(**config | {"load_incluster_config": False, "kubeconfig_file": str(kubeconfig)})
    context = launcher.get_container_context_for_run(DagsterRun(job_name="capture", run_id="r"))
    if (ours := rendered.get("context")) is not None:
        context = context.merge(K8sContainerContext.create_from_config(ours))
    job = construct_dagster_k8s_job(
        job_config=context.get_k8s_job_config(rendered["pods"][CODE_SERVER]["containers"][0]["image"], launcher),
        args=["dagster", "api", "execute_run"],
        job_name="dagster-run-r",
        user_defined_k8s_config=context.run_k8s_config,
    )
    made: Any = ApiClient().sanitize_for_serialization(job)
    return made


def container_context(documents: Iterable[Mapping[str, Any] | None]) -> Any:
    """What the code server tells Dagster of the pods of its runs; None if it says nothing."""
    for document in filter(None, documents):
        if (document["kind"], document["metadata"]["name"]) == ("Deployment", CODE_SERVER):
            for entry in document["spec"]["template"]["spec"]["containers"][0]["env"]:
                if entry["name"] == "DAGSTER_CONTAINER_CONTEXT":
                    return json.loads(entry["value"])
    return None


def main() -> None:
    documents = [document for document in yaml.safe_load_all(sys.stdin) if document]
    versions = {d["metadata"].get("labels", {}).get("helm.sh/chart") for d in documents if d["kind"] == "Deployment"}
    made = {"charts": sorted(versions), "values": hash_of_values(), "context": container_context(documents)}
    FACTS.write_text(json.dumps(made | facts(documents), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
