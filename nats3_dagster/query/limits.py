"""Limits of a statement: time, memory, temporary space, and the number of statements at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

# DuckDB's memory for joins, groups and sorts.
MEMORY_BYTES: Final = 1 << 30
# Memory of the statement's process beside that: Python, what is read of chunks, and what DuckDB allocates outside of
# its own limit, such as the values of functions of text.
HEADROOM_BYTES: Final = 1 << 30
# Seconds of work: the time in which the user reads the rows does not count.
SECONDS: Final = 3600.0
# Statements that run at a time for one process, such as a server.
AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a statement may use. What does not fit into DuckDB's memory goes to a temporary folder."""

    # For joins, groups and sorts, MEMORY_BYTES by default. Its process gets HEADROOM_BYTES more, and no byte beyond.
    memory_bytes: int | None = None
    # Where the temporary folder is made; None for the system's place.
    temp_parent: Path | None = None
    # The temporary folder's; None for nine tenths of what is free on its disk.
    temp_bytes: int | None = None
    # Until it is ended.
    seconds: float = SECONDS

    @property
    def process_bytes(self) -> int:
        """The memory of the statement's process."""
        return (self.memory_bytes or MEMORY_BYTES) + HEADROOM_BYTES


# A condition that a client of the API sends.
OF_REQUESTS: Final = Limits(memory_bytes=256 << 20, temp_bytes=1 << 30, seconds=120.0)
