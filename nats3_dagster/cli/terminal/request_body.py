"""The input of a create command: the fields that its options give, a document, or both from answers on a terminal."""

import sys
from collections.abc import Mapping
from enum import StrEnum
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel

from nats3_dagster.bodies.base import validated
from nats3_dagster.bodies.strict_json import loads, not_json
from nats3_dagster.cli.terminal.options import UsageFault
from nats3_dagster.errors import OperatorError

B = TypeVar("B", bound=BaseModel)
FromJson = Annotated[
    str | None,
    typer.Option("--from-json", metavar="FILE", help="The body that the HTTP API takes, from a file; - for stdin."),
]


class Codec(StrEnum):
    """The codecs of nats-s3-connector."""

    json = "json"
    binary = "binary"


def body_of(
    model: type[B], context: typer.Context, from_json: str | None, given: Mapping[str, Any], required: Mapping[str, str]
) -> B:
    """The body that the options give, or the document. `given`: values by field, None where there is none; `required`:
    options by field. Raises OperatorError for a document that is not valid; options are checked by `spec()`."""
    fields = {name: value for name, value in given.items() if value is not None}
    if from_json is None:
        for name, option in required.items():
            if name not in fields:
                raise UsageFault(f"Missing option '{option}'", context)
        return model.model_construct(**fields)
    if fields:
        raise OperatorError(
            f"--from-json and fields as options exclude each other: {', '.join(fields)}", "Write all into the document"
        )
    name, text = read_document(from_json)
    try:
        document = loads(text)
    except JSONDecodeError as error:
        reason = not_json(error.msg, text, error.pos)
        raise OperatorError(f"{name} is {reason}", "Give the body that POST of the HTTP API takes") from None
    return validated(model, document, name)


def once(first: Any, second: Any, options: str) -> Any:
    """The value of two options that mean the same. Raises OperatorError when both are given."""
    if first is not None and second is not None:
        raise OperatorError(f"{options} are the same", "Give one of them")
    return first if first is not None else second


def read_document(file: str) -> tuple[str, str]:
    """Returns the name of the file in errors, or - for standard input, and its text. Raises OperatorError."""
    try:
        return ("stdin", sys.stdin.read()) if file == "-" else (file, Path(file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no text in UTF-8"
        raise OperatorError(f"{file} cannot be read: {reason}", "Give a file, or - for standard input") from None
