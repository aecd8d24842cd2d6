"""Values as text: what decoders return, as JSON and as the fields of CSV."""

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from nats3_dagster.exports.message import Undecodable


def plain(value: Any) -> Any:
    """What JSON has no type for, as text. Raises Undecodable."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID | timedelta):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    raise Undecodable(f"A value of the type {type(value).__name__} cannot be written as JSON")


def to_json(value: Any) -> str:
    """One line of JSON, keys in their order. Raises Undecodable for what JSON cannot say, NaN among it."""
    try:
        return json.dumps(value, default=plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Undecodable(f"The row cannot be written as JSON: {error}") from None


def to_exact_json(value: Any) -> str:
    """As `to_json`, with decimals as the numbers that they were in a payload."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{to_json(str(k))}:{to_exact_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(to_exact_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else to_json(value)


def to_field(value: Any) -> Any:
    """A field of CSV: null is empty, what has parts is JSON, and the rest as it is written in JSON without quotes."""
    if value is None or isinstance(value, str | Decimal):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value
    if isinstance(value, dict | list | tuple):
        return to_exact_json(value)
    text = to_json(value)
    return json.loads(text) if text.startswith('"') else text
