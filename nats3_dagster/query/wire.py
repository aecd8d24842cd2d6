"""The request of a statement's process and its answer: frames over pipes.

Invariant: an answer is data. Rows are unpickled with the classes of values alone, because a process that ran a
statement of another person is trusted with no more than its rows.
"""

import io
import pickle
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import IO, Any, Final

from nats3_dagster.model import Selection
from nats3_dagster.query.limits import Limits
from nats3_dagster.settings import Settings

_FRAME: Final = struct.Struct("!BQ")
# Of a frame: rows are split into more of them, so only a single row can have as much.
MOST_BYTES: Final = 256 << 20
# The classes of values that DuckDB gives.
_CLASSES: Final = {
    ("datetime", "date"),
    ("datetime", "datetime"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("datetime", "timezone"),
    ("decimal", "Decimal"),
    ("pytz", "_UTC"),
    ("uuid", "UUID"),
}


class Kind(IntEnum):
    """The kinds of frames."""

    HEAD = 1  # JSON: columns, types, and messages that were removed
    ROWS = 2  # a pickled list of tuples
    ARROW = 3  # a part of a stream of Arrow IPC
    END = 4  # JSON: what was fetched
    ERROR = 5  # JSON: a foreseen error
    DEFECT = 6  # text: the traceback of anything else


@dataclass(frozen=True, slots=True)
class Request:
    """A statement, and what it is run with."""

    settings: Settings
    sql: str
    selection: Selection
    limits: Limits
    archive: str | None = None
    over_gaps: bool = False
    parameters: tuple[str, ...] = ()
    as_arrow: bool = False
    # Parts of the statement that another person wrote: nothing runs unless each is an expression of its own.
    conditions: tuple[str, ...] = ()
    # Let other processes of the machine go first.
    is_nice: bool = False


def framed(kind: Kind, body: bytes) -> bytes:
    """The frame of this body."""
    return _FRAME.pack(kind, len(body)) + body


def read_frame(read: Callable[[int], bytes]) -> tuple[Kind, bytes] | None:
    """The next frame; None where the process has ended. `read` gives the number of bytes that is asked for, or fewer at
    the end."""
    head = read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    kind, size = _FRAME.unpack(head)
    if size > MOST_BYTES:
        return None
    body = read(size)
    return (Kind(kind), body) if len(body) == size else None


def send_request(request: Request, to: IO[bytes]) -> None:
    """Sends the request over a pipe, which no other process reads: it has the logins of the settings."""
    body = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
    to.write(framed(Kind.HEAD, body))
    to.flush()


def received(body: bytes) -> Request:
    """The request of the process that started this one."""
    return pickle.loads(body)  # noqa: S301


def rows_of(body: bytes) -> list[tuple[Any, ...]]:
    """The rows of a frame. Raises UnpicklingError for anything but values."""
    return _Values(io.BytesIO(body)).load()


class _Values(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name} is no value")
        return super().find_class(module, name)
