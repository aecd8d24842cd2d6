"""The name of an archive that is made from the name of its stream, and back.

Invariant: no two streams have one archive name, and a name says its stream.
"""

import hashlib
import re

from nats3_dagster.model.archive_spec import MAX_NAME

# Of the hash that ends a name which is cut. No code begins with `_xx`, so that no whole name looks like a cut one.
_HASH = 32
_CUT = re.compile(rf"_xx[0-9a-f]{{{_HASH}}}")


def archive_name_of(stream: str) -> str:
    """Returns letters and digits of ASCII and `_` as they are, and any other character as `_xHEX_`: KV_my-bucket is
    KV_my_x2D_bucket. The `_` of a `_x` in the stream's own name is written so too. A name that is too long is cut, and
    ends with `_xx` and a hash."""
    name = re.sub(r"[^A-Za-z0-9_]|_(?=x)", lambda found: f"_x{ord(found[0]):X}_", stream)
    if len(name) <= MAX_NAME:
        return name
    kept = re.sub(r"_x[0-9A-F]*$", "", name[: MAX_NAME - _HASH - 3])
    return f"{kept}_xx{hashlib.sha256(stream.encode()).hexdigest()[:_HASH]}"


def stream_of(archive: str) -> str | None:
    """Returns the stream whose archive has this name; None for a name that was cut."""
    if _CUT.search(archive):
        return None
    return re.sub(r"_x([0-9A-F]+)_", lambda found: chr(int(found[1], 16)), archive)
