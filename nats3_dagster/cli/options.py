"""Options that several commands share, and how sizes and durations are written."""

from typing import Annotated

import typer
from pydantic import ByteSize, TypeAdapter, ValidationError

from nats3_dagster.cli.output import Format
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_duration as parse_duration

Output = Annotated[Format, typer.Option("--output", "-o", help="table for people, json for programs.")]
ArchiveName = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Name of the archive.")]
ChunkName = Annotated[str, typer.Argument(metavar="ID|KEY", help="Id or object key of the chunk.")]
Hours = Annotated[
    list[str] | None,
    typer.Option("--hour", metavar="YYYY-MM-DD-HH:00", help="An hour, in UTC. May be given several times."),
]

_SIZE = TypeAdapter(ByteSize)


def parse_size(text: str) -> int:
    """Bytes from `1000`, `64MiB`, `64 MB`, `1.5GiB`. Raises OperatorError."""
    try:
        return int(_SIZE.validate_python(text))
    except ValidationError:
        raise OperatorError(f"{text!r} is not a size", "Write it as 67108864, 64MiB or 64MB") from None
