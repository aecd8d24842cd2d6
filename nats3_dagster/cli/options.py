"""Options that several commands share, and how sizes and durations are written."""

from typing import Annotated

import typer

from nats3_dagster.cli.output import Format
from nats3_dagster.errors import OperatorError
from nats3_dagster.model.quantities import parse_duration as parse_duration
from nats3_dagster.model.quantities import parse_size as parse_size


def _format(context: typer.Context, value: Format) -> Format:
    """Without an option the format is that of the setting `output_format`. A setting that is wrong is refused by the
    command itself, which loads all of them."""
    source = context.get_parameter_source("output")
    if context.resilient_parsing or source is None or source.name != "DEFAULT":
        return value
    from nats3_dagster.settings.sources import find_values

    try:
        found = find_values().get("output_format")
        return Format(found.value) if found else value
    except (OperatorError, ValueError):
        return value


Output = Annotated[
    Format, typer.Option("--output", "-o", callback=_format, help="table for people, json or yaml for programs.")
]
ArchiveName = Annotated[str, typer.Argument(metavar="ARCHIVE", help="Name of the archive.")]
ChunkName = Annotated[str, typer.Argument(metavar="ID|KEY", help="Id or object key of the chunk.")]
Hours = Annotated[
    list[str] | None,
    typer.Option("--hour", metavar="YYYY-MM-DD-HH:00", help="An hour, in UTC. May be given several times."),
]
