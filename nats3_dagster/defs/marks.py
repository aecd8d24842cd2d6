"""Marks: they tell the catalog sensor the state of the catalog that an event describes.

They are tags of the event, which the UI keeps apart from what people read.
"""

from collections.abc import Mapping
from typing import Any

# The archive, the revision of an hour, the number of an hour's export, and whether no run reported the event.
MARKS = ("archive_id", "revision", "change", "from_catalog")
_PREFIX = "nats3/"


def split(metadata: Mapping[str, Any], hour: str) -> tuple[dict[str, Any], dict[str, str]]:
    """The metadata that people read, and the marks as tags. All events of a run's output have the same tags: those of
    an hour have its name."""
    marks = {name: str(metadata[name]) for name in MARKS if name in metadata}
    shown = {name: value for name, value in metadata.items() if name not in MARKS}
    return shown, {_tag(name, hour): value for name, value in marks.items()}


def marks_of(tags: Mapping[str, str], hour: str) -> dict[str, Any]:
    """The marks of an event of this hour, as its metadata would have them."""
    marks = {name: tags[tag] for name in MARKS if (tag := _tag(name, hour)) in tags}
    return {name: int(value) if name in ("revision", "change") else value for name, value in marks.items()}


def _tag(name: str, hour: str) -> str:
    of_hour = f".{hour[:13]}" if name in ("revision", "change") else ""
    return f"{_PREFIX}{name}{of_hour}"
