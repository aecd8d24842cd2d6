"""A JSON payload as an object: by the letter of JSON, and within what engines read.

Invariant: the text is judged, not the object. The object would have the last value of a repeated name alone, and a line
of NDJSON has each value.
"""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn

from nats3_dagster.exports.decoding.message import Message, Undecodable
from nats3_dagster.exports.decoding.writable import MAX_DEPTH, NOT_UNICODE, SAFE_DIGITS, TOO_DEEP, too_large

_WHITE = " \t\r\n"
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def json_decode(*, exact: bool, repeated: bool = False) -> Callable[[Message], dict[Any, Any]]:
    """The fields of a JSON object. `exact`: numbers with a fraction as decimals, by the digits of the payload.
    `repeated`: an object may have a name twice, and has the last value."""
    read = _reader(exact=exact, repeated=repeated)

    def decode(message: Message) -> dict[Any, Any]:
        value = read(message.data.decode())
        if not isinstance(value, dict):
            raise Undecodable(f"The JSON is no object: {type(value).__name__}")
        return value

    return decode


def value_or_text(text: str) -> Any:
    """The JSON value that the text states, or the text where readers of JSON would not agree on it."""
    try:
        return _read(text)
    except (Undecodable, ValueError, RecursionError):
        return text


def _reader(*, exact: bool, repeated: bool = False) -> Callable[[str], Any]:
    """A function that gives the value of a JSON text. It raises Undecodable; RecursionError at some thousand levels;
    and ValueError for an integer of more digits than Python reads."""
    read_any = _scanner(exact, None)
    if repeated:
        return read_any
    read_once = _scanner(exact, _once)

    def read(text: str) -> Any:
        try:
            return read_once(text)
        except _Repeated as error:
            read_any(text)  # any other reason is told first
            raise Undecodable(f"The JSON has a name twice in one object: {error.name[:100]!r}") from None

    return read


def _scanner(exact: bool, to_object: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None) -> Callable[[str], Any]:
    """`to_object`: makes an object of its names and values. What it raises comes through."""
    numbers: Any = {"parse_float": _decimal if exact else _float, "parse_constant": _no_constant}
    decoder: Any = json.JSONDecoder(object_pairs_hook=to_object, **numbers)
    long_decoder: Any = json.JSONDecoder(object_pairs_hook=to_object, parse_int=_whole, **numbers)
    # What `decode` calls between two regular expressions for the white space, which take as long as a small object.
    scan, scan_long = decoder.scan_once, long_decoder.scan_once

    def read(text: str) -> Any:
        text = text.strip(_WHITE)
        try:
            value, end = (scan if len(text) < SAFE_DIGITS else scan_long)(text, 0)
        except StopIteration as stop:
            raise _malformed(json.JSONDecodeError("Expecting value", text, stop.value)) from None
        except json.JSONDecodeError as error:
            raise _malformed(error) from None
        if end != len(text):
            raise _malformed(json.JSONDecodeError("Extra data", text, end))
        if "\\u" in text:
            _check_surrogates(text)
        if len(text) > 2 * MAX_DEPTH and text.count("{") + text.count("[") > MAX_DEPTH:
            _check_depth(text)
        return value

    return read


class _Repeated(Exception):
    """An object has a name twice."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values. Raises _Repeated."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        seen = set[str]()
        raise _Repeated(next(name for name, _ in pairs if name in seen or seen.add(name)))
    return fields


def _malformed(error: json.JSONDecodeError) -> Undecodable:
    return Undecodable(f"The JSON is malformed: {error.msg} at character {error.pos}")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise too_large(text)
    return value


def _decimal(text: str) -> Decimal:
    if math.isinf(float(text)):
        raise too_large(text)
    try:
        return Decimal(text)
    except ArithmeticError:
        raise Undecodable(f"The row has a number too near to zero: {text[:40]}") from None


def _whole(text: str) -> int:
    if len(text) > SAFE_DIGITS and math.isinf(float(text)):
        raise too_large(text)
    return int(text)


def _no_constant(name: str) -> NoReturn:
    raise Undecodable(f"{name} is not JSON")


def _check_surrogates(text: str) -> None:
    """Raises Undecodable for half of a surrogate pair, in valid JSON."""
    end = -1  # where the second half of a pair has to begin
    for escape in _ESCAPE.finditer(text):
        code = int(escape[1], 16) if escape[1] else 0
        is_second = 0xDC00 <= code <= 0xDFFF
        if is_second != (end == escape.start()) or (end >= 0 and not is_second):
            raise Undecodable(NOT_UNICODE)
        end = escape.end() if 0xD800 <= code <= 0xDBFF else -1
    if end >= 0:
        raise Undecodable(NOT_UNICODE)


def _check_depth(text: str) -> None:
    """Raises Undecodable for valid JSON of more levels than MAX_DEPTH."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            raise Undecodable(TOO_DEEP)


_read = _reader(exact=False)
