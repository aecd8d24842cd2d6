"""Spark Connect: a session of a server that lives longer than a run.

Invariant: all processes of one release share one session of the server. It starts Python workers for each session and
never ends them, so a session for each run would leak a process with every run; and workers that stay have their imports
done. Workers keep the code they have imported, so a server that another release started is refused.

The token goes out as a header: PySpark itself sends one only by TLS or to the name `localhost`. Without TLS it is in
clear, as passwords of NATS and Postgres are on a private network.
"""

import logging
import re
import socket
import uuid
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nats3_dagster.addresses import connect_with
from nats3_dagster.errors import EngineError, Nats3Error, OperatorError
from nats3_dagster.pipeline.java import CONNECT_PORT, RELEASE
from nats3_dagster.redaction import brief, redacted
from nats3_dagster.version import __version__

log = logging.getLogger(__name__)
# How long a server that does not listen is waited for: it may just be started again.
PATIENCE_S = 30.0
# The server is asked again for a minute (0.05 s times 4^n); by default PySpark goes on for ten.
RETRIES = 6
FIRST_RETRIES = 3  # 1 s: something listens there, but it may be no Spark Connect
# The server refuses the id of a session that it has let go (spark.connect.session.manager.defaultSessionTimeout).
_GENERATIONS = 32
_HINT = "Start it (nats3 connect-server), or unset NATS3_SPARK_REMOTE for a session of each run"
_TOKEN = re.compile(r"(?<=;)token=([^;]*)")


def connect(remote: str, patience_s: float = PATIENCE_S) -> SparkSession:
    """The release's session on the server at `sc://host[:port][/;parameter=value...]`. Needs no Java here.

    Raises OperatorError for an invalid address and for a token that the server does not take, EngineError when no
    server of Spark Connect answers there, after `patience_s`, and for one of another release."""
    host, port = address(remote)
    where = f"Spark Connect at {host}:{port}"
    _wait_for(host, port, where, patience_s)
    try:
        for url in _with_session(_with_header(remote)):
            if session := _open(url):
                _check_release(session, where)
                return session
    except ImportError as error:
        what = f"NATS3_SPARK_REMOTE needs what Spark Connect needs: {error}"
        raise EngineError(what, "pip install 'nats3-dagster[connect]'") from None
    except PySparkException as error:
        raise _refused(error, where, has_token=bool(_TOKEN.search(remote))) from None
    raise EngineError(f"{where} has closed every session of this release", "Start the server again")


def address(remote: str) -> tuple[str, int]:
    """Host and port. Raises OperatorError, which does not repeat the address: it may hold a token."""
    try:
        at = urlsplit(remote)
        host, port = at.hostname, at.port or CONNECT_PORT
    except ValueError:
        host, port = None, 0
    if not remote.startswith("sc://") or not host:
        raise OperatorError("NATS3_SPARK_REMOTE is no address of Spark Connect", "Write it as sc://host:15002")
    return host, port


def is_connect(session: SparkSession) -> bool:
    """True for a session of Spark Connect, which has no SparkContext and no JVM of its own."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def _wait_for(host: str, port: int, where: str, patience_s: float) -> None:
    """Returns once something listens there. Raises EngineError after `patience_s`."""

    def say(state: RetryCallState) -> None:
        if state.attempt_number == 1:
            log.warning("Nothing listens for %s: it is waited for, up to %g s", where, patience_s)

    try:
        Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(patience_s),
            wait=wait_fixed(0.2),
            before_sleep=say,
            reraise=True,
        )(lambda: socket.create_connection((host, port), timeout=5).close())
    except OSError as error:
        raise EngineError(f"Nothing listens for {where} ({error.strerror or error})", _HINT) from None


def _with_header(remote: str) -> str:
    """The address with its token as the header in which it goes out; one with TLS stays as it is."""
    if re.search(r";use_ssl=true(?:;|$)", remote, re.IGNORECASE):
        return remote
    return _TOKEN.sub(r"authorization=Bearer%20\1", remote)


def _check_release(session: SparkSession, where: str) -> None:
    """Raises EngineError where the server's workers are not of this release: they may take a task otherwise than its
    driver means it."""
    release = session.conf.get(RELEASE, None)
    if release == __version__:
        return
    session.stop()
    if not release:
        what, hint = (
            f"{where} does not say the release of its workers, and this is {__version__}",
            (f"Start it by nats3 connect-server; or, where its Python has this release, with {RELEASE}={__version__}"),
        )
    else:
        what = f"{where} has workers of nats3-dagster {release}, and this is {__version__}"
        hint = "Start it again, with this release in its Python"
    raise EngineError(what, hint)


def _refused(error: PySparkException, where: str, *, has_token: bool) -> Nats3Error:
    """The error for a server that does not take a first request."""
    if "UNAUTHENTICATED" not in str(error):
        # gRPC's own error has its reason in the third line.
        details = re.search(r'details = "([^"]+)"', str(error))
        return EngineError(f"{where} does not answer: {redacted(details[1]) if details else brief(error)}", _HINT)
    if has_token:
        return OperatorError(
            f"{where} does not take the token that is set here",
            "Set NATS3_SPARK_TOKEN, or the token in NATS3_SPARK_REMOTE, to the token that it was started with",
        )
    return OperatorError(f"{where} asks for a token, and none is set here", "Set NATS3_SPARK_TOKEN to the server's")


def _with_session(remote: str) -> Iterator[str]:
    """The address with the ids that the shared session may have, one after the other."""
    if "session_id=" in remote:
        yield remote
        return
    user = "" if "user_id=" in remote else "user_id=nats3;"
    for generation in range(_GENERATIONS):
        session_id = uuid.uuid5(uuid.NAMESPACE_URL, f"nats3/{__version__}/{generation}")
        yield connect_with(remote, f"{user}session_id={session_id}")


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
