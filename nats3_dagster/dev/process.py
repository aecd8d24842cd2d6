"""A server process of the stack: start it, find it again, stop it.

Invariant: a server is known by the words of its command line that name its folder, never by a pid in a file. So a
recycled pid is never signalled, and a server that no file names is found. It ends with the process that started it,
unless it was started with `stay`.
"""

import atexit
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import not_
from pathlib import Path

import psutil
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from nats3_dagster.dev import lifeline
from nats3_dagster.errors import EngineError
from nats3_dagster.settings.private import UMASK, open_private

HOST = "127.0.0.1"
Marker = tuple[str, ...]
# Handles of children that outlive this process on purpose, by pid: Python warns when the handle of a running child is
# dropped, and a child that ends before this process is a zombie until its handle is asked.
_staying: dict[int, subprocess.Popen[bytes]] = {}


def free_port(port: int = 0) -> int:
    """`port` when it is free on loopback (0: any free one). Raises EngineError when it is taken."""
    # One that systems do not give to connections on their way out (Linux from 32768 on, IANA from 49152 on): such a
    # port was taken between this look and the server's start, and while a server was restarted.
    wanted = [port] if port else [secrets.choice(range(10_240, 32_768)) for _ in range(100)]
    for number in wanted:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, number))
            except OSError as error:
                if number != wanted[-1]:
                    continue
                raise EngineError(f"Port {number} of {HOST}: {error.strerror}", "Choose another, or 0") from None
            return number
    raise AssertionError("unreachable: the last one returns or raises")


def answers(port: int) -> bool:
    """True if a process accepts connections on this port of loopback."""
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except OSError:
        return False
    return True


