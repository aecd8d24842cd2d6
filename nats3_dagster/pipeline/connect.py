"""Spark Connect: a session of a server that lives longer than a run.

Invariant: all processes of one release share one session of the server. It starts Python workers for each session and
never ends them, so a session for each run would leak a process with every run; and workers that stay have their imports
done. A new release gets a new session, because workers keep the code they have imported.
"""

import socket
import uuid
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nats3_dagster.errors import EngineError, OperatorError
from nats3_dagster.redaction import brief
from nats3_dagster.version import __version__

DEFAULT_PORT = 15002
# The server is asked again for a minute (0.05 s times 4^n); by default PySpark goes on for ten.
RETRIES = 6
FIRST_RETRIES = 3  # 1 s: something listens there, but it may be no Spark Connect
# The server refuses the id of a session that it has let go (spark.connect.session.manager.defaultSessionTimeout).
_GENERATIONS = 32
_HINT = "Start it (spark/connect-server.sh), or unset NATS3_SPARK_REMOTE for a session of each run"


def connect(remote: str) -> SparkSession:
    """The release's session on the server at `sc://host[:port][/;parameter=value...]`. Needs no Java here.

    Raises OperatorError for an invalid address, EngineError when no server of Spark Connect answers there."""
    host, port = address(remote)
    where = f"Spark Connect at {host}:{port}"
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise EngineError(f"Nothing listens for {where} ({error.strerror or error})", _HINT) from None
    try:
        for url in _with_session(remote):
            if session := _open(url):
                return session
    except ImportError as error:
        what = f"NATS3_SPARK_REMOTE needs what Spark Connect needs: {error}"
        raise EngineError(what, "pip install 'nats3-dagster[connect]'") from None
    except PySparkException as error:
        raise EngineError(f"{where} does not answer: {brief(error)}", _HINT) from None
    raise EngineError(f"{where} has closed every session of this release", "Start the server again")


def address(remote: str) -> tuple[str, int]:
    """Host and port. Raises OperatorError, which does not repeat the address: it may hold a token."""
    try:
        at = urlsplit(remote)
        host, port = at.hostname, at.port or DEFAULT_PORT
    except ValueError:
        host, port = None, 0
    if not remote.startswith("sc://") or not host:
        raise OperatorError("NATS3_SPARK_REMOTE is no address of Spark Connect", "Write it as sc://host:15002")
    return host, port


def is_connect(session: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no SparkContext and no JVM of its own."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _with_session(remote: str) -> Iterator[str]:
    """The address with the ids that the shared session may have, one after the other."""
    if "session_id=" in remote:
        yield remote
        return
    base = remote.rstrip("/;") + (";" if "/;" in remote else "/;")
    user = "" if "user_id=" in remote else "user_id=nats3;"
    for generation in range(_GENERATIONS):
        yield f"{base}{user}session_id={uuid.uuid5(uuid.NAMESPACE_URL, f'nats3/{__version__}/{generation}')}"


def _open(url: str) -> SparkSession | None:
    """The session of this address, the default one of the process from now on; None where the server closed it."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session: Any = SparkSession.builder.remote(url).getOrCreate()
    # It belongs to other processes too: stopping it here must not end it there.
    session.release_session_on_close = False
    session.client.set_retry_policies([DefaultPolicy(max_retries=FIRST_RETRIES)])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")  # the error that follows says it
            assert session.version
    except PySparkException as error:
        session.stop()
        if "SESSION_CLOSED" in str(error):
            return None
        raise
    session.client.set_retry_policies([DefaultPolicy(max_retries=RETRIES)])
    return session
