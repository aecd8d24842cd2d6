"""Messages on stdout: as the `nats` command prints them, as documents, or the payload alone.

Invariant: `raw` gives a file or a program the payload as it is, byte by byte. Nothing that came from a message moves
the cursor of a terminal, in any format.
"""

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from nats3_dagster.cli.terminal.options import format_of
from nats3_dagster.cli.terminal.output import as_yaml
from nats3_dagster.documents.messages import Message as MessageDocument
from nats3_dagster.documents.messages import as_nats_prints, spelled_out, with_text
from nats3_dagster.model import Message


class MessageFormat(StrEnum):
    """The values of `-o` for commands that print messages."""

    table = "table"
    json = "json"
    yaml = "yaml"
    raw = "raw"


Output = Annotated[
    MessageFormat,
    typer.Option(
        "--output",
        "-o",
        callback=format_of(MessageFormat),
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
    """Returns the bytes that `write` writes."""
    match output:
        case MessageFormat.raw:
            return spelled_out(message.data, keep="\n\t") if sys.stdout.isatty() else message.data
        case MessageFormat.table:
            return as_nats_prints(message)
        case MessageFormat.json:
            return json.dumps(_document(message, text), indent=None if many else 2).encode() + b"\n"
        case MessageFormat.yaml:
            return b"---\n" * many + as_yaml(_document(message, text)).encode()


def _document(message: Message, text: bool) -> dict[str, Any]:
    return with_text(message) if text else MessageDocument.of(message).plain()
