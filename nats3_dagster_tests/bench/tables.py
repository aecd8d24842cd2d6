"""Tables of measurements: no name and no number is cut, in a terminal of 80 columns either."""

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

# As wide as any table: what it needs is asked without a terminal's width.
_ANY_WIDTH = 1000


def new_table(title: str, *columns: str, texts: tuple[str, ...] = ()) -> Table:
    """An empty table. The first column and those of `texts` are words, the others numbers; titles have a line for each
    word."""
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for number, column in enumerate(columns):
        is_text = not number or column in texts
        table.add_column(column.replace(" ", "\n"), justify="left" if is_text else "right", no_wrap=not is_text)
    return table


def print_table(table: Table) -> None:
    """Prints the table on standard output. Texts go on in a next line between two words where there is no room; a
    table that is too wide even so is folded by the terminal."""
    console = Console()
    for column in table.columns:
        if not column.no_wrap:
            column.min_width = max(len(word) for cell in [column.header, *column.cells] for word in str(cell).split())
    needed = Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table).minimum
    console.width = max(console.width, needed)
    console.print(table)
