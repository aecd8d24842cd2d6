"""Values as text: what decoders return, as JSON and as the fields of CSV."""

import base64
import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from nats3_dagster.exports.decoding.message import Undecodable


def plain(value: Any) -> Any:
    """Converts types that JSON does not have to text. Raises Undecodable."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise Undecodable(f"A value of the type {type(value).__name__} cannot be written as JSON")


# Made once: json.dumps makes an encoder at each call, which takes longer than most values.
_encode = json.JSONEncoder(default=plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
# Rows that a file keeps as Python objects before they become Arrow's.
PENDING_ROWS = 20_000
# Names of a row in a file that has a column for each: one row with a million would cost every other row its commas.
MAX_COLUMNS = 10_000
# What the writer of CSV writes as JSON would, without quotes.
AS_THEY_ARE = frozenset((str, int, NoneType, Decimal))


def to_json(value: Any) -> str:
    """One line of JSON, keys in their order. Raises Undecodable for what JSON cannot say, NaN among it."""
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_json(error) from None


def _no_json(error: Exception) -> Undecodable:
    if str(error).startswith("Out of range float"):
        return Undecodable("The row has NaN or an infinity, which JSON has not")
    return Undecodable(f"The row cannot be written as JSON: {error}")


def _no_decimal(value: Any) -> Any:
    if isinstance(value, Decimal):
        raise _DecimalInside
    return plain(value)


class _DecimalInside(Exception):
    """The value needs `_exact`."""


_encode_no_decimal = json.JSONEncoder(
    default=_no_decimal, ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode


def to_exact_json(value: Any) -> str:
    """Returns the text of `to_json`, with decimals as the numbers that they were in a payload."""
    try:
        return _encode_no_decimal(value)
    except _DecimalInside:
        return _exact(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_json(error) from None


def to_text(value: Any) -> str:
    """A value in a column of text: as JSON without quotes. NaN and the infinities, which JSON has
    not, are the texts NaN, Infinity and -Infinity."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return _ODD_FLOATS[str(value)]
    try:
        text = to_exact_json(value)
    except Undecodable:
        text = _exact(value)
    return json.loads(text) if text.startswith('"') else text


_ODD_FLOATS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _exact(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{to_json(str(k))}:{_exact(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_exact, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return to_json(_ODD_FLOATS[str(value)])
    return str(value) if isinstance(value, Decimal) else to_json(value)


def check_columns(fields: Mapping[str, Any]) -> None:
    """Raises Undecodable for a row of too many columns."""
    if len(fields) > MAX_COLUMNS:
        raise Undecodable(f"The row has {len(fields):,} fields, and a file at most {MAX_COLUMNS:,} columns for a row")


def to_field(value: Any) -> Any:
    """A field of CSV: null is empty, what has parts is JSON, and the rest as it is written in JSON without quotes."""
    if type(value) in AS_THEY_ARE:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list | tuple):
        return to_exact_json(value)
    text = to_json(value)
    return json.loads(text) if text.startswith('"') else text
