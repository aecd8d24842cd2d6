"""The result of a statement: its columns, its rows as they come, and what was fetched for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

from nats3_dagster.archive.selected.removed import Removed

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Scanned:
    """The counts of the scans of a query."""

    # Chunks that were read at least in part, and their fetched bytes.
    chunks: int = 0
    fetched_bytes: int = 0
    # Chunks of the selections, before filters left some of them out.
    selected: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add(self, *, chunks: int = 0, fetched_bytes: int = 0, selected: int = 0) -> None:
        """Adds to the counts, from any thread."""
        with self._lock:
            self.chunks += chunks
            self.fetched_bytes += fetched_bytes
            self.selected += selected


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a statement, which come as they are asked for, once."""

    # In the order of the statement; two may have one name.
    columns: tuple[str, ...]
    # DuckDB's name of each column's type.
    types: tuple[str, ...]
    # One value for each column, of Python's types: as exact as DuckDB's. Raises as `engine.run` does.
    rows: Iterator[tuple[Any, ...]]
    # The rows in Arrow's types, in place of `rows`, where the statement was run for them. Raises as `engine.run` does.
    arrow: "Callable[[], tuple[pa.Schema, Iterator[pa.RecordBatch]]] | None"
    # What was fetched so far; of a process of its own when the rows are at their end.
    scanned: Scanned
    # The messages that were removed from the archives of the statement, and which it may ask for.
    removed: tuple[Removed, ...] = ()
