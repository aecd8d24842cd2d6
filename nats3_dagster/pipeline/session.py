"""The Spark session: found by Spark's own rules, and configured by this project's `spark/`.

With a server of Spark Connect (connect.py) the server is configured so, and nothing here.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline import jvm
from nats3_dagster.pipeline.classes import options
from nats3_dagster.pipeline.connect import connect
from nats3_dagster.pipeline.java import conf_dir, find_java, submit_arguments
from nats3_dagster.redaction import brief
from nats3_dagster.steps import Next

# On this machine workers are forked with their imports done: 0.8 s of processor time for each before, 0.13 s after.
# Elsewhere Spark's own daemon runs: it may find this package only once a worker has its task.
_LOCAL = {"spark.python.daemon.module": "nats3_dagster.pipeline.worker_daemon"}


def prepare(master: str | None = None) -> None:
    """Set what Spark reads from the environment before its JVM starts: our configuration, and which Python the workers
    run. What is set already stays. Raises EngineError when there is no Java."""
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


def start(master: str | None = None, remote: str | None = None, **conf: str) -> SparkSession:
    """The running session, or a new one; with `remote` (sc://host:port) that of a server of Spark Connect.

    Raises EngineError when it cannot start, or no server answers. An interrupt leaves no running JVM."""
    if remote:
        return connect(remote)
    if master:
        conf = {"spark.master": master, **conf}
    prepare_jvm(master, conf)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        spark = jvm.interruptible(builder.getOrCreate)
        # It was made in another thread, and Spark finds a Python data source by the session of the thread that writes.
        made: Any = spark
        made._get_j_spark_session_class(made._jvm).setActiveSession(made._jsparkSession)
        return spark
    except (PySparkException, Py4JError, OSError) as error:
        raise not_started(error) from error


def prepare_jvm(master: str | None, conf: Mapping[str, object]) -> None:
    """Start the JVM in which PySpark then makes a session of this configuration, unless there is one. Raises
    EngineError when it does not start. An interrupt leaves no running JVM."""
    ours = _LOCAL if _is_local(master or conf.get("spark.master")) else {}
    prepare(master)
    try:
        jvm.launch(ours | dict(conf))
    except (PySparkException, OSError) as error:
        raise not_started(error) from error


def _is_local(master: object) -> bool:
    """True if Spark runs on this machine alone. Without a master a configuration of the user's may name one."""
    return str(master).startswith("local") if master else "SPARK_CONF_DIR" not in os.environ


def not_started(error: Exception) -> EngineError:
    """The error of a session that PySpark could not start: there is a Java, and what it said went to standard error."""
    return EngineError(f"Spark did not start: {brief(error).rstrip('.')}", Next.CHECK_SPARK())


@contextmanager
def session(master: str | None = None, remote: str | None = None) -> Iterator[SparkSession]:
    """A session that is stopped at the end, JVM and workers included; one of Spark Connect goes on for others."""
    spark = start(master, remote)
    try:
        yield spark
    except Exception:
        spark.stop()
        raise
    except BaseException:
        # An interrupt: the session's messages about its end are then of no use.
        jvm.end()
        raise
    else:
        spark.stop()


def release_executors() -> None:
    """Stop the session whose JVM this process started, unless its executors are in that JVM: a process that ends first
    takes its JVM along before Spark has given them back, and on Kubernetes their pods stay."""
    context = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if jvm.runs() and context is not None and not _is_local(context.master):
        SparkSession(context).stop()
