"""Messages on stdout: as the `nats` command prints them, as documents, or the payload alone.

Invariant: payloads go out as they are, byte by byte.
"""

import json
import sys
from enum import StrEnum
from typing import Annotated

import typer

from nats3_dagster.cli.terminal.options import format_of
from nats3_dagster.cli.terminal.output import as_yaml
from nats3_dagster.model import Message
from nats3_dagster.views import messages as documents


class MessageFormat(StrEnum):
    """What `-o` takes of commands that print messages."""

    table = "table"
    json = "json"
    yaml = "yaml"
    raw = "raw"


Output = Annotated[
    MessageFormat,
    typer.Option(
        "--output", "-o", callback=format_of(MessageFormat),
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
