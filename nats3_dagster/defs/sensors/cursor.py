"""The cursor of the catalog sensor: how far Dagster shows each archive."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(frozen=True, slots=True)
class ArchiveCursor:
    """An archive at a time when Dagster had all of it. While nothing here changes, Dagster still has."""

    # As in ArchiveVersion.
    revision: int
    seals: int
    replays: int
    exports: int
    # The open hour at that time, if Dagster had it as well; else empty.
    open_hour: str
    # The storage ids of the newest events of its chunks, sealed hours, replays and of all its exports; 0 for none.
    chunks_event: int
    sealed_event: int
    replay_event: int
    export_event: int


# Of a cursor, in their order; `astuple` copies each value, and takes ten times as long.
_VALUES = attrgetter(*(field.name for field in fields(ArchiveCursor)))


def read(cursor: str | None) -> dict[int, ArchiveCursor]:
    """Returns the positions by archive id. Empty without a cursor, and for one of another release: then everything is
    compared again."""
    try:
        return {int(archive): ArchiveCursor(*values) for archive, values in json.loads(cursor or "{}").items()}
    except (ValueError, TypeError, AttributeError):
        return {}


def write(heard: Mapping[int, ArchiveCursor]) -> str:
    """Some 45 bytes for each archive: Dagster keeps the cursor with each tick of a day."""
    return json.dumps({archive: _VALUES(heard[archive]) for archive in sorted(heard)}, separators=(",", ":"))
