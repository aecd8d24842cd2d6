"""Tables of measurements: no name and no number is cut, in a terminal of 80 columns either."""

from rich import box
from rich.console import Console
from rich.table import Table


def new_table(title: str, *columns: str, texts: tuple[str, ...] = ()) -> Table:
    """An empty table. The first column and those of `texts` are words, the others numbers; titles have a line for each
    word."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, column in enumerate(columns):
        is_text = not number or column in texts
        table.add_column(column.replace(" ", "\n"), justify="left" if is_text else "right", no_wrap=True)
    return table


def print_table(table: Table) -> None:
    """Prints the table on standard output."""
    Console().print(table)
