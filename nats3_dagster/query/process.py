"""A statement of another person: it runs in a process of its own, within limits of time, memory and number.

Invariant: the process ends with the `with` block of the one who asked, by a limit, or when the asker is gone, whichever
comes first; each but the first is an error with a name. This process imports neither DuckDB nor pyarrow for it.
"""

import io
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, Final

from nats3_dagster.archive.selected.removed import Removed
from nats3_dagster.errors import EngineError, Nats3Error, OperatorError, from_json
from nats3_dagster.query.faults import out_of_memory, says_no_memory
from nats3_dagster.query.limits import AT_ONCE
from nats3_dagster.query.result import Result, Scanned
from nats3_dagster.query.temporary import temporary
from nats3_dagster.query.wire import Kind, Request, read_frame, rows_of, send_request
from nats3_dagster.steps import Next

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
# Seconds between two looks at whether the asker is still there.
_LOOK_S: Final = 0.2
# Bytes of what the process wrote to standard error that are read.
_LAST_BYTES: Final = 4096
# A library ends its process by one of these where it gets no memory; the system ends one that has too much.
_OF_MEMORY: Final = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL}
# pyarrow's allocator takes 1 GiB as its own at once, which would count.
_ENVIRONMENT: Final = {"MIMALLOC_ARENA_EAGER_COMMIT": "0"}
_slots = threading.BoundedSemaphore(AT_ONCE)


@contextmanager
def run(request: Request, *, is_away: Callable[[], bool] = lambda: False) -> Generator[Result]:
    """Run a statement as `engine.run` does, in a process of its own. `is_away` says that its client is gone.

    Raises as `engine.run` does; EngineError also where AT_ONCE statements run already, and at the end by a limit."""
    if not _slots.acquire(blocking=False):
        raise EngineError(f"{AT_ONCE} statements of others run already", "Ask again when one of them has ended")
    try:
        with temporary(request.limits) as folder, TemporaryFile() as errors:
            inner = replace(request, limits=replace(request.limits, temp_parent=Path(folder)))
            process = _started(errors)
            try:
                answer = _Answer(process, errors, request.limits.seconds, is_away)
                answer.ask(inner)
                yield answer.result()
            finally:
                process.kill()
                process.communicate()
    finally:
        _slots.release()


def _started(errors: IO[bytes]) -> subprocess.Popen[bytes]:
    """Starts the process in a session of its own: an interrupt at the terminal is for this process, which then ends
    it."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "nats3_dagster.query.process_main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        start_new_session=True,
        env=os.environ | _ENVIRONMENT,
    )


class _Answer:
    """The frames of a process."""

    def __init__(
        self, process: subprocess.Popen[bytes], errors: IO[bytes], seconds: float, is_away: Callable[[], bool]
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._errors = process, errors
        self._given, self._out = process.stdin, process.stdout
        self._seconds, self._is_away = seconds, is_away
        # Of work: while it is waited for.
        self._worked_s = 0.0
        self._scanned = Scanned()

    def ask(self, request: Request) -> None:
        """Hand the request over. Raises as `_frame` does where the process ended before."""
        try:
            send_request(request, self._given)
        except BrokenPipeError:
            raise self._end() from None

    def result(self) -> Result:
        """The head of the answer, with rows that come as they are asked for."""
        head = json.loads(self._frame(Kind.HEAD)[1])
        removed = tuple(Removed(**part) for part in head["removed"])
        return Result(tuple(head["columns"]), tuple(head["types"]), self._rows(), self._arrow, self._scanned, removed)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        while True:
            kind, body = self._frame(Kind.ROWS, Kind.END)
            if kind is Kind.END:
                self._scanned.add(**json.loads(body))
                return
            yield from rows_of(body)

    def _arrow(self) -> "tuple[pa.Schema, Iterator[pa.RecordBatch]]":
        import pyarrow as pa

        reader = pa.ipc.open_stream(pa.PythonFile(_Stream(self._parts()), "r"))
        return reader.schema, iter(reader)

    def _parts(self) -> Iterator[bytes]:
        while True:
            kind, body = self._frame(Kind.ARROW, Kind.END)
            if kind is Kind.END:
                self._scanned.add(**json.loads(body))
                return
            yield body

    def _frame(self, *kinds: Kind) -> tuple[Kind, bytes]:
        """The next frame, of one of these kinds. Raises the error that the process answers, and that of its end."""
        frame = read_frame(self._read)
        if frame is None:
            raise self._end()
        kind, body = frame
        if kind is Kind.ERROR:
            raise _error(body)
        if kind not in kinds:
            log.debug("the process of a statement failed: %s", body.decode(errors="replace"))
            raise RuntimeError("the process of a statement failed")
        return kind, body

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            while len(parts) < size:
                self._wait(selector)
                part = os.read(self._out.fileno(), min(size - len(parts), 1 << 20))
                if not part:
                    break
                parts += part
        return bytes(parts)

    def _wait(self, selector: selectors.BaseSelector) -> None:
        """Wait until there is something to read. Raises EngineError where a limit is reached before."""
        while True:
            began = time.monotonic()
            is_there = selector.select(min(_LOOK_S, max(0.0, self._seconds - self._worked_s)))
            self._worked_s += time.monotonic() - began
            if is_there:
                return
            if self._is_away():
                raise EngineError("The statement was ended: its client is gone", "Run it again")
            if self._worked_s >= self._seconds:
                raise EngineError(
                    f"The statement needs more than its time of {self._seconds:,g} s", Next.GIVE_QUERY_TIME()
                )

    def _end(self) -> Nats3Error:
        """The error of a process that ended without an answer."""
        status = self._process.wait()
        size = self._errors.seek(0, io.SEEK_END)
        self._errors.seek(max(0, size - _LAST_BYTES))
        last = self._errors.read().decode(errors="replace")
        log.debug("the process of a statement ended with %s: %s", status, last)
        if says_no_memory(last):
            return out_of_memory()
        if -status in _OF_MEMORY:
            name = signal.Signals(-status).name
            return EngineError(
                f"The process of the statement ended by {name}, most often for want of memory", Next.GIVE_QUERY_MEMORY()
            )
        return EngineError(
            f"The process of the statement ended with status {status} and without an answer",
            "Run it again in debug mode: the log has what it said",
        )


def _error(body: bytes) -> Nats3Error:
    document = json.loads(body)
    error = from_json(document["error"])
    if isinstance(error, OperatorError):
        error.field = document["field"]
    return error


class _Stream(io.RawIOBase):
    """Parts as a file that is read once."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._left = parts, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._left) < size:
            part = next(self._parts, None)
            if part is None:
                size = len(self._left)
                break
            self._left += part
        taken, self._left = self._left[:size], self._left[size:]
        return taken
