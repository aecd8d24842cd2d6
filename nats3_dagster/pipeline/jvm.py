"""The JVM of this process: started by spark-submit as PySpark does it, and ended with all that it started.

Invariant: an interrupt at any moment leaves no running JVM. Java writes neither to standard output nor to standard
error: its lines come through this process, and none comes after the JVM was asked to end. A JVM whose Python process
was killed reads the end of its standard input, and ends as well.
"""

import os
import shlex
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, STDOUT, Popen, TimeoutExpired
from threading import Lock, Thread
from typing import Any, TypeVar

from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession
from pyspark.sql.utils import to_str

from nats3_dagster.pipeline.java import spark_home
from nats3_dagster.temporary_folder import temporary_folder

Made = TypeVar("Made")
# What a JVM gets to remove its temporary folders when it is asked to end.
END_S = 3.0
_POLL_S = 0.05
# Where PySpark finds the gateway of a JVM that runs already.
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# Spark's launcher gives that module to every JVM, and a JVM cannot be told to be quiet about it.
_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"


class Jvm:
    """A JVM with PySpark's gateway. `end` may be called while `start` runs in another thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: Popen[bytes] | None = None
        self._ended = False

    def start(self, conf: Mapping[str, object]) -> tuple[int, str]:
        """The port and the secret of its gateway. Raises PySparkRuntimeError when it ends before it has one, OSError
        when spark-submit cannot be run."""
        options = [word for name, value in conf.items() for word in ("-c", f"{name}={to_str(value)}")]
        arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
        home = os.environ.get("SPARK_HOME") or str(spark_home())
        program = Path(home, "bin", "spark-submit")
        with temporary_folder("nats3-spark-") as folder:
            file = folder / "gateway"
            # Without its home spark-submit starts a Python that looks for it.
            environment = {"SPARK_HOME": home, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(file)}
            process = self._open([str(program), *options, *arguments], environment)
            reader = Thread(target=self._forward, args=(process,), name="java", daemon=True)
            reader.start()
            while not file.exists():
                if process.poll() is not None:
                    reader.join(1)  # what it says of the reason comes before our error
                    raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
                time.sleep(_POLL_S)
            return _gateway(file.read_bytes())

    def end(self) -> None:
        """End it, with the shell and the launcher that it comes from. Nothing that it still writes is shown."""
        with self._lock:
            self._ended = True
        if (process := self._process) is None:
            return
        try:
            _signal(process, signal.SIGTERM)
            with suppress(TimeoutExpired):
                process.wait(END_S)
        finally:
            _signal(process, signal.SIGKILL)

    def _open(self, command: list[str], environment: Mapping[str, str]) -> Popen[bytes]:
        with self._lock:
            if self._ended:
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            # In a session of its own, out of reach of a terminal's Ctrl-C: this process hears it, and ends the JVM.
            self._process = Popen(
                command, env=os.environ | environment, stdin=PIPE, stdout=PIPE, stderr=STDOUT, start_new_session=True
            )
            return self._process

    def _forward(self, process: Popen[bytes]) -> None:
        """Pass on what the JVM and its Python workers write, line by line, so that it does not break a progress bar."""
        assert process.stdout
        for line in process.stdout:
            if not self._ended and not line.startswith(_NOISE):
                with suppress(OSError, ValueError):  # it has no reader any more, and Java must not wait for one
                    sys.stderr.write(line.decode(errors="replace"))
                    sys.stderr.flush()


_running: Jvm | None = None


def launch(conf: Mapping[str, object]) -> None:
    """Start the JVM of this process, unless it has one or was started by one (spark-submit). An interrupt ends it.
    Raises PySparkRuntimeError or OSError when it does not start."""
    global _running
    if _PORT in os.environ or SparkContext._gateway is not None:  # pyright: ignore[reportPrivateUsage]
        return
    jvm = _running = Jvm()

    def connect() -> None:
        port, secret = jvm.start(conf)
        os.environ.update({_PORT: str(port), _SECRET: secret})
        try:
            SparkContext._ensure_initialized()  # pyright: ignore[reportPrivateUsage]
        finally:
            # A process that this one starts has a JVM of its own.
            del os.environ[_PORT], os.environ[_SECRET]

    interruptible(connect)


def interruptible(work: Callable[[], Made]) -> Made:
    """Returns or raises the outcome of `work`, done in a thread of its own: a call into Java does not notice an
    interrupt of its thread, and PySpark takes SIGINT for itself when a session is made in the main thread. An interrupt
    of the caller ends the JVM."""
    outcome: Future[Made] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = Thread(target=run, name="spark", daemon=True)
    thread.start()
    try:
        return outcome.result()
    except BaseException as error:
        if not (outcome.done() and outcome.exception() is error):
            end()
            thread.join(END_S)
        raise


def runs() -> bool:
    """True if this process has started a JVM and has not ended it."""
    return _running is not None


def end() -> None:
    """End the JVM that this process has started, its session and the tasks in it. The next session starts another."""
    global _running
    jvm, _running = _running, None
    if jvm is None:
        return
    context: Any = SparkContext._active_spark_context  # pyright: ignore[reportPrivateUsage]
    if (updates := getattr(context, "_accumulatorServer", None)) is not None:
        # After a first job the JVM holds a connection to it, and socketserver prints that this one is lost.
        updates.handle_error = lambda *_: None
    SparkContext._gateway = SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]
    SparkContext._active_spark_context = SparkSession._instantiatedSession = None  # pyright: ignore[reportPrivateUsage]
    jvm.end()


def _gateway(answer: bytes) -> tuple[int, str]:
    """Port and secret as PythonGatewayServer writes them: two lengths of four bytes, the second of the secret."""
    port, length = struct.unpack_from(">ii", answer)
    return port, answer[8 : 8 + length].decode()


def _signal(process: Popen[bytes], number: int) -> None:
    """Sends the signal to the process and all of its group: a child may outlive the leader."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
