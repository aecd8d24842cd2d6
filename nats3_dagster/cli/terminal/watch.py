"""`--watch`: a list or a thing shown again and again, until it is interrupted."""

import json
import sys
import time
from collections.abc import Callable, Iterator
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
        "--watch",
        min=0.1,
        metavar="[=SECONDS]",
        help="Show the result every 2 s, until Ctrl-C.",
    ),
]


def looks(seconds: float, fetch: Callable[[], D]) -> Iterator[D]:
    """Yields `fetch()` every `seconds`, forever. A server that fails at a later look is a note. Raises what the first
    look raises, and OperatorError always: what is looked at is gone."""
    yield fetch()
    while True:
        # A program that reads a pipe gets each look when it was made.
        sys.stdout.flush()
        time.sleep(seconds)
        try:
            document = fetch()
        except OperatorError:
            raise
        except Nats3Error as error:
            note(f"{error.text_in(WORDS)}. Trying again in {seconds:g} s")
            continue
        yield document


def watched(seconds: float | None, output: Format, fetch: Callable[[], D], show: Callable[[D], None]) -> None:
    """Shows the result of `fetch`, once or every `seconds`. On a terminal each look replaces the one before, in a pipe
    it follows it: JSON as one document a line, YAML as one document after another. Raises as `looks`."""
    if seconds is None:
        show(fetch())
        return
    has_shown = False
    try:
        for document in looks(seconds, fetch):
            _show(output, document, show)
            has_shown = True
    except KeyboardInterrupt:
        if not has_shown:
            raise


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
