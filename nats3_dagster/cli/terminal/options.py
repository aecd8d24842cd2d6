"""Options that several commands share, and how sizes and durations are written."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

from nats3_dagster.cli.terminal import completing
from nats3_dagster.cli.terminal.output import Format
from nats3_dagster.errors import OperatorError
from nats3_dagster.hours import parse_time
from nats3_dagster.model import quantities
from nats3_dagster.plausible import fault

Formats = TypeVar("Formats", bound=StrEnum)
V = TypeVar("V")


class UsageFault(typer.TyperException):
    """A command line that the command itself refuses, as it is refused before: with the way to its help."""

    exit_code = 2

    def __init__(self, message: str, context: typer.Context) -> None:
        super().__init__(message)
        self.ctx = context


def parser(parse: Callable[[str], V]) -> Callable[[str], V]:
    """The `parser` of an option: what it refuses is named by the option. Nothing is repeated that is no such value, and
    may be a secret."""

    def read(text: str) -> V:
        if held := fault(text):
            raise typer.BadParameter(f"it holds {held}")
        try:
            return parse(text)
        except OperatorError as error:
            raise typer.BadParameter(str(error)) from None

    return read


def _time(text: str) -> str:
    """The text itself: a relative time counts from when it is used."""
    parse_time(text)
    return text


parse_size, parse_duration = parser(quantities.parse_size), parser(quantities.parse_duration)
parse_time_text = parser(_time)


def one_of(name: str | None, job_id: str | None, context: typer.Context, metavar: str) -> str:
    """The name, or the id in its place. Raises UsageFault unless one of them is given."""
    if name is not None and job_id is not None:
        raise UsageFault(f"{metavar} and --job-id exclude each other", context)
    chosen = name if name is not None else job_id
    if chosen is None:
        raise UsageFault(f"Missing argument '{metavar}'", context)
    return chosen


def format_of(kind: type[Formats]) -> Callable[[typer.Context, Formats], Formats]:
    """The callback of an option `-o` with these formats: without the option the format is that of the setting
    `output_format`, where it is one of them. A setting that is wrong is refused by the command itself, which loads all
    of them."""

    def format_(context: typer.Context, value: Formats) -> Formats:
        source = context.get_parameter_source("output")
        if context.resilient_parsing or source is None or source.name != "DEFAULT":
            return value
        from nats3_dagster.settings.sources import find_values

        try:
            found = find_values().get("output_format")
            return kind(found.value) if found else value
        except (OperatorError, ValueError):
            return value

    return format_


Output = Annotated[
    Format,
    typer.Option("--output", "-o", callback=format_of(Format), help="table for people, json or yaml for programs."),
]
ArchiveName = Annotated[
    str, typer.Argument(metavar="ARCHIVE", help="Name of the archive.", autocompletion=completing.archives)
]
ChunkName = Annotated[
    str, typer.Argument(metavar="ID|KEY", help="Id or object key of the chunk.", autocompletion=completing.chunks)
]
ArchiveOrNone = Annotated[
    str | None,
    typer.Argument(metavar="ARCHIVE", help="Name of the archive, or of its job.", autocompletion=completing.archives),
]
JobId = Annotated[str | None, typer.Option("--job-id", metavar="ID", help="In place of the name: the job's id.")]
Hours = Annotated[
    list[str] | None,
    typer.Option("--hour", metavar="YYYY-MM-DD-HH:00", help="An hour, in UTC. May be given several times."),
]
