"""Sizes and durations as people write them."""

import re

from pydantic import ByteSize, TypeAdapter, ValidationError

from nats3_dagster.errors import OperatorError

_SIZE = TypeAdapter(ByteSize)
# Of a size: ByteSize itself passes over what follows it. Parts of a byte are none.
_SIZE_FORM = re.compile(r"\s*(\d+|\d*\.?\d+\s*[A-Za-z]+)\s*", re.ASCII)
# Units as people write them, by their seconds.
_UNITS = {"s|secs?|seconds?": 1, "m|mins?|minutes?": 60, "h|hrs?|hours?": 3600, "d|days?": 86400}
_PART = re.compile("|".join(rf"(\d+)(?:{names})(?![a-z])" for names in _UNITS), re.ASCII)


def parse_size(text: str) -> int:
    """Bytes from `1000`, `64MiB`, `64 MB`, `1.5GiB`. Raises OperatorError."""
    try:
        if _SIZE_FORM.fullmatch(text):
            return int(_SIZE.validate_python(text))
    except ValidationError:
        pass
    raise OperatorError(f"{text!r} is not a size", "Write it as 67108864, 64MiB or 64MB")


def parse_duration(text: str) -> int:
    """Seconds from `60`, `60s`, `5m`, `1h30m`, `2d`, `5sec`, `1min`. Raises OperatorError."""
    if re.fullmatch(r"\d+", text, re.ASCII):
        return int(text)
    if not text or _PART.sub("", text):
        raise OperatorError(f"{text!r} is not a duration", "Write it as 60s, 5m, 1h30m or 2d")
    seconds = list(_UNITS.values())
    return sum(int(match[match.lastindex or 1]) * seconds[(match.lastindex or 1) - 1] for match in _PART.finditer(text))


def duration_text(seconds: int) -> str:
    """Seconds as `30d`, `1h30m` or `0s`. `parse_duration` reads it."""
    if seconds and seconds % 86400 == 0:
        return f"{seconds // 86400}d"
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    return "".join(f"{n}{unit}" for n, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if n) or "0s"


def size_text(size: int) -> str:
    """Bytes as `64 MiB` where that is exact, else as `1,000 bytes`. `parse_size` reads the former."""
    for unit, scale in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size and size % scale == 0:
            return f"{size // scale:,} {unit}"
    return f"{size:,} bytes"
