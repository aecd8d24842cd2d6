"""Values of a file of archives: each is what it must be, or an error that names its key."""

from typing import Any, cast

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.quantities import parse_duration, parse_size
from nats3_dagster.plausible import check, fault


def text(key: str, value: Any) -> str:
    return check(key, _text(key, value))


def address(key: str, value: Any) -> str:
    """A text that may be a URL."""
    return _text(key, value)


def _text(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise OperatorError(f"{key} is {written(value)}, and must be text", "Put it in quotes")


def filters(key: str, value: Any) -> tuple[str, ...]:
    listed = cast(list[Any], value) if isinstance(value, list) else [value]
    return tuple(_text(key, one) for one in listed)


def texts(key: str, value: Any) -> tuple[str, ...]:
    listed = cast(list[Any], value) if isinstance(value, list) else [value]
    return tuple(text(key, one) for one in listed)


def count(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise OperatorError(f"{key} is {written(value)}, and must be a whole number", "Write it like 1000")


def number(key: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise OperatorError(f"{key} is {written(value)}, and must be a number", "Write it like 1000 or 0.5")


def size(key: str, value: Any) -> int:
    return parse_size(text(key, value)) if isinstance(value, str) else count(key, value)


def duration(key: str, value: Any) -> int:
    return parse_duration(text(key, value)) if isinstance(value, str) else count(key, value)


def flag(key: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise OperatorError(f"{key} is {written(value)}", "Write true or false")


def written(value: Any) -> str:
    """Returns the value in the file, in words: a text only if it can be no secret."""
    if isinstance(value, str) and fault(value):
        return f"a text with {fault(value)}"
    return "a table" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
