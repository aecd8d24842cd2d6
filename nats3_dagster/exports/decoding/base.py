"""The parts of decoders: their interface, the decoder of single messages, and that of a JSON object."""

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.message import Message, Row, Undecodable, reason_of

_WHITE = " \t\r\n"


class Decoder(Protocol):
    """Decodes messages into rows of fields."""

    # The fields that its rows can have, in order, where a schema says them.
    columns: tuple[str, ...]

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        """For each message its rows, none for one that is dropped on purpose, or why it cannot be decoded."""
        ...


class EachDecoder:
    """Decodes message by message with a function that gives the fields, or raises."""

    def __init__(self, decode: Callable[[Message], dict[Any, Any]], columns: tuple[str, ...] = ()) -> None:
        self.columns = columns
        self._decode = decode

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        return [self._one(message) for message in messages]

    def _one(self, message: Message) -> list[Row] | Undecodable:
        try:
            return [Row(None, self._decode(message))]
        except Undecodable as error:
            return error
        except (ValueError, RecursionError, TypeError, OverflowError) as error:
            return Undecodable(reason_of(error))


def json_decode(*, exact: bool) -> Callable[[Message], dict[Any, Any]]:
    """The fields of a JSON object. `exact`: numbers with a fraction as decimals, by the digits of the payload."""
    decoder: Any = json.JSONDecoder(parse_float=Decimal if exact else None, parse_constant=_no_constant)
    # What `decode` calls between two regular expressions for the white space, which take as long as a small object.
    scan = decoder.scan_once

    def decode(message: Message) -> dict[Any, Any]:
        text = message.data.decode().strip(_WHITE)
        try:
            value, end = scan(text, 0)
        except StopIteration as stop:
            raise json.JSONDecodeError("Expecting value", text, stop.value) from None
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if not isinstance(value, dict):
            raise Undecodable(f"The JSON is no object: {type(value).__name__}")
        return value

    return decode


def _no_constant(name: str) -> NoReturn:
    raise Undecodable(f"{name} is not JSON")


def missing_library(library: str) -> OperatorError:
    """The error where a library of the extra `exports` is missing."""
    return OperatorError(
        f"The decoder needs {library}, which is not installed", "pip install 'nats3-dagster[exports]'", field="decode"
    )
