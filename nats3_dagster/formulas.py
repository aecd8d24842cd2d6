"""Formulas: fields of CSV that a spreadsheet would run, and how they are made text."""

import re
from typing import Any, Final

# How a field begins that spreadsheets run as a formula; and a number, which they do not run.
BEGINS: Final = r"([=+\-@\t\r])"
NUMBER: Final = r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_FORMULA, _IS_NUMBER = re.compile(BEGINS), re.compile(NUMBER)


def escaped(value: Any) -> Any:
    """A field with an apostrophe in front where a spreadsheet would run it as a formula."""
    if isinstance(value, str) and _FORMULA.match(value) and not _IS_NUMBER.fullmatch(value):
        return f"'{value}"
    return value