def wait_for(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Ask until `condition()` is true; False when the time is up."""
    return Retrying(
        retry=retry_if_result(not_),
        wait=wait_fixed(every_s),
        stop=stop_after_delay(timeout_s),
        retry_error_callback=lambda _: False,
    )(condition)


@contextmanager
def exclusive(file: Path) -> Iterator[None]:
    """Hold the lock of `file`, which is made, against other processes; wait for it. Raises OSError."""
    with open_private(file, "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Process:
    """One running server. `marker`: successive words of its command line that no other process has, e.g. `-c FILE`."""

    def __init__(self, pid: int, marker: Marker, *, end_signal: int = signal.SIGTERM) -> None:
        self.pid = pid
        self.marker = marker
        self.end_signal = end_signal
        self.log: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._lifeline: _Lifeline | None = None

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        marker: Marker,
        log: Path,
        *,
        stay: bool = False,
        end_signal: int = signal.SIGTERM,
        env: Mapping[str, str] | None = None,
        umask: int = UMASK,
    ) -> "Process":
        """Start `argv` in a session of its own, its output appended to `log`; with -1 it has our umask. Raises
        EngineError."""
        try:
            with open_private(log, "ab") as out:
                child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    env=env,
                    cwd=log.parent,
                    start_new_session=True,
                    umask=umask,
                )
        except OSError as error:
            hint = "Install it; in a checkout: make setup"
            raise EngineError(f"{argv[0]} does not start: {error.strerror}", hint) from None
        process = cls(child.pid, marker, end_signal=end_signal)
        process.log, process._child = log, child
        if stay:
            _staying[child.pid] = child
        else:
            process._lifeline = _Lifeline.of_this_process()
            process._lifeline.add(process)
        return process

    @classmethod
    def find(cls, marker: Marker, *, end_signal: int = signal.SIGTERM) -> "Process | None":
        """Returns the running server with these words in its command line; None when there is none."""
        matches = {p.pid: p for p in psutil.process_iter(["cmdline"]) if _has(p.info["cmdline"], marker)}
        for pid, process in matches.items():
            with suppress(psutil.Error):
                # A server's child has the server's command line until it sets its own title.
                if process.ppid() not in matches and process.status() != psutil.STATUS_ZOMBIE:
                    found = cls(pid, marker, end_signal=end_signal)
                    found._child = _staying.get(pid)
                    return found
        return None

    @property
    def running(self) -> bool:
        """True if it lives: this process, not another one with its pid."""
        if self._child is not None:
            return self._child.poll() is None
        try:
            process = psutil.Process(self.pid)
            return process.status() != psutil.STATUS_ZOMBIE and _has(process.cmdline(), self.marker)
        except psutil.Error:
            return False

    @property
    def ending(self) -> str:
        """Returns how a child of this process has ended: `exit status 1`, `signal SIGKILL`; empty while it runs, and
        for a child of another process."""
        status = self._child.poll() if self._child is not None else None
        if status is None:
            return ""
        return f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"

    @property
    def words(self) -> Sequence[str]:
        """The command line; empty when the process has ended."""
        with suppress(psutil.Error):
            return psutil.Process(self.pid).cmdline()
        return ()

    @property
    def children(self) -> list[psutil.Process]:
        """Returns the processes that it has started and that have not ended."""
        with suppress(psutil.Error):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    @property
    def started_s(self) -> float:
        """The time when it was started, in seconds since 1970; 0 when it has ended."""
        with suppress(psutil.Error):
            return psutil.Process(self.pid).create_time()
        return 0.0

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        """Wait until `ready()`. Raises EngineError when the process ends before (with the last line of its log) or when
        the time is up; it is then killed."""

        def is_ready() -> bool:
            if ready():
                return True
            if not self.running:
                raise EngineError(f"{what} ended as soon as it started: {self._last_line()}", f"See {self.log}")
            return False

        if not wait_for(is_ready, timeout_s):
            self.kill()
            raise EngineError(f"{what} did not answer within {timeout_s:g} s", f"See {self.log}")

    def stop(self, timeout_s: float = 20) -> None:
        """Ask it to end, and kill it if it is still running after `timeout_s`. Returns when it has ended."""
        self._signal(self.end_signal)
        if not self._has_ended(timeout_s):
            self.kill()
        self._forget()

    def kill(self) -> None:
        """kill -9 of its process group."""
        self._signal(signal.SIGKILL)
        self._has_ended(10)
        self._forget()

    def _signal(self, number: int) -> None:
        if self.running:
            with suppress(ProcessLookupError, PermissionError):  # macOS: the second, of a group of zombies
                os.killpg(self.pid, number)

    def _has_ended(self, timeout_s: float) -> bool:
        # psutil.Process.wait would also wait for a zombie, which in a container may stay for ever.
        return wait_for(lambda: not self.running, timeout_s)

    def _forget(self) -> None:
        if self._lifeline:
            self._lifeline.remove(self)

    def _last_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _has(words: Sequence[str] | None, marker: Marker) -> bool:
    words = words or ()
    return any(tuple(words[at : at + len(marker)]) == marker for at in range(len(words)))


class _Lifeline:
    """The `lifeline` program of this process, one for all its servers; a fork starts its own with its first server."""

    _current: "_Lifeline | None" = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._wards: dict[int, Process] = {}  # by pid
        argv = [sys.executable, "-I", "-S", lifeline.__file__, str(self._owner)]
        # Not the output of this process: a reader of that would wait for its end, and the program ends later.
        null = subprocess.DEVNULL
        self._program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
        atexit.register(self._close)

    @classmethod
    def of_this_process(cls) -> "_Lifeline":
        with cls._lock:
            if cls._current is None or cls._current._owner != os.getpid():
                cls._current = cls()
            return cls._current

    def add(self, process: Process) -> None:
        self._wards[process.pid] = process
        self._send(f"+{process.pid} {int(process.end_signal)}\n")

    def remove(self, process: Process) -> None:
        if self._wards.pop(process.pid, None):
            self._send(f"-{process.pid}\n")

    def _send(self, line: str) -> None:
        assert self._program.stdin is not None
        with self._lock:
            self._program.stdin.write(line.encode())
            self._program.stdin.flush()

    def _close(self) -> None:
        if self._owner == os.getpid() and self._program.stdin is not None:
            for process in list(self._wards.values()):
                process.stop(5)
            self._program.stdin.close()
            self._program.wait()
