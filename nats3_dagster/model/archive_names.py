"""The name of an archive that is made from the name of its stream, and back.

Invariant: no two streams have one archive name, and a name says its stream.
"""

import hashlib
import re

from nats3_dagster.model.archive_spec import MAX_NAME

# Letters of the hash in a name that is cut. No whole name begins with `_xx`: its `_` would be written as a code.
_HASH = 32
_CUT = re.compile(rf"_xx[0-9a-f]{{{_HASH}}}_")


def archive_name_of(stream: str) -> str:
    """Returns letters and digits of ASCII and `_` as they are, and any other character as `_xHEX_`: KV_my-bucket is
    KV_my_x2D_bucket. The `_` of a `_x` in the stream's own name is written so too. A name that is too long is cut, and
    begins with `_xx` and a hash."""
    name = re.sub(r"[^A-Za-z0-9_]|_(?=x)", lambda found: f"_x{ord(found[0]):X}_", stream)
    if len(name) <= MAX_NAME:
        return name
    return f"_xx{hashlib.sha256(stream.encode()).hexdigest()[:_HASH]}_{name[: MAX_NAME - _HASH - 4]}"


def stream_of(archive: str) -> str | None:
    """Returns the stream whose archive has this name; None for a name that was cut."""
    if _CUT.match(archive):
        return None
    return re.sub(r"_x([0-9A-F]+)_", lambda found: chr(int(found[1], 16)), archive)
