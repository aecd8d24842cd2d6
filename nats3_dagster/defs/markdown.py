"""Text of others in Markdown that the UI shows: subjects, names, keys and errors as code, so that nothing in them is a
link, an image or a column."""

import re
from typing import Any, cast


def code(text: str) -> str:
    """The text as inline code that holds in a table too, control characters and line ends by their escapes."""
    shown = re.sub(r"[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", lambda match: ascii(match[0])[1:-1], text)
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
