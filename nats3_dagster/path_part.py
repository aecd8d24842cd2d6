"""A name of others as one part of a path.

Invariant: two names never have one part, and no part leads to another folder, is passed over by engines, or is read by
them as anything but text. A part without `~` is the name, percent-encoded.
"""

import hashlib
import re
from typing import Final
from urllib.parse import quote

from nats3_dagster.subjects import readable

# Characters of a part. File systems take 255 bytes of a name, and a path may have more than the name in a part.
MAX_PART: Final = 150
# Engines read it as null.
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def path_part(name: str) -> str:
    """Returns letters, digits, `_`, `-` and `.` as they are, the rest as %XX, and a `_` or `.` in front too: engines
    pass over such names. A name that is too long is cut between two characters. It ends with ~ and a hash, and so does
    one with bytes that are not UTF-8, for engines refuse all files beside a folder that is not."""
    part = _encoded(name)
    if len(part) <= MAX_PART and name != _NULL and not re.search("[\ud800-\udfff]", name):
        return part
    text = readable(name)[:MAX_PART]
    while len(part := _encoded(text)) > MAX_PART:
        text = text[:-1]
    return f"{part}~{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:32]}"


def _encoded(text: str) -> str:
    part = quote(text, safe="", errors="replace").replace("~", "%7E")
    return f"%{ord(part[0]):02X}{part[1:]}" if part[:1] in ("_", ".") else part
