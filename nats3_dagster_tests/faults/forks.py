"""A fork server: processes of the code under test without the second that Python takes to import it.

`python -m nats3_dagster_tests.faults.forks SOCKET`. Each connection is one process: it gets a `Request`, and answers
with its pid and then with what became of the request. It can be killed like any other process.
"""

import faulthandler
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats3_dagster import fault_points
from nats3_dagster.errors import Nats3Error
from nats3_dagster_tests.faults.clocks import CLOCK, set_clock


@dataclass(frozen=True, slots=True)
class Request:
    """What a process has to do."""

    # Importable by name.
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    # Added to the environment of the fork server.
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    # What the work returned.
    value: Any = None
    # The class of the error that ended it: `Killed` for a process that did not answer; empty for a success.
    error: str = ""
    # The error's text.
    text: str = ""

    @property
    def ok(self) -> bool:
        return not self.error

    def __str__(self) -> str:
        return f"{self.error}: {self.text}" if self.error else "ok"


class Job:
    """A process that works on a request."""

    def __init__(self, server: Path, request: Request) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(server))
        send(self._socket, request)
        self.pid: int = receive(self._socket)

    def wait(self, timeout_s: float) -> Ended:
        """How it ended; one that has not by then is killed."""
        self._socket.settimeout(timeout_s)
        try:
            return receive(self._socket)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGUSR1)
                time.sleep(0.5)  # it writes where its threads are
            self.kill()
            return Ended(None, "Hung", f"no end after {timeout_s:.0f} s")
        except (EOFError, OSError):
            return Ended(None, "Killed", "the process ended without an answer")
        finally:
            self._socket.close()

    def peek(self) -> None:
        """Raises EOFError once it has answered, or ended."""
        if select.select([self._socket], [], [], 0)[0]:
            raise EOFError

    def kill(self) -> None:
        """kill -9."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


def send(connection: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    connection.sendall(struct.pack("!I", len(data)) + data)


def receive(connection: socket.socket) -> Any:
    (size,) = struct.unpack("!I", _exactly(connection, 4))
    return pickle.loads(_exactly(connection, size))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (part := connection.recv(size - len(data))):
            raise EOFError
        data += part
    return bytes(data)


def _work(connection: socket.socket) -> None:
    """In the new process: do what is asked, answer, end."""
    request: Request = receive(connection)
    os.environ.update(request.environment)
    set_clock(request.environment.get(CLOCK, ""))
    faulthandler.register(signal.SIGUSR1)
    fault_points.arm(request.environment.get("NATS3_FAULT", ""))
    send(connection, os.getpid())
    try:
        ended = Ended(request.work(*request.arguments))
    except Nats3Error as error:
        ended = Ended(None, type(error).__name__, str(error))
    except BaseException as error:
        import traceback

        traceback.print_exc()
        ended = Ended(None, f"Defect {type(error).__name__}", str(error))
    try:
        send(connection, ended)
    except OSError:
        print("nobody waited for", ended, file=sys.stderr, flush=True)
    os._exit(0)


def main(path: str) -> None:
    from nats3_dagster_tests.faults import jobs

    jobs.prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes here
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _work(connection)
        connection.close()


if __name__ == "__main__":
    # The classes are those of the module that the other processes import.
    from nats3_dagster_tests.faults import forks

    forks.main(sys.argv[1])
