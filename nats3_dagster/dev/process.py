"""A server process that is ours: started, found again, stopped.

The rule kept here: a server is known by the words of its command line that name its folder, never by a number in a
file, so a recycled pid is never signalled and a server that nobody wrote down is found all the same. A process ends
with the one that started it unless it was started to `stay`.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from nats3_dagster.dev import lifeline
from nats3_dagster.errors import EngineError

HOST = "127.0.0.1"
Marker = tuple[str, ...]
# Python warns of a child that lives on when its handle is dropped. These are meant to.
_staying: list[subprocess.Popen[bytes]] = []


def free_port(port: int = 0) -> int:
    """`port` when it is free on loopback (0: any free one). Raises EngineError when it is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise EngineError(f"Port {port} of {HOST}: {error.strerror}", "Choose another, or 0") from None
        return probe.getsockname()[1]


def answers(port: int) -> bool:
    """True when something takes connections there."""
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except OSError:
        return False
    return True


class Process:
    """One running server. `marker` are successive words of its command line that no other has: `-c`, its file."""

    def __init__(self, pid: int, marker: Marker, *, end_signal: int = signal.SIGTERM) -> None:
        self.pid = pid
        self.marker = marker
        self.end_signal = end_signal
        self.log: Path | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._lifeline: _Lifeline | None = None

    @classmethod
    def start(
        cls, argv: Sequence[str], marker: Marker, log: Path, *, stay: bool = False, end_signal: int = signal.SIGTERM,
        env: Mapping[str, str] | None = None,
    ) -> "Process":
        """Start `argv` in a session of its own, its output appended to `log`. Raises EngineError."""
        try:
            with log.open("ab") as out:
                child = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env, cwd=log.parent,
                    start_new_session=True,
                )
        except OSError as error:
            raise EngineError(f"{argv[0]} does not start: {error.strerror}", "Run make setup") from None
        process = cls(child.pid, marker, end_signal=end_signal)
        process.log, process._child = log, child
        if stay:
            _staying.append(child)
        else:
            process._lifeline = _Lifeline.of_this_process()
            process._lifeline.hold(process)
        return process

    @classmethod
    def find(cls, marker: Marker, *, end_signal: int = signal.SIGTERM) -> "Process | None":
        """The running server that has these words, whoever started it; None when there is none."""
        found = {p.pid: p for p in psutil.process_iter(["cmdline"]) if _has(p.info["cmdline"], marker)}
        for pid, process in found.items():
            with suppress(psutil.Error):
                # A server's child has its words until it takes its own title.
                if process.ppid() not in found and process.status() != psutil.STATUS_ZOMBIE:
                    return cls(pid, marker, end_signal=end_signal)
        return None

    @property
    def running(self) -> bool:
        """True while this very process lives."""
        if self._child is not None:
            return self._child.poll() is None
        try:
            found = psutil.Process(self.pid)
            return found.status() != psutil.STATUS_ZOMBIE and _has(found.cmdline(), self.marker)
        except psutil.Error:
            return False

    def wait_until(self, ready: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
        """Wait until `ready()`. Raises EngineError, with the end of its log, when the process ends or time is up."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                raise EngineError(f"{what} ended as soon as it started: {self._last_words()}", f"See {self.log}")
            if time.monotonic() > deadline:
                self.kill()
                raise EngineError(f"{what} did not answer within {timeout_s:g} s", f"See {self.log}")
            time.sleep(0.02)

    def stop(self, timeout_s: float = 20) -> None:
        """Ask it to end, and kill it when it has not by then. Returns when it is gone."""
        self._signal(self.end_signal)
        if not self._gone(timeout_s):
            self.kill()
        self._forget()

    def kill(self) -> None:
        """kill -9, its group included."""
        self._signal(signal.SIGKILL)
        self._gone(10)
        self._forget()

    def _signal(self, number: int) -> None:
        if self.running:
            with suppress(ProcessLookupError, PermissionError):  # macOS: the second, of a group of zombies
                os.killpg(self.pid, number)

    def _gone(self, timeout_s: float) -> bool:
        if self._child is not None:
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                return False
            return True
        deadline = time.monotonic() + timeout_s
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _forget(self) -> None:
        if self._lifeline:
            self._lifeline.release(self)

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log else []
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _has(words: Sequence[str] | None, marker: Marker) -> bool:
    words = words or ()
    return any(tuple(words[at : at + len(marker)]) == marker for at in range(len(words)))


class _Lifeline:
    """The one `lifeline` program of this process; a fork gets one of its own when it starts a server."""

    _mine: "_Lifeline | None" = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._held: dict[int, Process] = {}
        argv = [sys.executable, "-I", "-S", lifeline.__file__, str(self._owner)]
        # With our own output it would keep a reader of it waiting after our end.
        null = subprocess.DEVNULL
        self._program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True)
        atexit.register(self._close)

    @classmethod
    def of_this_process(cls) -> "_Lifeline":
        with cls._lock:
            if cls._mine is None or cls._mine._owner != os.getpid():
                cls._mine = cls()
            return cls._mine

    def hold(self, process: Process) -> None:
        self._held[process.pid] = process
        self._say(f"+{process.pid} {int(process.end_signal)}\n")

    def release(self, process: Process) -> None:
        if self._held.pop(process.pid, None):
            self._say(f"-{process.pid}\n")

    def _say(self, line: str) -> None:
        assert self._program.stdin is not None
        with self._lock:
            self._program.stdin.write(line.encode())
            self._program.stdin.flush()

    def _close(self) -> None:
        if self._owner == os.getpid() and self._program.stdin is not None:
            for process in list(self._held.values()):
                process.stop(5)
            self._program.stdin.close()
            self._program.wait()
