"""The Spark session: found by Spark's own rules, and configured by this project's `spark/`.

The rule kept here: nothing is configured twice. `spark/spark-defaults.conf` holds every setting; this module only says
where it is, which Python the workers run, and what to do when Java is missing. With a server of Spark Connect
(connect.py) the server is configured so, and nothing here.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline.classes import find_java, options
from nats3_dagster.pipeline.connect import connect
from nats3_dagster.steps import Next


def prepare(master: str | None = None) -> None:
    """Set what Spark reads from the environment before its JVM starts; what is set already stays.

    Raises EngineError when there is no Java."""
    java = find_java()
    if "SPARK_CONF_DIR" not in os.environ:
        ours = shlex.join([*submit_arguments(options(java)), "pyspark-shell"])
        if os.environ.setdefault("PYSPARK_SUBMIT_ARGS", ours) != ours:
            os.environ["SPARK_CONF_DIR"] = str(conf_dir())
    # Otherwise the workers run the first `python3` on PATH, which has neither pyarrow nor this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if (master or "local").startswith("local"):
        # Spark resolves the host's own name at start and fails where that has no address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def submit_arguments(java_options: Sequence[str]) -> list[str]:
    """What tells spark-submit our configuration, without the folder that holds it on the JVM's class path: beside a
    folder a JVM takes no archive of classes. `java_options` come after those of spark-defaults.conf."""
    folder = conf_dir()
    logging = f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    defaults = str(folder / "spark-defaults.conf")
    return ["--properties-file", defaults, "--driver-java-options", shlex.join([logging, *java_options])]


def conf_dir() -> Path:
    """The folder with spark-defaults.conf and log4j2.properties: beside the package in a checkout, inside it when
    installed."""
    package = Path(__file__).parent.parent
    return next(d for d in (package.parent / "spark", package / "_spark") if (d / "spark-defaults.conf").exists())


def start(master: str | None = None, remote: str | None = None, **conf: str) -> SparkSession:
    """The running session, or a new one; with `remote` (sc://host:port) that of a server of Spark Connect.

    Raises EngineError when it cannot start, or no server answers."""
    if remote:
        return connect(remote)
    prepare(master)
    builder = SparkSession.builder
    if master:
        builder = builder.master(master)
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (PySparkException, OSError) as error:
        raise not_started(error) from error


def not_started(error: Exception) -> EngineError:
    """What an error of PySpark's comes down to: there is a Java, and what it said went to standard error."""
    first = str(error).splitlines()[0][:200].rstrip(".")
    return EngineError(f"Spark did not start: {first}", Next.CHECK_SPARK())


@contextmanager
def session(master: str | None = None, remote: str | None = None) -> Iterator[SparkSession]:
    """A session that is stopped at the end, JVM and workers included; one of Spark Connect goes on for others."""
    spark = start(master, remote)
    try:
        yield spark
    finally:
        spark.stop()
