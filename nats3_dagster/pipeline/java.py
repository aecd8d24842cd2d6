"""Java and Spark's programs: where they are, and how spark-submit is told our configuration.

Invariant: nothing is configured twice. `spark/spark-defaults.conf` holds every setting; this module only says where it
is.
"""

import os
import shlex
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from nats3_dagster.errors import EngineError

REQUIREMENTS_HINT = "Install nats3-dagster again with what it requires; in a checkout: make setup"
# Of a server of Spark Connect: its port, and the setting of Spark in which it says the release of its Python workers.
CONNECT_PORT, RELEASE = 15002, "spark.nats3.release"
JAVA_HINT = "Install a Java runtime, 17 or later (openjdk-17-jre-headless), or set JAVA_HOME to one"


def find_java() -> Path:
    """The program that Spark will start. Raises EngineError when there is none."""
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if program is None:
        raise EngineError("Spark needs Java, and there is none" + (f" in JAVA_HOME {home}" if home else ""), JAVA_HINT)
    return Path(program)


def spark_home() -> Path:
    """PySpark's folder, found without importing it. Raises EngineError when it is not installed."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError("PySpark is not installed", REQUIREMENTS_HINT)
    return Path(spec.origin).parent


def conf_dir() -> Path:
    """The folder with spark-defaults.conf and log4j2.properties: beside the package in a checkout, inside it when
    installed."""
    package = Path(__file__).parent.parent
    return next(d for d in (package.parent / "spark", package / "_spark") if (d / "spark-defaults.conf").exists())


def submit_arguments(java_options: Sequence[str]) -> list[str]:
    """Arguments of spark-submit for our configuration, without its folder on the JVM's class path: beside a folder a
    JVM takes no archive of classes. `java_options` come after those of spark-defaults.conf."""
    folder = conf_dir()
    logging = f"-Dlog4j2.configurationFile={(folder / 'log4j2.properties').as_uri()}"
    defaults = str(folder / "spark-defaults.conf")
    return ["--properties-file", defaults, "--driver-java-options", shlex.join([logging, *java_options])]
