"""Options that several commands share, and how sizes and durations are written."""

from typing import Annotated

import typer

from nats3_dagster.cli.output import Format
from nats3_dagster.model.quantities import parse_duration as parse_duration
from nats3_dagster.model.quantities import parse_size as parse_size

Output = Annotated[Format, typer.Option("--output", "-o", help="table for people, json for programs.")]
ArchiveName = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Name of the archive.")]
ChunkName = Annotated[str, typer.Argument(metavar="ID|KEY", help="Id or object key of the chunk.")]
Hours = Annotated[
    list[str] | None,
    typer.Option("--hour", metavar="YYYY-MM-DD-HH:00", help="An hour, in UTC. May be given several times."),
]
