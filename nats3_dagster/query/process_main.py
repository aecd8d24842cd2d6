"""The process of a statement: it runs one, answers over its standard output, and ends.

Invariant: it ends when the process that started it does, however that ended: its standard input is a pipe that is then
closed. It gets no memory beyond its limit.
"""

import contextlib
import io
import json
import os
import pickle
import resource
import shutil
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.abc import MetaPathFinder
from itertools import islice
from typing import Any, BinaryIO

from nats3_dagster.errors import EngineError, Nats3Error, OperatorError
from nats3_dagster.query.condition import checked
from nats3_dagster.query.faults import out_of_memory, says_no_memory
from nats3_dagster.query.result import Result
from nats3_dagster.query.wire import MOST_BYTES, Kind, Request, framed, read_frame, received
from nats3_dagster.workspace import Workspace

# Rows of a frame at most, and bytes from which on they are split into several.
_ROWS, _FRAME_BYTES = 2048, 4 << 20


def main() -> None:
    """Run the statement that standard input gives."""
    given, out = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 16)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    frame = read_frame(given.read)
    if frame is None:
        return
    request = received(frame[1])
    folder = str(request.limits.temp_parent)
    threading.Thread(target=_end_with, args=(given, folder), daemon=True).start()
    if request.is_nice:
        os.nice(10)
    _limit_memory(request.limits.process_bytes)
    with contextlib.suppress(BrokenPipeError):  # no process reads any more
        _answer(request, out)
        out.flush()
    os._exit(0)  # threads of libraries would be waited for


def _answer(request: Request, out: BinaryIO) -> None:
    try:
        for condition in request.conditions:
            checked(condition)
        sys.meta_path.insert(0, _WithoutPandas())
        from nats3_dagster.query import engine

        with (
            Workspace(request.settings) as workspace,
            engine.run(
                workspace,
                request.sql,
                request.selection,
                archive=request.archive,
                over_gaps=request.over_gaps,
                limits=request.limits,
                parameters=request.parameters,
                as_arrow=request.as_arrow,
            ) as result,
        ):
            _send(result, out)
    except BrokenPipeError:
        raise
    except Nats3Error as error:
        _say(error, out)
    except Exception as error:
        if isinstance(error, MemoryError) or says_no_memory(str(error)):
            _say(out_of_memory(), out)
        else:
            out.write(framed(Kind.DEFECT, traceback.format_exc().encode(errors="replace")))


def _say(error: Nats3Error, out: BinaryIO) -> None:
    field = error.field if isinstance(error, OperatorError) else ""
    out.write(framed(Kind.ERROR, json.dumps({"error": error.to_json(), "field": field}).encode()))


def _send(result: Result, out: BinaryIO) -> None:
    removed = [asdict(part) for part in result.removed]
    head = {"columns": result.columns, "types": result.types, "removed": removed}
    out.write(framed(Kind.HEAD, json.dumps(head).encode()))
    if result.arrow is not None:
        import pyarrow as pa

        schema, batches = result.arrow()
        with pa.PythonFile(_ArrowFrames(out), "w") as sink, pa.ipc.new_stream(sink, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    else:
        while rows := list(islice(result.rows, _ROWS)):
            for body in _pickled(rows):
                out.write(framed(Kind.ROWS, body))
    scanned = result.scanned
    counts = {"chunks": scanned.chunks, "fetched_bytes": scanned.fetched_bytes, "selected": scanned.selected}
    out.write(framed(Kind.END, json.dumps(counts).encode()))


def _pickled(rows: Sequence[tuple[Any, ...]]) -> Iterator[bytes]:
    """The rows in parts of some MiB at most, unless a single row has more."""
    body = pickle.dumps(list(rows), pickle.HIGHEST_PROTOCOL)
    if len(body) > _FRAME_BYTES and len(rows) > 1:
        half = len(rows) // 2
        yield from _pickled(rows[:half])
        yield from _pickled(rows[half:])
        return
    if len(body) > MOST_BYTES:
        raise EngineError(f"A row of the statement has more than {MOST_BYTES >> 20} MiB", "Ask for smaller values")
    yield body


class _WithoutPandas(MetaPathFinder):
    """pyarrow imports pandas where it is installed: a third of the time until a statement runs, and of no use here."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


class _ArrowFrames(io.RawIOBase):
    """A file whose parts are frames."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._out.write(framed(Kind.ARROW, bytes(part)))
        return len(part)


def _limit_memory(most: int) -> None:
    """Linux counts all private memory that can be written; where a system does not, DuckDB's own limit is left."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _end_with(given: BinaryIO, folder: str) -> None:
    given.read()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


if __name__ == "__main__":
    main()
