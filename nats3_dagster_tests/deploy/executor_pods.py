"""The pods of executors as Spark's own classes make them, without a cluster: a module to run in a process with the
variables of a run's pod. It prints which pod Spark takes for the driver's, and an executor of each of two applications.
"""

import json
import sys
from typing import Any

from pyspark.java_gateway import launch_gateway

# The run's pod, as Kubernetes tells it.
_DRIVER = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "dagster-run-x", "uid": "u-1", "namespace": "nats3"}}


def main() -> None:
    gateway: Any = launch_gateway()
    jvm = gateway.jvm
    spark, io = jvm.org.apache.spark, jvm.io.fabric8.kubernetes.client
    conf = spark.SparkConf(True)
    driver_name = conf.get(spark.deploy.k8s.Config.KUBERNETES_DRIVER_POD_NAME()).get()
    # It reads the template, and calls nobody.
    client = io.KubernetesClientBuilder().withConfig(io.ConfigBuilder().withMasterUrl("http://127.0.0.1:1").build())
    client = client.build()
    driver = client.pods().load(jvm.java.io.ByteArrayInputStream(json.dumps(_DRIVER).encode())).item()
    making = _companion(spark.deploy.k8s, "KubernetesConf")
    profile = _companion(spark.resource, "ResourceProfile").getOrCreateDefaultProfile(conf)
    default = [getattr(_companion(spark, "SecurityManager"), f"$lessinit$greater$default${n}")() for n in (2, 3)]
    manager = spark.SecurityManager(conf, *default)
    manager.initializeAuth()
    builder = spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
    pods = []
    for application in ("spark-1", "spark-2"):
        made = making.createExecutorConf(conf, "1", application, jvm.scala.Option.apply(driver), 0)
        pod = builder.buildFromFeatures(made, manager, client, profile).pod()
        spec = json.loads(io.utils.Serialization.asJson(pod.pod()))
        spec["spec"]["containers"] = [json.loads(io.utils.Serialization.asJson(pod.container()))]
        pods.append(spec)
    json.dump({"driver": driver_name, "pods": pods}, sys.stdout)
    gateway.shutdown()


def _companion(package: Any, name: str) -> Any:
    """The object of Scala beside a class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


if __name__ == "__main__":
    main()
