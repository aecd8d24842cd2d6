"""The user's own decoder: a function package.module:function of (subject, headers, data).

It returns a dict, a list of dicts, (key, dict), a list of those, or None for a message to drop. What it raises, and a
value of another type, is the reason why a message is not decoded; one that does not come back fails the run.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from types import MappingProxyType
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.exports.decoding.column import Column
from nats3_dagster.exports.decoding.message import Message, Row, Undecodable, reason_of
from nats3_dagster.exports.decoding.writable import writable

# How long a decoder may take for one message.
LIMIT_S = 30.0
Function = Callable[[str, dict[str, str], bytes], Any]


class OwnDecoder:
    """Calls the function in a thread of its own, so that one that hangs is noticed. Raises OperatorError."""

    columns: tuple[str, ...] = ()
    types: Mapping[str, Column] = MappingProxyType({})

    def __init__(self, name: str) -> None:
        self._name = name
        self._function = function_of(name)
        self._limit_s = LIMIT_S

    def rows(self, messages: Sequence[Message]) -> list[list[Row] | Undecodable]:
        answers: SimpleQueue[list[Row] | Undecodable] = SimpleQueue()
        worker = Thread(target=self._work, args=(messages, answers), daemon=True, name="decoder")
        worker.start()
        results: list[list[Row] | Undecodable] = []
        for message in messages:
            try:
                results.append(answers.get(timeout=self._limit_s))
            except Empty:
                raise OperatorError(
                    f"The decoder {self._name} took more than {self._limit_s:g} s for message {message.seq}",
                    "Make it faster, or let it give up in time",
                    field="decode",
                ) from None
        return results

    def _work(self, messages: Sequence[Message], answers: "SimpleQueue[list[Row] | Undecodable]") -> None:
        for message in messages:
            answers.put(self._one(message))

    def _one(self, message: Message) -> list[Row] | Undecodable:
        try:
            return _rows(self._function(message.subject, message.header_fields(), message.data))
        except Undecodable as error:
            return error
        except BaseException as error:  # whatever the user's function raises, the end of the process too
            return Undecodable(reason_of(error))


def function_of(name: str) -> Function:
    """The function `package.module:function`. Raises OperatorError."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a module of the user's runs when it is imported, and may raise anything
        raise OperatorError(
            f"The decoder {name} cannot be imported: {reason_of(error)}",
            "Install its package where Dagster and Spark's workers run",
            field="decode",
        ) from None
    if not callable(function):
        raise OperatorError(f"The decoder {name} is not a function", "Name a function", field="decode")
    return function


def _rows(value: Any) -> list[Row]:
    if value is None:
        return []
    return [_row(each) for each in value] if isinstance(value, list) else [_row(value)]


def _row(value: Any) -> Row:
    if isinstance(value, dict):
        return Row(None, writable(value))
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], dict):
        return Row(value[0], writable(value[1]))
    kind = type(value).__name__
    raise Undecodable(f"The decoder returned a {kind}: neither dict, list of dicts, (key, dict) nor None")
