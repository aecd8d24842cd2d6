"""A plot of an hour: messages per minute, as an image inside Markdown.

Invariant: it has less than 1,000 characters. Dagster's UI shows longer Markdown behind a link only; and an hour that is
open is materialized again every minute, each time with its plot in Dagster's tables (docs/decisions.md, 16).
"""

import base64
from collections.abc import Iterable, Sequence
from itertools import groupby

LONGEST = 1000
# Pixels: a minute is 8 wide, the highest 64 high.
_WIDE, _HIGH = 8, 64


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
