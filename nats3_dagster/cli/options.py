"""Options that several commands share, and how sizes and durations are written."""

import re
from typing import Annotated

import typer
from pydantic import ByteSize, TypeAdapter, ValidationError

from nats3_dagster.cli.output import Format
from nats3_dagster.errors import OperatorError

Output = Annotated[Format, typer.Option("--output", "-o", help="table for people, json for programs.")]
ArchiveName = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Name of the archive.")]
ChunkName = Annotated[str, typer.Argument(metavar="ID|KEY", help="Id or object key of the chunk.")]
Hours = Annotated[
    list[str] | None,
    typer.Option("--hour", metavar="YYYY-MM-DD-HH:00", help="An hour, in UTC. May be given several times."),
]

_SIZE = TypeAdapter(ByteSize)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_size(text: str) -> int:
    """Bytes from `1000`, `64MiB`, `64 MB`, `1.5GiB`. Raises OperatorError."""
    try:
        return int(_SIZE.validate_python(text))
    except ValidationError:
        raise OperatorError(f"{text!r} is not a size", "Write it as 67108864, 64MiB or 64MB") from None


def parse_duration(text: str) -> int:
    """Seconds from `60`, `60s`, `5m`, `1h30m`, `2d`. Raises OperatorError."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    if not re.fullmatch(r"(?:\d+[smhd])+", text):
        raise OperatorError(f"{text!r} is not a duration", "Write it as 60s, 5m, 1h30m or 2d")
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([smhd])", text))
