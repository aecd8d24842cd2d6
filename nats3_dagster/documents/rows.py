"""Rows of a query: values of Python as JSON and text have them."""

import base64
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from nats3_dagster.exports.decoding.json_text import value_or_text

_PRINTABLE = {*range(0x20, 0x7F)} - {0x5C}


def documents(columns: Sequence[str], types: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """An object for each row. Bytes are in base64, times in RFC 3339, decimals are text, which keeps their digits. JSON
    is what it says, or its text where readers of JSON would not agree on it: one message may not end the rows of
    others. Columns with the same name get a number after it from the second one on."""
    names = unique(columns)
    for row in rows:
        yield {name: _parsed(value, kind) for name, kind, value in zip(names, types, row, strict=True)}


def unique(columns: Sequence[str]) -> list[str]:
    names = list[str]()
    for column in columns:
        name, number = column, 1
        while name in names:
            name, number = f"{column}_{number}", number + 1
        names.append(name)
    return names


def text(value: Any) -> str:
    """A value in a table or in CSV: bytes as text, what is not printable ASCII as `\\xNN`; null is empty."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float():
            return str(value)
        case bytes():
            return "".join(chr(byte) if byte in _PRINTABLE else f"\\x{byte:02X}" for byte in value)
        case list() | tuple() | dict():
            return json.dumps(plain(value))
        case _:
            return str(plain(value))


def plain(value: Any) -> Any:
    """A value of JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return format(value, "f")
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return _moment(value)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case list() | tuple():
            return [plain(one) for one in value]
        case Mapping():
            return {str(plain(name)): plain(one) for name, one in value.items()}
        case _:
            return str(value)


def _parsed(value: Any, kind: str) -> Any:
    return value_or_text(value) if kind == "JSON" and isinstance(value, str) else plain(value)


def _moment(moment: datetime) -> str:
    """Returns the time to the microsecond; with `Z` if the type has a zone."""
    if moment.tzinfo is None:
        return moment.isoformat(timespec="microseconds")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
