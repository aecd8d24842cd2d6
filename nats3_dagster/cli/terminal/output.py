"""Results on stdout: a table for people, or exactly one JSON value or YAML document for programs.

Invariant: names in a table may come from strangers (subjects, keys), so nothing in them moves the cursor or is read as
markup.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import zip_longest
from typing import Any

from pydantic import ByteSize
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from nats3_dagster.cli.global_options import Format as Format
from nats3_dagster.cli.terminal.progress import note, printable, printable_lines
from nats3_dagster.cli.terminal.wrapping import wrapped
from nats3_dagster.hours import SECOND_NS, parse_time

Item = Mapping[str, Any]
# What a table has of an item, by title, the most important first: a narrow terminal leaves out the last ones.
Columns = Mapping[str, Callable[[Any], object]]
# Bytes: a number in JSON, `1.5 MiB` in a table.
Size = ByteSize
# Terminal columns between two of a table, and the least that prose is wrapped to.
BETWEEN, PROSE_LEAST = 2, 24
# Numbers of YAML 1.2.
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")


class Moment(int):
    """Nanoseconds since 1970: whole seconds are enough in a table."""


class Prose(str):
    """Words: they may be wrapped at white space. Every other value of a table stays on one line."""

    __slots__ = ()


def show(output: Format, items: Sequence[Any], columns: Columns) -> None:
    """A list of things. A terminal that is too narrow for all columns gets the first ones, and a line on stderr that
    names the others."""
    if output is not Format.table:
        print_document(output, list(items))
        return
    rows = [[value(item) for value in columns.values()] for item in items]
    cells = [[*map(printable, columns)], *([text_of(value) for value in row] for row in rows)]
    numeric = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    prose = [any(isinstance(row[at], Prose) for row in rows) for at in range(len(columns))]
    shown = _shown(cells, prose)
    _print_table([row[:shown] for row in cells], numeric, prose, has_titles=True)
    if left_out := list(columns)[shown:]:
        for line in wrapped(f"Not shown in {_width()} columns: {', '.join(left_out)}. All is in -o json", _width()):
            note(line)


def show_one(output: Format, item: Item, lines: Mapping[str, object]) -> None:
    """One thing. `lines` says what a table has of it; values are wrapped at white space, titles never."""
    if output is not Format.table:
        print_document(output, item)
        return
    cells = [[printable(title), text_of(value)] for title, value in lines.items() if value is not None]
    _print_table(cells, [False, False], [False, True], has_titles=False)


def when(text: str | None) -> Moment | None:
    """A time of JSON as a table has it."""
    return None if text is None else Moment(parse_time(text))


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


def counted(count: int, noun: str) -> str:
    """`1 chunk`, `2,000 chunks`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def print_text(text: str) -> None:
    """Lines that a program may read. On a terminal nothing in them moves the cursor."""
    print(printable_lines(text) if sys.stdout.isatty() else text.rstrip("\n"))


def print_document(output: Format, value: object, *, one_line: bool = False) -> None:
    """A document in JSON or YAML; `one_line` is for JSON alone."""
    if output is Format.yaml:
        print(as_yaml(value), end="")
        return
    print(json.dumps(value, indent=None if one_line else 2))


def as_yaml(value: object) -> str:
    """A document of YAML that readers of YAML 1.1 and of 1.2 take for the same."""
    import yaml

    # What JSON makes of it: YAML knows no numbers and texts with classes of their own. ASCII, as JSON is.
    return yaml.dump(json.loads(json.dumps(value)), Dumper=_dumper(), sort_keys=False, width=1_000_000)


@cache
def _dumper() -> Any:
    """PyYAML's, which is of YAML 1.1, with the numbers of 1.2: a text that looks like one gets quotes."""
    import yaml

    base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    dumper: Any = type("_Dumper", (base,), {})
    for kind, form, begins in (("float", _FLOAT, "-+.0123456789"), ("int", _OCTAL, "0")):
        dumper.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", form, list(begins))
    return dumper


def _width() -> int:
    """Columns of the terminal; a pipe has no width, and gets every line whole."""
    return Console().width if sys.stdout.isatty() else 1_000_000


def _shown(cells: Sequence[Sequence[str]], prose: Sequence[bool]) -> int:
    """Returns the number of columns that fit, the first one always. Prose counts with the least that it may get."""
    needed = [min(width, PROSE_LEAST) if prose[at] else width for at, width in enumerate(_widths(cells))]
    room = _width()
    for count in range(len(needed), 1, -1):
        if sum(needed[:count]) + BETWEEN * (count - 1) <= room:
            return count
    return 1


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*cells, strict=True)]


def _print_table(
    cells: Sequence[Sequence[str]], numeric: Sequence[bool], prose: Sequence[bool], *, has_titles: bool
) -> None:
    """A value that is wider than the terminal is not cut: the terminal folds it, and it is copied whole."""
    console = Console(highlight=False)
    widths = _widths(cells)
    over = sum(widths) + BETWEEN * (len(widths) - 1) - _width()
    for at, width in enumerate(widths):
        if prose[at] and over > 0:
            widths[at] = max(width - over, min(width, PROSE_LEAST))
            over -= width - widths[at]
    for number, row in enumerate(cells):
        folded = [wrapped(cell, widths[at]) if prose[at] else [cell] for at, cell in enumerate(row)]
        for texts in zip_longest(*folded, fillvalue=""):
            padded = [_padded(text, widths[at], right=numeric[at]) for at, text in enumerate(texts)]
            line = (" " * BETWEEN).join(padded).rstrip()
            if has_titles and number == 0 and sys.stdout.isatty():
                console.print(Text(line, style="bold"), soft_wrap=True)
            else:
                print(line)


def _padded(text: str, width: int, *, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space
