"""A count: a number of an archive, as the catalog keeps or finds it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """How many there are of something."""

    # The name of the archive. Of a sum that only grows it may be one that is deleted.
    archive: str
    # What is counted: a total (0100_totals.sql), or attempts, replays, hours, missing, completed (measures.sql).
    what: str
    label: str
    value: int
