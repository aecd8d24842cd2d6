"""Wrapping: prose in lines of a terminal's width, broken at white space."""

import re
import sys

from rich.cells import cell_len
from rich.console import Console

# White space at which prose is wrapped: any but that between a date and its time.
_SPACE = re.compile(r"(?<!\d{4}-\d\d-\d\d) | (?!\d\d:\d\d:\d\d)")


def error_width() -> int:
    """Columns of the terminal that shows stderr; a pipe has no width, and gets every line whole."""
    return Console(stderr=True).width if sys.stderr.isatty() else 1_000_000


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of `width`, those after the first indented; a word that is longer has a line of its own, whole."""
    if cell_len(text) <= width:
        return [text]
    lines = [""]
    for word in _SPACE.split(text):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) > width and lines[-1].strip():
            lines.append(indent + word)
        else:
            lines[-1] = joined
    return lines
