"""Rows that every format can write: names are text, text is Unicode, and nesting and numbers have bounds.

Invariant: a row that passes makes no file that an engine refuses whole. DuckDB reads 128 levels of JSON and no lone
surrogate, Polars no number beyond every double.
"""

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any
from uuid import UUID

from nats3_dagster.exports.decoding.message import Undecodable

# Levels of objects and lists that a row has at most, itself included.
MAX_DEPTH = 100
# A whole number of fewer digits is below the largest double.
SAFE_DIGITS = 308
_MAX_BITS = 1024
_NAMES = (str, int, float, bool, NoneType)
_LISTS = (list, tuple, set, frozenset)
_PLAIN = (str, int, float, NoneType, bytes, bytearray, memoryview, datetime, date, time, timedelta, Decimal, UUID)
NOT_UNICODE = "The row has text that is not Unicode"
TOO_DEEP = f"The row is nested deeper than {MAX_DEPTH} levels"


def writable(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """The row with names that are text at every depth. Raises Undecodable for one that no format may write."""
    return _object(fields, MAX_DEPTH)


def too_large(number: Any) -> Undecodable:
    """The reason for a number beyond every double: itself, or its text."""
    text = str(number)
    return Undecodable(f"The row has a number beyond every double: {text if len(text) < 40 else text[:40] + '...'}")


def _object(fields: Mapping[Any, Any], levels: int) -> dict[str, Any]:
    if not levels:
        raise Undecodable(TOO_DEEP)
    row: dict[str, Any] = {}
    for name, value in fields.items():
        text = _name(name)
        if text in row:
            raise Undecodable(f"The row has two fields of the name {text[:100]!r}")
        row[text] = _value(value, levels - 1)
    return row


def _name(name: Any) -> str:
    if isinstance(name, bytes):
        return base64.b64encode(name).decode()
    if not isinstance(name, _NAMES):
        raise Undecodable(f"A name of the type {type(name).__name__} cannot be that of a field")
    text = name if type(name) is str else str(name)
    _check_text(text)
    return text


def _value(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, Mapping):
        return _object(value, levels)
    elif isinstance(value, _LISTS):
        if not levels:
            raise Undecodable(TOO_DEEP)
        return [_value(each, levels - 1) for each in value]
    elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise Undecodable(f"The row has a number beyond every double, of {value.bit_length()} bits")
    elif isinstance(value, Decimal) and value.is_finite() and math.isinf(float(value)):
        raise too_large(value)
    elif not isinstance(value, _PLAIN):
        raise Undecodable(f"A value of the type {type(value).__name__} cannot be written")
    return value


def _check_text(text: str) -> None:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise Undecodable(NOT_UNICODE) from None
