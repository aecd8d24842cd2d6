"""JSON of requests: no key twice, no number that JSON does not have, and an error that names its place."""

import json
from typing import Any

# The position of an error that has none.
_NOWHERE = -1


def loads(body: bytes | str) -> Any:
    """The value of a body. Of two equal keys it is not known which was meant. Raises JSONDecodeError,
    UnicodeDecodeError, RecursionError."""
    return json.loads(body, object_pairs_hook=_object, parse_constant=_constant)


def not_json(reason: str, text: str, position: object) -> str:
    """Says why a text is not JSON, with the line and column of the place where it is known."""
    if not isinstance(position, int) or position < 0:
        return f"not JSON: {reason}"
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"not JSON: {reason} (line {line}, column {column})"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise json.JSONDecodeError(f"the key {key[:200]!r} is there twice in one object", "", _NOWHERE)
        made[key] = value
    return made


def _constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no number of JSON", "", _NOWHERE)
