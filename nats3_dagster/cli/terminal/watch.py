"""`--watch`: a list or a thing shown again and again, until it is interrupted."""

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from nats3_dagster.cli.terminal.output import Format
from nats3_dagster.cli.terminal.progress import note
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import Nats3Error, OperatorError

D = TypeVar("D")
# Cursor to the upper left, and clear to the end of the screen and what has left it.
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
Watch = Annotated[
    float | None,
    typer.Option(
        "--watch", min=0.1, metavar="[=SECONDS]", help="Show it again and again, every 2 s, until Ctrl-C.",
    ),
]


def watched(seconds: float | None, output: Format, fetch: Callable[[], D], show: Callable[[D], None]) -> None:
    """Show what `fetch` gives, once or every so many seconds. On a terminal each look replaces the one before, in a
    pipe it follows it: JSON as one document a line, YAML as one document after another.

    A server that fails at a later look is a note. Raises what the first look raises, and OperatorError always: what is
    looked at is gone."""
    document = fetch()
    if seconds is None:
        show(document)
        return
    try:
        _show(output, document, show)
        while True:
            time.sleep(seconds)
            try:
                document = fetch()
            except OperatorError:
                raise
            except Nats3Error as error:
                note(f"{error.text_in(WORDS)}. Trying again in {seconds:g} s")
                continue
            _show(output, document, show)
    except KeyboardInterrupt:
        return


def _show(output: Format, document: D, show: Callable[[D], None]) -> None:
    if output is Format.json:
        print(json.dumps(document))
    elif output is Format.yaml:
        print("---")
        show(document)
    else:
        if sys.stdout.isatty():
            print(_CLEAR, end="")
        show(document)
        if not sys.stdout.isatty():
            print()
    sys.stdout.flush()
