"""Markdown that the UI shows: a plot, and texts of others as code, so that nothing in them is a link, an image or a
column.

Invariant: a plot has less than 1,000 characters. Dagster's UI shows longer Markdown only after a click; and an hour
that is open is materialized again every minute, each time with its plot in Dagster's tables (docs/decisions.md, 16).
"""

import base64
import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, cast

LONGEST = 1000
# Pixels: a minute is 8 wide, the highest 64 high.
_WIDE, _HIGH = 8, 64
# Control characters, line ends, turns of the direction of writing, and bytes that are not UTF-8.
_UNSEEN = re.compile(r"[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def code(text: str) -> str:
    """The text as inline code that holds in a table too; what is no character to look at, by its escape."""
    shown = _UNSEEN.sub(lambda match: ascii(match[0])[1:-1], text)
    # A cell ends at a bar, and this escape is taken away before the code is read.
    shown = shown.replace("|", r"\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", shown)), default=0) + 1)
    # A space at each end is taken away; code that begins or ends with a backtick needs one.
    pad = " " if shown.startswith(("`", " ")) or shown.endswith(("`", " ")) or not shown else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def cell(value: object) -> str:
    """A value in a table: texts as code, lists and objects by their parts, `-` for what is not there."""
    if isinstance(value, str):
        return code(value) if value else "-"
    if isinstance(value, list | tuple):
        return ", ".join(cell(one) for one in cast("list[Any]", value)) or "-"
    if isinstance(value, dict):
        return " ".join(f"{name} {cell(one)}" for name, one in cast("dict[str, Any]", value).items())
    return "-" if value is None else str(value)


def messages_per_minute(hour: str, counts: Iterable[Sequence[int]]) -> str | None:
    """Markdown that shows the counts, 60 of each chunk, summed. None when there are none."""
    minutes = [sum(column) for column in zip(*counts, strict=True)]
    if not minutes:
        return None
    image = base64.b64encode(_svg(hour, minutes).encode()).decode()
    return f"![messages per minute](data:image/svg+xml;base64,{image})"


def _svg(hour: str, minutes: Sequence[int]) -> str:
    """One outline over all minutes, the hour under its begin and the highest count under its end. A minute that has a
    message is a pixel high at least."""
    most = max(minutes)
    heights = [0 if not count else max(1, count * _HIGH // most) for count in minutes]
    steps = "".join(f"V{_HIGH - height}h{_WIDE * len(list(run))}" for height, run in groupby(heights))
    width = _WIDE * len(minutes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HIGH + 16}" font-size="12" fill="#46e">'
        f'<path d="M0 {_HIGH}{steps}V{_HIGH}z"/><text y="{_HIGH + 13}">{hour[11:]}</text>'
        f'<text x="{width}" y="{_HIGH + 13}" text-anchor="end">most {most:,} a minute</text></svg>'
    )
