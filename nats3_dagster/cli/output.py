"""Results on stdout: a table for people, or exactly one JSON value for programs.

Invariant: names in a table may come from strangers (subjects, keys), so nothing in them moves the cursor or is read as
markup.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import ByteSize
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nats3_dagster.cli.progress import printable
from nats3_dagster.hours import SECOND_NS, format_time, parse_time

Item = Mapping[str, Any]
Columns = Mapping[str, Callable[[Any], object]]
# Bytes: a number in JSON, `1.5 MiB` in a table.
Size = ByteSize


class Format(StrEnum):
    """What `-o` takes."""

    table = "table"
    json = "json"


class Moment(int):
    """Nanoseconds since 1970: whole seconds are enough in a table."""


def show(output: Format, items: Sequence[Any], columns: Columns) -> None:
    """A list of things. `columns` says what a table has of each, by title."""
    if output is Format.json:
        _print_json(list(items))
        return
    cells = [[value(item) for value in columns.values()] for item in items]
    numeric = [all(isinstance(row[at], int | float | None) for row in cells) for at in range(len(columns))]
    _print_table(list(columns), cells, numeric)


def show_one(output: Format, item: Item, lines: Mapping[str, object]) -> None:
    """One thing. `lines` says what a table has of it."""
    if output is Format.json:
        _print_json(item)
        return
    _print_table([], [[title, value] for title, value in lines.items() if value is not None], [False, False])


def time_of(time_ns: int | None) -> str | None:
    """A time as JSON has it: RFC 3339 with nanoseconds."""
    return None if time_ns is None else format_time(time_ns)


def stamp_of(moment: datetime | None) -> str | None:
    """A time from Postgres as JSON has it."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def when(text: str | None) -> Moment | None:
    """A time of JSON as a table has it."""
    return None if text is None else Moment(parse_time(text))


def ratio(payload_bytes: int, stored_bytes: int) -> float | None:
    """How many times smaller the messages are in the store; None if nothing is stored."""
    return round(payload_bytes / stored_bytes, 2) if stored_bytes else None


def text_of(value: object) -> str:
    """A table's cell."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Size():
            return value.human_readable(separator=" ")
        case Moment():
            return f"{datetime.fromtimestamp(value // SECOND_NS, UTC):%Y-%m-%d %H:%M:%S}"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
        case list() | tuple():
            return ", ".join(map(text_of, value)) or "-"
        case _:
            return printable(str(value))


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))


def _print_table(titles: Sequence[str], rows: Sequence[Sequence[object]], numeric: Sequence[bool]) -> None:
    # A pipe has no width: the default would cut a key in half.
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False)
    table = Table(box=None, show_header=bool(titles), header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for at, is_number in enumerate(numeric):
        table.add_column(titles[at] if titles else "", justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text_of(cell)) for cell in row))
    if sys.stdout.isatty():
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip())
