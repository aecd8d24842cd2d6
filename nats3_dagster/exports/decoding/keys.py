"""Keys: what the files of an export are split by, and how a key becomes a part of a path.

Invariant: two keys never have one path, and no key leads out of the destination.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from nats3_dagster.exports.decoding.message import Message, Row, Undecodable
from nats3_dagster.path_part import path_part

# Where files are not split.
ALL = "all"

KeyOf = Callable[[Message, Row], str]


def escaped(key: str) -> str:
    """The key as one part of a path. Raises Undecodable."""
    if not key:
        raise Undecodable("The key is empty")
    return path_part(key)


def tokens_of(key: str) -> Callable[[str], str]:
    """Returns a function for the tokens of a subject that `subject:2` or `subject:1,3` names, joined by dots; it raises
    Undecodable."""
    places = [int(number) for number in key.partition(":")[2].split(",")]

    @lru_cache(10_000)
    def of(subject: str) -> str:
        tokens = subject.split(".")
        if places and max(places) > len(tokens):
            raise Undecodable(f"The subject has no token {max(places)}")
        return ".".join(tokens[place - 1] for place in places)

    return of


def key_of(key: str | None) -> KeyOf:
    """Returns a function for the key of a row; it raises Undecodable."""
    kind, _, name = (key or "").partition(":")
    if key is None:
        return lambda message, row: ALL
    if kind == "subject":
        of = tokens_of(key)
        return lambda message, row: of(message.exact_subject)
    if kind == "header":
        header, _, default = name.partition(":")
        return lambda message, row: _header(message, header, default)
    if kind == "field":
        path = name.split(".")
        return lambda message, row: _field(row.fields, path)
    return lambda message, row: _own(row)


def _header(message: Message, name: str, default: str) -> str:
    """The header's value, with a lone surrogate for each byte that is not UTF-8: two values are two keys. The default
    where the message does not have it, or has it empty."""
    value = message.header_fields("surrogateescape").get(name) or default
    if not value:
        raise Undecodable(f"The message has no header {name}, and the key no default: header:{name}:DEFAULT")
    return value


def _field(fields: Any, path: Sequence[str]) -> str:
    value = fields
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    raise Undecodable(f"The field {'.'.join(path)} is missing or has no key in it")


def _own(row: Row) -> str:
    if row.key is None:
        raise Undecodable("The decoder gave no key")
    return row.key
