"""Programs that run in the image: each fails where the image lacks something that a process of it needs."""

CLASSES = """
from nats3_dagster.pipeline import classes, java
assert classes.options(java.find_java()), "the archive of Spark's classes does not fit this Java and these jars"
"""
# All but those of the embedded servers, which the image has not, and the definitions, which read Postgres.
MODULES = """
import importlib, pkgutil
for name in ("nats3_dagster", "pyspark_jetstream", "pyspark_nats3"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.", onerror=lambda name: None):
        if not module.name.endswith(("__main__", ".definitions")) and not module.name.startswith("nats3_dagster.dev."):
            importlib.import_module(module.name)
"""
# Those that are imported by name or on demand.
LIBRARIES = """
import boto3, dagster_aws.s3, dagster_k8s, fastavro, kubernetes.client, psycopg2
import azure.identity, azure.storage.blob, google.auth, google.cloud.storage
import pyiceberg.catalog.dynamodb, pyiceberg.catalog.glue, pyiceberg.catalog.rest, pyiceberg.catalog.sql
import pyarrow.dataset, pyarrow.fs, pyarrow.parquet, rich.console, zstandard
for service in ("s3", "sts", "sso", "sso-oidc", "glue", "dynamodb"):
    boto3.client(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
kubernetes.client.BatchV1Api().api_client.deserialize
kubernetes.client.V1Job(spec=kubernetes.client.V1JobSpec(template=kubernetes.client.V1PodTemplateSpec())).to_dict()
"""
# A cluster of Spark's own in one container, as the Dockerfile says how; and the classes of its scheduler of Kubernetes.
_SPARK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("spark://127.0.0.1:7077").config("spark.executor.memory", "512m").getOrCreate()
spark.range(1000).write.parquet("/tmp/numbers")
numbers = spark.read.parquet("/tmp/numbers").rdd.map(lambda row: row.id).sum()
assert numbers == 499500, numbers
jvm = spark._jvm
jvm.java.lang.Class.forName("org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager")
client = jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
for what in (client.pods(), client.services(), client.configMaps(), client.persistentVolumeClaims()):
    assert what
"""
_MASTER = "spark-class org.apache.spark.deploy.master.Master --host 127.0.0.1"
_WORKER = "spark-class org.apache.spark.deploy.worker.Worker spark://127.0.0.1:7077 --cores 1 --memory 1g"
CLUSTER = ["sh", "-c", f'{_MASTER} & {_WORKER} & SPARK_LOCAL_IP=127.0.0.1 exec python -c "$0"', _SPARK]
