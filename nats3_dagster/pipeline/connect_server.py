"""The Spark Connect server of an installation: how spark-submit is told to run it.

Invariant: its token is in the environment of the process and in no command line. Its Python workers are those of this
release, and its configuration says so: a client of another release refuses it (connect.py).
"""

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from nats3_dagster.archive.health.settings_health import is_elsewhere
from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.pipeline.classes import options
from nats3_dagster.pipeline.java import RELEASE, REQUIREMENTS_HINT, find_java, spark_home, submit_arguments
from nats3_dagster.settings import Settings
from nats3_dagster.version import __version__

HOST = "127.0.0.1"
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
# The variable in which Spark takes the token.
_TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"


def require() -> None:
    """Raises EngineError where a server cannot run, or its clients cannot: without Java, or without their libraries."""
    find_java()
    missing = [name for name in ("grpc", "grpc_status") if find_spec(name) is None]
    if missing:
        raise EngineError(f"Spark Connect needs {', '.join(missing)}", "pip install 'nats3-dagster[connect]'")


def command(settings: Settings, host: str, port: int, conf: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """The command line of the server and its environment; `conf`: settings of Spark as NAME=VALUE.

    Raises OperatorError where others than this machine would reach a server without a token, EngineError without Java
    or without Spark's server."""
    environment = dict(os.environ)
    if settings.spark_token is not None:
        environment[_TOKEN] = settings.spark_token.get_secret_value()
    if is_elsewhere(host) and not environment.get(_TOKEN):
        raise OperatorError(
            f"Spark Connect would run the code of everybody who reaches {host}: no token is set",
            "Set NATS3_SPARK_TOKEN, or listen on 127.0.0.1",
        )
    home = Path(environment.setdefault("SPARK_HOME", str(spark_home())))
    if not any(home.joinpath("jars").glob("spark-connect_*.jar")):
        raise EngineError(f"{home} has no server of Spark Connect", REQUIREMENTS_HINT)
    java = find_java()
    # Otherwise the workers run the first `python3` on PATH, which has neither pyarrow nor this package.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    is_ours = "SPARK_CONF_DIR" not in environment
    master = settings.spark_master
    own = [f"spark.connect.grpc.binding.address={host}", f"spark.connect.grpc.binding.port={port}"]
    if is_ours:
        # All runs share it, and each brings its tasks in one message: 40 MB of them ended a heap of 512 MB.
        own.append("spark.driver.memory=1g")
    if master:
        own.append(f"spark.master={master}")
    if master.startswith("local") if master else is_ours:
        # Workers are forked with their imports done; and Spark needs no host name, and fails where it has no address.
        own.append("spark.python.daemon.module=nats3_dagster.pipeline.worker_daemon")
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    own += [f"{RELEASE}={__version__}", *conf]
    words = [str(home / "bin" / "spark-submit"), "--class", _MAIN]
    if is_ours:
        words += submit_arguments(options(java))
    return [*words, *(word for one in own for word in ("--conf", one)), "spark-internal"], environment


def run(settings: Settings, host: str, port: int, conf: Sequence[str] = ()) -> None:
    """Become the server. Raises what `command` raises, EngineError where spark-submit cannot be run."""
    words, environment = command(settings, host, port, conf)
    try:
        os.execve(words[0], words, environment)  # noqa: S606  no shell
    except OSError as error:
        raise EngineError(f"{words[0]} does not start: {error.strerror}", REQUIREMENTS_HINT) from None
