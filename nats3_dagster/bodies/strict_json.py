"""JSON of requests: no key twice, no number that JSON does not have, and an error that names its place."""

import json
import math
from typing import Any, cast

# The position of an error that has none.
_NOWHERE = -1
# The most values within one another, and digits of a number. No body needs more.
DEEPEST, _MOST_DIGITS = 32, 100


def loads(body: bytes | str) -> Any:
    """The value of a body. It refuses two equal keys: it is not known which was meant. Raises JSONDecodeError, also for
    what UTF-8 cannot carry, numbers of thousands of digits, and values within more than DEEPEST others."""
    try:
        value = json.loads(
            body, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_float
        )
        _check(value)
    except RecursionError:
        raise json.JSONDecodeError("it is nested too deeply", "", _NOWHERE) from None
    except UnicodeDecodeError as error:
        raise json.JSONDecodeError(f"it is not UTF-8 ({error.reason})", "", _NOWHERE) from None
    return value


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


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise json.JSONDecodeError(f"a number has more than {_MOST_DIGITS} digits", "", _NOWHERE)
    return int(digits)


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise json.JSONDecodeError(f"{text[:40]} is too large a number", "", _NOWHERE)
    return number


def _check(value: Any) -> None:
    """Raises JSONDecodeError for texts with half of a character, and for values that are nested too deeply."""
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > DEEPEST:
            raise json.JSONDecodeError("it is nested too deeply", "", _NOWHERE)
        if isinstance(one, dict):
            waiting += ((inner, depth + 1) for pair in cast("dict[str, Any]", one).items() for inner in pair)
        elif isinstance(one, list):
            waiting += ((inner, depth + 1) for inner in cast("list[Any]", one))
        elif isinstance(one, str) and not one.isascii():
            try:
                one.encode()
            except UnicodeEncodeError:
                raise json.JSONDecodeError("a text has half of a character (a surrogate)", "", _NOWHERE) from None


def _constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no number of JSON", "", _NOWHERE)
