"""Marks: they tell the catalog sensor the state of the catalog that an event describes.

They are tags of the event, which the UI keeps apart from what people read. One of them is Dagster's own: the version.
"""

from collections.abc import Mapping
from typing import Any

from nats3_dagster.defs.instance.internals import DATA_VERSION_TAG

# The archive, the revision of an hour, the number of an hour's export, and whether no run reported the event.
MARKS = ("archive_id", "revision", "change", "from_catalog")
_PREFIX = "nats3/"


def split(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The metadata that people read, and the marks as tags."""
    shown = {name: value for name, value in metadata.items() if name not in MARKS}
    return shown, {f"{_PREFIX}{name}": str(metadata[name]) for name in MARKS if name in metadata}


def marks_of(tags: Mapping[str, str]) -> dict[str, Any]:
    """The marks of an event, as its metadata would have them, and its `version`."""
    marks: dict[str, Any] = {name: tags[tag] for name in MARKS if (tag := f"{_PREFIX}{name}") in tags}
    numbers = {name: int(marks[name]) for name in ("revision", "change") if name in marks}
    return marks | numbers | ({"version": tags[DATA_VERSION_TAG]} if DATA_VERSION_TAG in tags else {})
