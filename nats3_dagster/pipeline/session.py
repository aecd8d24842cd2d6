"""The Spark session: found by Spark's own rules, with this project's `spark/` as its configuration folder.

The rule kept here: nothing is configured twice. `spark/spark-defaults.conf` holds every setting; this module only says
where that folder is, which Python the workers run, and what to do when Java is missing. With a server of Spark Connect
(connect.py) the server is configured so, and nothing here.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline.connect import connect

JAVA_HINT = "Install a Java runtime, 17 or later (openjdk-17-jre-headless), or set JAVA_HOME to one"


def prepare(master: str | None = None) -> None:
    """Set what Spark reads from the environment before its JVM starts; what is set already stays.

    Raises EngineError when there is no Java."""
    os.environ.setdefault("SPARK_CONF_DIR", str(conf_dir()))
    # Otherwise the workers run the first `python3` on PATH, which has neither pyarrow nor this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if (master or "local").startswith("local"):
        # Spark resolves the host's own name at start and fails where that has no address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").exists() if home else shutil.which("java")):
        raise EngineError("Spark needs Java, and there is none" + (f" in JAVA_HOME {home}" if home else ""), JAVA_HINT)


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
        first = str(error).splitlines()[0][:200]
        raise EngineError(f"Spark did not start: {first}", JAVA_HINT) from error


@contextmanager
def session(master: str | None = None, remote: str | None = None) -> Iterator[SparkSession]:
    """A session that is stopped at the end, JVM and workers included; one of Spark Connect goes on for others."""
    spark = start(master, remote)
    try:
        yield spark
    finally:
        spark.stop()
