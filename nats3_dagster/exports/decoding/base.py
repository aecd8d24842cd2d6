"""The parts of decoders: their interface, and the decoder of single messages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.column import Column
from nats3_dagster.exports.decoding.message import Message, Row, Undecodable, reason_of
from nats3_dagster.exports.decoding.writable import TOO_DEEP

NOT_UTF8 = "The payload is not UTF-8"


class Decoder(Protocol):
    """Decodes messages into rows of fields."""

    # The fields that its rows can have, in order, where a schema says them.
    columns: tuple[str, ...]
    # The types of fields that a schema says, so that files of all hours have them alike.
    types: Mapping[str, Column]

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        """Returns the rows of each message, none for one that is dropped on purpose, or the reason why it cannot be
        decoded."""
        ...


class EachDecoder:
    """Decodes message by message with a function that gives the fields, or raises."""

    def __init__(
        self,
        decode: Callable[[Message], dict[Any, Any]],
        columns: tuple[str, ...] = (),
        types: Mapping[str, Column] | None = None,
    ) -> None:
        self.columns = columns
        self.types = types or {}
        self._decode = decode

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        return [self._one(message) for message in messages]

    def _one(self, message: Message) -> list[Row] | Undecodable:
        try:
            return [Row(None, self._decode(message))]
        except Undecodable as error:
            return error
        except UnicodeDecodeError:
            return Undecodable(NOT_UTF8)
        except RecursionError:
            return Undecodable(TOO_DEEP)
        except (ValueError, TypeError, ArithmeticError) as error:
            return Undecodable(reason_of(error))


def missing_library(library: str) -> OperatorError:
    """The error where a library of the extra `exports` is missing."""
    return OperatorError(
        f"The decoder needs {library}, which is not installed", "pip install 'nats3-dagster[exports]'", field="decode"
    )
