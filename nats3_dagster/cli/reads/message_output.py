"""Messages on stdout: as the `nats` command prints them, as documents, or the payload alone.

Invariant: payloads go out as they are, byte by byte.
"""

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from nats3_dagster.cli.terminal.output import as_yaml
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Message
from nats3_dagster.views import messages as documents


class MessageFormat(StrEnum):
    """What `-o` takes of commands that print messages."""

    table = "table"
    json = "json"
    yaml = "yaml"
    raw = "raw"


def _format(context: typer.Context, value: MessageFormat) -> MessageFormat:
    """Without an option the format is that of the setting `output_format`."""
    source = context.get_parameter_source("output")
    if context.resilient_parsing or source is None or source.name != "DEFAULT":
        return value
    from nats3_dagster.settings.sources import find_values

    try:
        found = find_values().get("output_format")
    except OperatorError:  # the command itself says what is wrong
        return value
    return MessageFormat(found.value) if found and found.value in list(MessageFormat) else value


Output = Annotated[
    MessageFormat,
    typer.Option(
        "--output", "-o", callback=_format,
        help="table as the nats command prints it; json or yaml, headers and data in base64; raw the payload alone.",
    ),
]
Text = Annotated[bool, typer.Option("--text", help="In json and yaml: headers and data as text where they are UTF-8.")]


def write(output: MessageFormat, message: Message, text: bool, *, many: bool = False) -> None:
    """One message. `many`: it is one of several, a line of JSON or a document of YAML each."""
    sys.stdout.flush()
    sys.stdout.buffer.write(rendered(output, message, text, many=many))
    sys.stdout.buffer.flush()


def rendered(output: MessageFormat, message: Message, text: bool, *, many: bool = False) -> bytes:
    """What `write` writes."""
    match output:
        case MessageFormat.raw:
            return message.data
        case MessageFormat.table:
            return documents.as_nats_prints(message)
        case MessageFormat.json:
            document = documents.message(message, text=text)
            return json.dumps(document, indent=None if many else 2).encode() + b"\n"
        case MessageFormat.yaml:
            return b"---\n" * many + as_yaml(documents.message(message, text=text)).encode()
